import re
from collections.abc import Collection, Iterator
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from pega_tune.autotune.engine import Capabilities, Conditions, Engine, Measurement, MemoryLimitError, TransferBlock
from pega_tune.autotune.sim.engine import SimEngine
from pega_tune.autotune.sweep.run import METHOD_VERSION
from pega_tune.autotune.verify.canary import Subject, Terms, load_subject, verify
from pega_tune.autotune.verify.lookup import profile_in_use
from pega_tune.autotune.verify.probes import Probe
from pega_tune.autotune.verify.verification import Verdict, Verification
from pega_tune.errors import UsageError
from pega_tune.kernels.facts import DeviceFacts, Link
from pega_tune.kernels.shape import Direction
from pega_tune.profiles.store.store import Store
from tests.helpers.scaled import kinds, scale_kind
from tests.helpers.sweeps import ManualClock, sim_engine

LONG_S = 1e3


def _subject(path: Path) -> Subject:
    with Store.open(f"sqlite:///{path}", create=False, read_only=True) as store:
        return load_subject(store, profile_in_use(store, sim_engine().facts))


@pytest.fixture(scope="session")
def subject(swept: Path) -> Subject:
    return _subject(swept)


def _verify(subject: Subject, engine: Engine | None = None, seed: int = 0, until_s: float = LONG_S) -> Verification:
    return verify(subject, engine or sim_engine(), Terms(until_s, seed=seed, clock=ManualClock()))


class Changed:
    """A simulated H200 on which something is not as it was."""

    def __init__(self, *faults: str) -> None:
        self._sim: SimEngine = sim_engine(*faults)
        self.blocks: list[TransferBlock] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sim, name)

    @property
    def facts(self) -> DeviceFacts:
        return self._sim.facts

    def capabilities(self) -> Capabilities:
        return self._sim.capabilities()

    def transfer(self, block: TransferBlock) -> Iterator[Measurement]:
        self.blocks.append(block)
        return self._sim.transfer(block)

    def conditions(self) -> Conditions:
        return self._sim.conditions()


class Ticking(Changed):
    """A device on which every block takes its time."""

    def __init__(self, clock: ManualClock, block_s: float, *faults: str) -> None:
        super().__init__(*faults)
        self._clock = clock
        self._block_s = block_s

    def transfer(self, block: TransferBlock) -> Iterator[Measurement]:
        self._clock.elapsed_s += self._block_s
        return super().transfer(block)


def test_the_shapes_are_canonical_ones_and_some_of_each_direction(subject: Subject) -> None:
    assert [probe.shape.direction for probe in subject.probes[:3]] == list(Direction)
    assert {probe.shape.merged_ranges for probe in subject.probes[:3]} == {16_384}
    assert len(subject.probes) == 12
    for probe in subject.probes:
        assert probe.plans[0] == probe.chosen.plan
        assert len(probe.stored) in (1, 2)
    assert sum(len(probe.stored) == 2 for probe in subject.probes) >= 9  # the second pass measured them, too


@pytest.mark.parametrize("seed", range(10))
def test_an_unchanged_device_holds(subject: Subject, seed: int) -> None:
    found = _verify(subject, seed=seed)
    assert (found.verdict, found.reasons) == (Verdict.HOLDS, ())
    assert len(found.cells) > 20
    assert all(cell.change is not None for cell in found.cells)


def test_a_kind_of_plan_that_was_stored_slower_has_drifted(swept: Path, tmp_path: Path) -> None:
    seen = kinds(swept)
    assert {"batch", "direct", "kernel/block", "kernel/warp"} <= set(seen)
    for kind in ("batch", "direct", "kernel/block", "kernel/warp"):
        target = tmp_path / f"{kind.replace('/', '-')}.db"
        assert scale_kind(swept, target, kind, 1.15) > 10
        found = [_verify(_subject(target), seed=seed) for seed in range(3)]
        assert {one.verdict for one in found} == {Verdict.DRIFTED}
        assert {reason.partition(":")[0] for one in found for reason in one.reasons} == {kind}
        assert "0.87 times as long as stored compared with contiguous copies" in found[0].reasons[0]


class Slower(Changed):
    """All of it takes a quarter longer, as over a slower link."""

    def transfer(self, block: TransferBlock) -> Iterator[Measurement]:
        for taken in super().transfer(block):
            yield replace(taken, transfer_s=1.25 * taken.transfer_s)


