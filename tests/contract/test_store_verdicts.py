"""What checks of a profile found on many hosts comes together in one database."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta

import pytest

from pega_tune.profiles.policy.checks import DRIFTED, HOLDS, Check
from pega_tune.profiles.store.errors import NotFoundError, RecordDamagedError
from pega_tune.profiles.store.records import EvidenceKind, EvidenceRecord
from pega_tune.profiles.store.store import Store
from pega_tune.profiles.store.verdicts import checks_of
from tests.helpers.bundles import DEVICE, bundle
from tests.helpers.places import Place
from tests.helpers.store import NOW, host_view, in_processes


@pytest.fixture
def store(place: Place) -> Iterator[Store]:
    with Store.open(place.url, host=host_view()) as opened:
        opened.import_bundle(bundle())
        yield opened


def found(board: str, second: int, verdict: str = HOLDS) -> EvidenceRecord:
    detail = Check(board, DEVICE.staleness, verdict, "lab-9").to_json()
    return EvidenceRecord(EvidenceKind.CANARY, NOW + timedelta(seconds=second), verdict=verdict, detail=detail)


def test_of_each_device_the_newest_is_taken_and_only_once(store: Store) -> None:
    known = (found("GPU-1", 1), found("GPU-2", 2), found("GPU-1", 3, DRIFTED))
    assert store.take_checks("abc", known) == 2
    assert store.evidence("abc123") == (known[2], known[1])
    assert store.take_checks("abc123", known) == 0
    assert store.take_checks("abc123", [found("GPU-1", 2)]) == 0
    assert store.take_checks("abc123", [found("GPU-1", 4)]) == 1


def test_of_one_moment_the_last_is_the_newest(store: Store) -> None:
    assert store.take_checks("abc123", [found("GPU-1", 1, DRIFTED), found("GPU-1", 1, HOLDS)]) == 1
    assert [record.verdict for record in store.evidence("abc123")] == [HOLDS]


def test_what_cannot_be_taken_leaves_nothing(store: Store) -> None:
    with pytest.raises(NotFoundError):
        store.take_checks("fff", [found("GPU-1", 1)])
    unreadable = replace(found("GPU-2", 1), detail="{}")
    with pytest.raises(RecordDamagedError, match="what a check of a profile found"):
        store.take_checks("abc123", [found("GPU-1", 1), unreadable])
    assert store.take_checks("abc123", [found("GPU-1", 86_400 * 30)]) == 0
    assert store.evidence("abc123") == ()


def test_many_hosts_at_once_lose_none_and_double_none(store: Store, place: Place) -> None:
    arguments = [(place.url, [f"GPU-{number}", f"GPU-{number + 1}"]) for number in range(3)]
    assert in_processes(take_in_turn, arguments) == [0, 0, 0]
    checks = checks_of(store.evidence("abc123"))
    for board in ("GPU-0", "GPU-1", "GPU-2", "GPU-3"):
        staleness = [check.staleness.driver for check in checks if check.board == board]
        assert staleness == sorted(set(staleness))
        assert staleness[-1] == "driver 9"


def take_in_turn(url: str, boards: list[str]) -> None:
    """What one of several pushing processes does; two push for the same device."""
    with Store.open(url, host=host_view()) as store:
        for second in range(10):
            staleness = replace(DEVICE.staleness, driver=f"driver {second}")
            for board in boards:
                detail = Check(board, staleness, HOLDS).to_json()
                store.take_checks("abc123", [replace(found(board, second), detail=detail)])
