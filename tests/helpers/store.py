"""Records to store, databases to store them in, and processes that get in each other's way."""

import hashlib
import multiprocessing
import os
import sqlite3
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, event

from pega_tune.kernels.facts import DeviceFacts, Identity, Link, Provenance, Staleness
from pega_tune.kernels.plan import PlanPair, Variant, direct, kernel
from pega_tune.kernels.shape import Direction, TransferShape
from pega_tune.profiles.policy.terms import Colocation, ProfileState
from pega_tune.profiles.store.errors import DatabaseRefusedError, SweepRunningError
from pega_tune.profiles.store.host import HostView
from pega_tune.profiles.store.migrate import upgrade
from pega_tune.profiles.store.records import (
    BlockFlag,
    BlockRecord,
    CellRecord,
    FitRecord,
    MeasurementRecord,
    Metric,
    ProfileRecord,
    SweepRecord,
    SweepState,
)
from pega_tune.profiles.store.store import Store

LOCAL_MOUNTS = "22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw\n"
NETWORK_MOUNTS = "22 1 0:40 / / rw,relatime shared:1 - nfs4 server:/export rw\n"
HOST = "lab-7"
NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
NOBODY = 65534

DEVICE = DeviceFacts(
    uuid="GPU-11111111-2222-3333-4444-555555555555",
    identity=Identity(
        compute_capability=(9, 0),
        sm_count=132,
        memory_gib=140,
        copy_engines=3,
        pci_device_id="10de:2335",
        max_link=Link(5, 16),
        host_cpu="Some CPU",
        iommu=False,
    ),
    staleness=Staleness(driver="580.1", cuda="13.0", host_kernel="6.1", trained_link=Link(5, 16)),
    provenance=Provenance(name="NVIDIA H200", host=HOST, max_sm_clock_hz=1_980_000_000),
)
SIMULATED = replace(DEVICE, uuid="sim:h200")


def sqlite_url(path: Path) -> str:
    return f"sqlite:///{path}"


def host_view(mounts: str = LOCAL_MOUNTS, **changes: Any) -> HostView:
    """A machine with one mount, on which the processes that exist really exist."""
    return replace(HostView(name=HOST, mountinfo=lambda: mounts, now=lambda: NOW), **changes)


def sweep_record(sweep_id: str = "aa11", **changes: Any) -> SweepRecord:
    record = SweepRecord(
        sweep_id=sweep_id,
        device=DEVICE,
        preset="quick",
        seed=7,
        request='{"colocation":["idle"]}',
        method_version=1,
        kernel_digest="k" * 64,
        environment='{"CUDA_DEVICE_ORDER":null}',
        planned_blocks=3,
        state=SweepState.RUNNING,
        started_at=NOW,
        seconds=0.0,
        pid=os.getpid(),
        host=HOST,
    )
    return replace(record, **changes)


def cell_record(name: str = "kernel", **changes: Any) -> CellRecord:
    record = CellRecord(
        name=name,
        kind="plan",
        plan=PlanPair(kernel(Variant.WARP, 2, 1024, -5), direct()),
        status="ok",
        verified=True,
        measurements=(
            MeasurementRecord(Metric.TRANSFER, (0.001, 0.0011, 0.25), flags=("outliers",)),
            MeasurementRecord(Metric.PREPARE, (1e-6,), status="too-few"),
        ),
    )
    return replace(record, **changes)


def block_record(key: str = "b1", **changes: Any) -> BlockRecord:
    record = BlockRecord(
        key=key,
        shape=TransferShape(16384, 2**40, Direction.BOTH, host_runs=12, alignment=16, pitch=8192),
        colocation=Colocation.IDLE,
        seed=2**62,
        seconds=1.5,
        cells=(
            cell_record(),
            cell_record("dead", status="crashed", verified=False, detail="signal 9", measurements=()),
            cell_record("ceiling", kind="ceiling", plan=direct()),
        ),
        flags=(BlockFlag.THROTTLED, BlockFlag.SLOW_LINK),
        sm_clock_hz=1_980_000_000,
        link=Link(5, 16),
        temperature_c=54,
        throttle_reasons=("sw-power-cap",),
    )
    return replace(record, **changes)


def serving_block(key: str = "s1") -> BlockRecord:
    """A block beside decode, with every kind of measurement."""
    measurements = tuple(MeasurementRecord(metric, (0.01, 0.02)) for metric in Metric)
    return block_record(
        key,
        colocation=Colocation.TIME_SLICED,
        period_s=0.05,
        decode="builtin:llama-8b",
        cells=(cell_record(measurements=measurements),),
        flags=(),
        link=None,
        sm_clock_hz=None,
        temperature_c=None,
        throttle_reasons=(),
        telemetry_note="no NVML here",
    )