def test_a_change_of_everything_shows_in_the_contiguous_copies(subject: Subject) -> None:
    found = _verify(subject, Slower())
    assert found.verdict is Verdict.DRIFTED
    assert [reason.partition(":")[0] for reason in found.reasons] == [
        f"contiguous copy {direction}" for direction in Direction
    ]


class Hogged(Changed):
    """A neighbour that nobody sees takes its share of the link, now less, now more."""

    def transfer(self, block: TransferBlock) -> Iterator[Measurement]:
        random = Random(block.seed)
        for taken in super().transfer(block):
            yield replace(taken, transfer_s=taken.transfer_s * random.uniform(1.1, 2.0))


@pytest.mark.parametrize("seed", range(5))
def test_beside_a_neighbour_on_the_link_nothing_holds(subject: Subject, seed: int) -> None:
    assert _verify(subject, Hogged(), seed=seed).verdict is not Verdict.HOLDS


class SlowLink(Changed):
    """The link trains to a lower generation."""

    def conditions(self) -> Conditions:
        return replace(super().conditions(), link=Link(4, 16))


def test_a_link_that_trains_lower_has_drifted(subject: Subject) -> None:
    found = _verify(subject, SlowLink())
    assert found.verdict is Verdict.DRIFTED
    assert found.reasons == ("under load the link is PCIe 4.0 x16, and was PCIe 5.0 x16",)
    assert found.stale == ("trained_link",)
    assert found.device.staleness.trained_link == Link(4, 16)


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("busy", "other processes use the device (process id 4242424): times would not be its own"),
        ("contended", "other processes used the device while it was measured"),
        ("throttled", "the device was throttled while it was measured"),
    ],
)
def test_a_disturbed_device_tells_nothing(fault: str, words: str, subject: Subject) -> None:
    clock = ManualClock()
    found = verify(subject, Ticking(clock, 1.0, fault), Terms(12.0, clock=clock))
    assert (found.verdict, found.reasons) == (Verdict.INCONCLUSIVE, (words,))


class PassingTrouble(Changed):
    """A neighbour that leaves after the first few blocks."""

    def conditions(self) -> Conditions:
        others = (77,) if len(self.blocks) < 5 else ()
        return replace(super().conditions(), other_processes=others)


def test_a_neighbour_that_leaves_costs_nothing_but_time(subject: Subject) -> None:
    engine = PassingTrouble()
    assert _verify(subject, engine).verdict is Verdict.HOLDS
    keys = [block.key for block in engine.blocks]
    assert len(keys) == len(set(keys)) >= len(subject.probes) + 4


def test_wrong_bytes_are_a_drift(subject: Subject) -> None:
    found = _verify(subject, sim_engine("mismatch=canary/idle/h2d/16384x"))
    assert found.verdict is Verdict.DRIFTED
    assert "mismatch (rehearsed: byte 0 of range 0 is wrong)" in found.reasons[0]


class Noisy(Ticking):
    """Times that say nothing."""

    def transfer(self, block: TransferBlock) -> Iterator[Measurement]:
        random = Random(block.seed)
        for taken in super().transfer(block):
            yield replace(taken, transfer_s=taken.transfer_s * random.lognormvariate(0.0, 1.0))


def test_what_is_undecided_is_measured_until_the_time_is_up(subject: Subject) -> None:
    clock = ManualClock()
    engine = Noisy(clock, 1.0)
    found = verify(subject, engine, Terms(40.0, clock=clock))
    assert found.verdict is Verdict.INCONCLUSIVE
    assert all("too little is known" in reason for reason in found.reasons)
    assert len(subject.probes) < len(engine.blocks) <= 40
    assert found.seconds == len(engine.blocks)


@pytest.mark.parametrize("seconds", [0.0, 2.0])
def test_too_little_time_is_inconclusive_and_says_how_much_would_do(subject: Subject, seconds: float) -> None:
    clock = ManualClock()
    clock.elapsed_s = 4.0  # the start of the engine
    engine = Ticking(clock, 1.0)
    found = verify(subject, engine, Terms(4.0 + seconds, 0.0, clock=clock))
    assert found.verdict is Verdict.INCONCLUSIVE
    assert len(engine.blocks) == max(1, seconds)
    (budget,) = re.findall(r"shapes were not measured, try --budget (\d+)s", found.reasons[0])
    clock.elapsed_s = 4.0
    assert verify(subject, Ticking(clock, 1.0), Terms(float(budget), 0.0, clock=clock)).verdict is Verdict.HOLDS


