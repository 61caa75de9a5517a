"""Many hosts on one server that crashes meanwhile: whatever was acknowledged is there, and whatever is read is whole.

`pytest tests/contract/test_store_fleet.py --fleet-seconds 60` is the full measure.
"""

import signal
import time
from itertools import pairwise
from pathlib import Path

import pytest

from pega_tune.profiles.store.errors import DatabaseBusyError, StoreError
from pega_tune.profiles.store.store import Store
from pega_tune.profiles.store.verdicts import checks_of
from tests.helpers.fleet_hosts import CHECKED, Ground, board, hosts, publish, pull
from tests.helpers.places import Place, plain, server_place
from tests.helpers.postgresql import Server
from tests.helpers.store import block_record, host_view, sweep_record

PUBLISHERS = 8
PULLERS = 16


@pytest.fixture
def place(postgresql: Server) -> Place:
    return server_place(postgresql)


def test_a_server_that_crashes_loses_nothing(
    request: pytest.FixtureRequest, postgresql: Server, place: Place, tmp_path: Path
) -> None:
    seconds: float = request.config.getoption("--fleet-seconds")
    ground = Ground(place.url, tmp_path)
    ground.prepare(PUBLISHERS)
    with hosts(ground, {publish: PUBLISHERS, pull: PULLERS}) as working:
        time.sleep(seconds / 2)
        postgresql.stop(signal.SIGQUIT)
        before = len(ground.acknowledged())
        postgresql.start()
        time.sleep(seconds / 2)
    turns = [work.result() for work in working]
    acknowledged = ground.acknowledged()
    with Store.open(place.url, read_only=True, host=host_view()) as store:
        assert {profile.profile_id for profile in store.profiles()} >= acknowledged
    assert 0 < before < len(acknowledged)
    assert sum(turns[PUBLISHERS:]) > PULLERS
    assert_verdicts(place, turns[:PUBLISHERS])


def assert_verdicts(place: Place, turns: list[int]) -> None:
    """Of each publisher the last verdict is there, each once and none after a newer one."""
    with Store.open(place.url, read_only=True, host=host_view()) as store:
        evidence = store.evidence(CHECKED)
    boards = [check.board for check in checks_of(evidence)]
    for number, count in enumerate(turns):
        times = [record.recorded_at for record, of in zip(evidence, boards, strict=True) if of == board(number)]
        assert len(times) == count
        assert all(earlier < later for earlier, later in pairwise(times))


def test_a_row_that_somebody_keeps_is_waited_for_and_then_given_up(place: Place) -> None:
    with Store.open(place.url, host=host_view(busy_timeout_s=0.01, give_up_s=0.05)) as store:
        store.add_sweep(sweep_record())
        with plain(place.url) as keeper:
            keeper.exec_driver_sql("SELECT * FROM sweep FOR UPDATE")
            with pytest.raises(DatabaseBusyError):
                store.add_block("aa11", block_record())
        assert store.add_block("aa11", block_record())


def test_a_server_that_stays_away_is_given_up(postgresql: Server, place: Place) -> None:
    with Store.open(place.url, host=host_view(give_up_s=0.05)) as store:
        postgresql.stop()
        try:
            with pytest.raises(StoreError, match="is not usable"):
                store.profiles()
        finally:
            postgresql.start()
        assert store.profiles() == ()
