from dataclasses import dataclass, field

import pytest

from pega_tune.autotune.cuda.sampling import LoadSampler
from pega_tune.autotune.engine import Conditions
from pega_tune.kernels.facts import Link
from pega_tune.kernels.telemetry import TelemetrySample

IDLE = TelemetrySample(345_000_000, Link(1, 16), (), 30)
BUSY = TelemetrySample(1_980_000_000, Link(5, 16), (), 40)
HOT = TelemetrySample(1_200_000_000, Link(5, 16), ("hw-thermal-slowdown",), 90)


@dataclass
class FakeSource:
    samples: list[TelemetrySample]
    pids: list[tuple[int, ...] | None] = field(default_factory=lambda: [(42,)])
    unknown: str = ""

    def sample(self) -> TelemetrySample:
        return self.samples.pop(0)

    def compute_pids(self) -> tuple[int, ...] | None:
        return self.pids.pop(0) if len(self.pids) > 1 else self.pids[0]


def _conditions(source: FakeSource, before: tuple[int, ...] | None = ()) -> Conditions:
    sampler = LoadSampler(source, 42, before)
    sampler.begin()
    for _ in range(len(source.samples)):
        sampler.sample()
    return sampler.conditions()


def test_the_link_is_the_one_it_had_under_load() -> None:
    assert _conditions(FakeSource([IDLE, BUSY, IDLE])).link == Link(5, 16)


def test_a_link_that_never_comes_up_is_seen() -> None:
    slow = TelemetrySample(1_980_000_000, Link(2, 16), (), 40)
    assert _conditions(FakeSource([IDLE, slow])).link == Link(2, 16)


def test_what_slowed_the_device_once_is_named() -> None:
    conditions = _conditions(FakeSource([BUSY, HOT, BUSY]))
    assert conditions.throttle_reasons == ("hw-thermal-slowdown",)
    assert conditions.temperature_c == 90
    assert conditions.sm_clock_hz == 1_980_000_000
    assert conditions.unknown == ""


def test_a_neighbour_that_came_or_left_is_named() -> None:
    assert _conditions(FakeSource([BUSY], [(42,), (7, 42)])).other_processes == (7,)
    assert _conditions(FakeSource([BUSY], [(7, 42), (42,)])).other_processes == (7,)
    assert _conditions(FakeSource([BUSY])).other_processes == ()


def test_a_block_does_not_remember_the_last_one() -> None:
    source = FakeSource([HOT, BUSY], [(7, 42), (42,)])
    sampler = LoadSampler(source, 42, None)
    sampler.begin()
    sampler.sample()
    sampler.begin()
    sampler.sample()
    conditions = sampler.conditions()
    assert (conditions.throttle_reasons, conditions.other_processes) == ((), ())


def test_missing_telemetry_says_why() -> None:
    assert _conditions(FakeSource([TelemetrySample()], [None], "NVML is gone")).unknown == "NVML is gone"
    assert _conditions(FakeSource([])).unknown == "no sample was taken under load"
    partial = TelemetrySample(None, Link(5, 16), None, 40)
    assert _conditions(FakeSource([partial])).unknown == "NVML does not tell: SM clock, clock event reasons"


def test_telemetry_that_was_there_once_is_not_missing() -> None:
    assert _conditions(FakeSource([TelemetrySample(), BUSY])).unknown == ""


def _adopted(pids: list[tuple[int, ...] | None], ours: tuple[int, ...], mine: int = 42) -> tuple[int, ...] | None:
    """The others, after processes of ours have made the second of the listings out of the first."""
    source = FakeSource([], pids)
    sampler = LoadSampler(source, mine, ())
    sampler.adopt(ours, sampler.present())
    return sampler.others()


def test_a_process_that_works_for_us_is_no_neighbour() -> None:
    assert _adopted([(42,), (42, 50)], (50,)) == ()
    assert _adopted([(42,), (42, 50), (7, 42, 50)], (50,)) == (7,)


def test_a_stranger_that_appears_with_a_process_of_ours_stays_one() -> None:
    assert _adopted([(42,), (7, 42, 50)], (50,)) == (7,)
    assert _adopted([(7, 42), (7, 42, 50)], (50,)) == (7,)


def test_a_process_of_ours_in_another_namespace_is_what_has_appeared() -> None:
    assert _adopted([(900,), (900, 901)], (50,)) == ()
    assert _adopted([(900,), (900, 901, 902)], (50,)) == (900, 901, 902)


def test_where_nothing_is_listed_nobody_is_adopted() -> None:
    assert _adopted([None, None], (50,)) is None
    assert _adopted([(42,), None, (42, 7)], (50,)) == (7,)


@pytest.mark.parametrize("listed", [(42, 60), (900, 901)])
def test_a_server_that_appears_with_our_context_is_no_neighbour(listed: tuple[int, ...]) -> None:
    sampler = LoadSampler(FakeSource([], [listed, listed, (*listed, 7), (8,)]), 42, ())
    sampler.adopt((42, 60))
    assert sampler.others() == ()
    assert sampler.others() == (7,)
    assert sampler.others() == (8,)