def profile_record(profile_id: str = "ff01", sweep_id: str = "aa11", **changes: Any) -> ProfileRecord:
    compiled = b"\x00tables\xff"
    record = ProfileRecord(
        profile_id=profile_id,
        sweep_id=sweep_id,
        device=DEVICE,
        state=ProfileState.PUBLISHED,
        reasons=(),
        created_at=NOW + timedelta(minutes=1),
        compiled=compiled,
        digest=hashlib.sha256(compiled).hexdigest(),
        kernel_digest="k" * 64,
        method_version=1,
        fits=(
            FitRecord("kernel/warp", "h2d", Colocation.IDLE, "saturating", {"a0": 1e-5, "bandwidth": 5.5e10}, 0.03),
            FitRecord("direct", "d2h", Colocation.IDLE, "linear", reason="3 points are too few"),
        ),
    )
    return replace(record, **changes)


def rows(path: Path, sql: str) -> list[tuple[Any, ...]]:
    """What a plain SQLite client sees."""
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(sql).fetchall()


def counts(path: Path) -> dict[str, int]:
    """Rows of every table."""
    tables = [name for (name,) in rows(path, "SELECT name FROM sqlite_master WHERE type = 'table'")]
    return {table: rows(path, f'SELECT count(*) FROM "{table}"')[0][0] for table in tables}


@contextmanager
def unprivileged_folder() -> Iterator[Path]:
    """A folder that anybody can reach; pytest's own are closed to all but their owner."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


@contextmanager
def unprivileged() -> Iterator[None]:
    """As somebody whom file modes bind: root is not, so root becomes another user for as long."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


def in_processes(work: Callable[..., None], arguments: list[tuple[Any, ...]]) -> list[int | None]:
    """Exit codes of one fresh process per entry of `arguments`, all started at once."""
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=work, args=argument) for argument in arguments]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    return [process.exitcode for process in processes]


def open_and_add_blocks(url: str, mounts: str, sweep_id: str, keys: list[str]) -> None:
    """What one of several sweeping processes does; it starts with a database that may not exist."""
    with Store.open(url, host=host_view(mounts)) as store:
        store.add_sweep(sweep_record(sweep_id))
        for key in keys:
            store.add_block(sweep_id, block_record(key))


def claim_for_parent(url: str, mounts: str, sweep_id: str) -> None:
    """Exit code 0 if this process may resume the sweep, 3 if another has it. The parent outlives all that try."""
    with Store.open(url, host=host_view(mounts)) as store:
        try:
            store.claim(sweep_id, os.getppid(), HOST)
        except SweepRunningError:
            sys.exit(3)


def upgrade_once(url: str) -> None:
    """What one of several upgrading processes does."""
    upgrade(url)


def die_after_each_statement(urls: list[str], scripts: Path | None) -> None:
    """Upgrades the K-th database and dies right after its K-th changing statement, for every K from 1."""
    for last, url in enumerate(urls, 1):
        child = os.fork()
        if child == 0:
            with counting_changes(lambda number, last=last: os._exit(9) if number == last else None):
                upgrade(url, scripts=scripts)
            os._exit(1)
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 9, f"statement {last}: {status}"


def publish_until_refused(url: str, number: int, acknowledged: Path) -> None:
    """Adds profiles and notes each that was acknowledged, until another version has upgraded the database."""
    with Store.open(url, host=host_view()) as store, acknowledged.open("w") as notes:
        try:
            for count in range(10_000):
                store.add_profile(profile_record(f"{number}-{count}"))
                print(f"{number}-{count}", file=notes, flush=True)
        except DatabaseRefusedError:
            return
    sys.exit(3)


@contextmanager
def counting_changes(after: Callable[[int], None]) -> Iterator[None]:
    """Calls `after` with 1, 2, ... after each statement that changes a database, whoever runs it."""
    number = 0

    def executed(connection: Any, cursor: Any, statement: str, *rest: Any) -> None:
        nonlocal number
        if statement.split(maxsplit=1)[0].upper() in {"CREATE", "ALTER", "DROP", "INSERT", "UPDATE", "DELETE"}:
            number += 1
            after(number)

    event.listen(Engine, "after_cursor_execute", executed)
    try:
        yield
    finally:
        event.remove(Engine, "after_cursor_execute", executed)
