"""Hosts of a fleet, each a process with a store of its own; a folder tells what was acknowledged and when to end."""

import hashlib
import multiprocessing
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

from pega_tune.profiles.policy.checks import HOLDS, Check
from pega_tune.profiles.store.records import EvidenceKind, EvidenceRecord, ProfileRecord
from pega_tune.profiles.store.store import Store
from tests.helpers.bundles import bundle
from tests.helpers.cli import wait_until
from tests.helpers.store import DEVICE, NOW, host_view, profile_record, sweep_record

CHECKED = "c0ffee"
"""The profile that all publishers verify, each on its own board."""

_TURNS = 1_000_000


@dataclass(frozen=True, slots=True)
class Ground:
    """What hosts share.

    Attributes:
        url: of the fleet's database.
        folder: where each publisher notes what was acknowledged, and the end is told.
    """

    url: str
    folder: Path

    def prepare(self, publishers: int) -> None:
        """Stores a sweep of each publisher's, and the profile that they verify."""
        with Store.open(self.url, host=host_view()) as store:
            store.import_bundle(bundle(profile_id=CHECKED, sweep_id="c0ffee00"))
            for number in range(publishers):
                store.add_sweep(sweep_record(f"aa{number}", device=replace(DEVICE, uuid=board(number))))

    def acknowledged(self) -> set[str]:
        """The profiles that a publisher was told are there."""
        lines = (line for notes in self.folder.glob("publisher-*") for line in notes.read_text().splitlines(True))
        return {line.rstrip() for line in lines if line.endswith("\n")}  # else it is being written

    def begin(self, name: str) -> None:
        """Tells that a host has opened its store."""
        (self.folder / f"began-{name}").touch()

    @property
    def began(self) -> int:
        """How many have."""
        return len(list(self.folder.glob("began-*")))

    @property
    def over(self) -> bool:
        """Whether hosts should end."""
        return self._end.exists()

    def end(self) -> None:
        """Tells them."""
        self._end.touch()

    @property
    def _end(self) -> Path:
        return self.folder / "over"


def publish(ground: Ground, number: int) -> int:
    """Adds profiles, measured here and elsewhere, and what was found of one that is there; notes each in its turn."""
    with (
        Store.open(ground.url, create=False, host=host_view()) as store,
        (ground.folder / f"publisher-{number}").open("w") as notes,
    ):
        ground.begin(f"publisher-{number}")
        for turn in range(_TURNS):
            if ground.over:
                return turn
            name = f"{_TURNS * number + turn:09x}"
            if turn % 2:
                store.import_bundle(bundle(profile_id=name, sweep_id=f"of{name}"))
            else:
                store.add_profile(_published(name, f"aa{number}"))
            print(name, file=notes, flush=True)
            store.take_checks(CHECKED, [_found(number, turn)])
    return _TURNS


def pull(ground: Ground, number: int) -> int:
    """Reads all profiles: those acknowledged before must be there, and each must be whole."""
    with Store.open(ground.url, create=False, host=host_view()) as store:
        ground.begin(f"puller-{number}")
        for turn in range(_TURNS):
            if ground.over:
                return turn
            before = ground.acknowledged()
            found = {profile.profile_id: profile for profile in store.profiles() if profile.profile_id != CHECKED}
            assert found.keys() >= before, f"lost: {sorted(before - found.keys())}"
            for name, profile in found.items():
                assert hashlib.sha256(profile.compiled).hexdigest() == profile.digest, f"torn: {name}"
                assert len(profile.fits) == (0 if int(name, 16) % 2 else 2), f"torn: {name}"
    return _TURNS


@contextmanager
def hosts(ground: Ground, crowds: dict[Callable[[Ground, int], int], int]) -> Iterator[list[Future[int]]]:
    """So many processes of each kind, all at work; at the end of the block they end.

    Yields:
        How often each did its work; or what went wrong there, raised where it is asked for.
    """
    # All begin as copies of one that has imported what they need, and shares no connection with the tests.
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    with ProcessPoolExecutor(sum(crowds.values()), context) as pool:
        try:
            working = [pool.submit(work, ground, number) for work, count in crowds.items() for number in range(count)]
            wait_until(lambda: ground.began == len(working) or any(map(Future.done, working)), "the work of all hosts")
            yield working
        finally:
            ground.end()


def board(number: int) -> str:
    """UUID of the device of a publisher."""
    return f"GPU-{number}"


def _published(name: str, sweep_id: str) -> ProfileRecord:
    """A profile with tables of its own."""
    compiled = name.encode() * 500
    return profile_record(name, sweep_id, compiled=compiled, digest=hashlib.sha256(compiled).hexdigest())


def _found(number: int, turn: int) -> EvidenceRecord:
    check = Check(board(number), DEVICE.staleness, HOLDS, f"lab-{number}")
    return EvidenceRecord(EvidenceKind.CANARY, NOW + timedelta(seconds=turn), verdict=HOLDS, detail=check.to_json())
