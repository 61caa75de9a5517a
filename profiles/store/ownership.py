"""Whether the process that runs a sweep is still there."""

from dataclasses import replace
from datetime import timedelta

from pega_tune.profiles.store import models
from pega_tune.profiles.store.host import HostView
from pega_tune.profiles.store.mapping import sweep_record
from pega_tune.profiles.store.records import SweepRecord, SweepState
from pega_tune.profiles.store.values import decode_time, encode_time

# A process on another host cannot be looked up. A sweep stores a block every few seconds, and no block takes minutes,
# so one that has been silent for this long is taken for dead.
SILENCE = timedelta(minutes=15)


def take(row: models.Sweep, host: HostView) -> None:
    """Notes, beside the row's pid and host, what tells its process from a later one with the same id."""
    if row.pid is not None and row.host == host.name:
        row.process_token = host.process_token(row.pid)
    else:
        row.process_token = None


def touch(row: models.Sweep, host: HostView) -> None:
    """Notes that the sweep has just written."""
    row.seen_at = encode_time(host.now(), "sweep.seen_at")


def is_alive(row: models.Sweep, host: HostView) -> bool:
    """Whether the process that runs the sweep is there; of processes elsewhere, whether it was heard of lately."""
    if row.pid is not None and row.host == host.name:
        return row.process_token is not None and host.process_token(row.pid) == row.process_token
    return host.now() - decode_time(row.seen_at) < SILENCE


def as_seen(row: models.Sweep, host: HostView) -> SweepRecord:
    """The sweep's record: interrupted if the row says that it runs but its process is gone."""
    record = sweep_record(row)
    if record.state is not SweepState.RUNNING or is_alive(row, host):
        return record
    reason = f"its process is gone (pid {row.pid} on {row.host})" if row.pid else "nothing was heard of it for long"
    return replace(record, state=SweepState.INTERRUPTED, reasons=(*record.reasons, reason))
