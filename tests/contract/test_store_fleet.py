"""Many hosts on one server that crashes meanwhile: whatever was acknowledged is there, and whatever is read is whole.

`pytest tests/contract/test_store_fleet.py --fleet-seconds 60` is the full measure.
"""

import hashlib
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pytest

from pega_tune.profiles.store.errors import DatabaseBusyError, StoreError
from pega_tune.profiles.store.records import ProfileRecord
from pega_tune.profiles.store.store import Store
from tests.helpers.bundles import bundle
from tests.helpers.places import Place, plain, server_place
from tests.helpers.postgresql import Server
from tests.helpers.store import DEVICE, block_record, host_view, profile_record, sweep_record

PUBLISHERS = 8
PULLERS = 16


@pytest.fixture
def place(postgresql: Server) -> Place:
    return server_place(postgresql)


@dataclass
class Fleet:
    """What the hosts share beside the server: what was acknowledged, what went wrong, and when to stop."""

    url: str
    acknowledged: set[str] = field(default_factory=set)
    pulls: int = 0
    failures: list[BaseException] = field(default_factory=list)
    over: threading.Event = field(default_factory=threading.Event)

    def start(self, turn: Callable[[Store, int], None], number: int) -> threading.Thread:
        """A host that takes turns, with a store of its own, until all is over."""

        def live() -> None:
            try:
                with Store.open(self.url, create=False, host=host_view()) as store:
                    for count in range(1_000_000):
                        if self.over.is_set():
                            break
                        turn(store, 1_000_000 * number + count)
            except BaseException as error:
                self.failures.append(error)

        thread = threading.Thread(target=live)
        thread.start()
        return thread

    def publish(self, store: Store, turn: int) -> None:
        """Adds a profile, measured here or elsewhere, of a board of this publisher."""
        name = f"{turn:09x}"
        if turn % 2:
            store.import_bundle(bundle(profile_id=name, sweep_id=f"of{name}"))
        else:
            store.add_profile(published(name, f"aa{turn // 1_000_000}"))
        self.acknowledged.add(name)

    def pull(self, store: Store, _turn: int) -> None:
        """Reads all profiles: those acknowledged before must be there, and each must be whole."""
        before = set(self.acknowledged)
        found = {profile.profile_id: profile for profile in store.profiles()}
        assert found.keys() >= before
        for name, profile in found.items():
            assert hashlib.sha256(profile.compiled).hexdigest() == profile.digest
            assert len(profile.fits) == (0 if int(name, 16) % 2 else 2)
        self.pulls += 1


def published(name: str, sweep_id: str) -> ProfileRecord:
    """A profile with tables of its own."""
    compiled = name.encode() * 500
    return profile_record(name, sweep_id, compiled=compiled, digest=hashlib.sha256(compiled).hexdigest())


def test_a_server_that_crashes_loses_nothing(request: pytest.FixtureRequest, postgresql: Server, place: Place) -> None:
    seconds: float = request.config.getoption("--fleet-seconds")
    fleet = Fleet(place.url)
    with Store.open(place.url, host=host_view()) as store:
        for number in range(PUBLISHERS):
            board = replace(DEVICE, uuid=f"GPU-{number}")
            store.add_sweep(sweep_record(f"aa{number}", device=board))
    threads = [fleet.start(fleet.publish, number) for number in range(PUBLISHERS)]
    threads += [fleet.start(fleet.pull, number) for number in range(PULLERS)]
    try:
        time.sleep(seconds / 2)
        postgresql.stop(signal.SIGQUIT)
        before = len(fleet.acknowledged)
        postgresql.start()
        time.sleep(seconds / 2)
    finally:
        fleet.over.set()
        for thread in threads:
            thread.join()
    assert fleet.failures == []
    with Store.open(place.url, read_only=True, host=host_view()) as store:
        stored = {profile.profile_id for profile in store.profiles()}
    assert stored >= fleet.acknowledged
    assert 0 < before < len(fleet.acknowledged)
    assert fleet.pulls > PULLERS


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