def test_a_part_of_the_shapes_may_do_and_the_answer_says_so(subject: Subject) -> None:
    clock = ManualClock()
    found = verify(subject, Ticking(clock, 1.0), Terms(6.0, 0.0, clock=clock))
    assert found.verdict is Verdict.HOLDS
    assert found.reasons == ("out of time: 6 of 12 shapes were not measured, try --budget 15s",)


def test_without_any_time_nothing_is_measured(subject: Subject) -> None:
    engine = Changed()
    found = _verify(subject, engine, until_s=-1.0)
    assert (found.verdict, engine.blocks) == (Verdict.INCONCLUSIVE, [])
    assert found.reasons == ("out of time: 12 of 12 shapes were not measured, try --budget 5s",)


class Renewable(Ticking):
    """Processes of which some have kernels that take a fifth longer."""

    def __init__(self, clock: ManualClock, slow: Collection[int]) -> None:
        super().__init__(clock, 0.1)
        self.process = 0
        self._slow = slow

    def renew(self) -> None:
        self.process += 1
        self._clock.elapsed_s += 1.0

    def transfer(self, block: TransferBlock) -> Iterator[Measurement]:
        for taken in super().transfer(block):
            is_kernel = "kernel/warp" in block.candidates[taken.candidate].name
            yield replace(taken, transfer_s=taken.transfer_s * (1.1 if is_kernel and self.process in self._slow else 1))


@pytest.mark.parametrize(
    ("slow", "budget_s", "verdict", "processes"),
    [
        ((), 8.0, Verdict.HOLDS, 1),
        ((0,), 8.0, Verdict.HOLDS, 2),
        ((0,), 2.5, Verdict.DRIFTED, 1),  # no time to look elsewhere
        ((0, 1, 2), 8.0, Verdict.DRIFTED, 2),
    ],
)
def test_a_suspicion_is_looked_at_in_a_fresh_process(
    subject: Subject, slow: tuple[int, ...], budget_s: float, verdict: Verdict, processes: int
) -> None:
    clock = ManualClock()
    clock.elapsed_s = 1.0
    engine = Renewable(clock, slow)
    found = verify(subject, engine, Terms(budget_s, 0.0, clock=clock))
    assert (found.verdict, 1 + engine.process) == (verdict, processes)
    assert clock.elapsed_s <= budget_s + 0.1


class Small(Changed):
    """A device that has no memory left for large blocks, or for any."""

    def __init__(self, most_bytes: int) -> None:
        super().__init__()
        self._most_bytes = most_bytes

    def transfer(self, block: TransferBlock) -> Iterator[Measurement]:
        if block.shape.moved_bytes > self._most_bytes:
            raise MemoryLimitError(f"block {block.key} needs more")
        return super().transfer(block)


def test_without_memory_nothing_is_said_of_the_contiguous_copies(subject: Subject) -> None:
    found = _verify(subject, Small(1 << 20))
    assert found.verdict is Verdict.INCONCLUSIVE
    assert "contiguous copy h2d: too little is known to tell whether it has changed" in found.reasons
    assert _verify(subject, Small(0)).reasons == ("nothing could be measured",)


def test_a_profile_of_another_device_or_method_is_not_compared(subject: Subject) -> None:
    elsewhere = replace(subject.profile, device=replace(subject.profile.device, uuid="sim:rtx5090"))
    with pytest.raises(UsageError, match="of another device: sim:rtx5090, not sim:h200"):
        _verify(replace(subject, profile=elsewhere))
    older = replace(subject.profile, method_version=METHOD_VERSION - 1)
    found = _verify(replace(subject, profile=older))
    assert found.verdict is Verdict.INCONCLUSIVE
    assert f"this version has {METHOD_VERSION}" in found.reasons[0]


def test_a_profile_without_its_measurements_cannot_be_verified(subject: Subject) -> None:
    none: tuple[Probe, ...] = ()
    found = _verify(replace(subject, probes=none))
    assert found.verdict is Verdict.INCONCLUSIVE
    assert "not in this database" in found.reasons[0]
