from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
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
    return verify(subject, engine or sim_engine(), Terms(until_s, seed, ManualClock()))


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
    found = verify(subject, sim_engine(fault), Terms(-1.0, 0, clock))
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


class Noisy(Changed):
    """Times that say nothing."""

    def transfer(self, block: TransferBlock) -> Iterator[Measurement]:
        for number, taken in enumerate(super().transfer(block)):
            yield replace(taken, transfer_s=taken.transfer_s * (0.5, 1.0, 2.0)[number * 7 % 3])


def test_what_is_undecided_is_measured_until_the_time_is_up(subject: Subject) -> None:
    class Ticking(Noisy):
        def transfer(self, block: TransferBlock) -> Iterator[Measurement]:
            clock.elapsed_s += 1.0
            return super().transfer(block)

    clock = ManualClock()
    engine = Ticking()
    found = verify(subject, engine, Terms(40.0, 0, clock))
    assert found.verdict is Verdict.INCONCLUSIVE
    assert all("too little is known" in reason for reason in found.reasons)
    assert len(subject.probes) < len(engine.blocks) <= 40
    assert found.seconds == len(engine.blocks)


def test_every_shape_is_measured_once_however_late_it_is(subject: Subject) -> None:
    engine = Changed()
    assert _verify(subject, engine, until_s=-1.0).verdict is Verdict.HOLDS
    assert len(engine.blocks) == len(subject.probes)


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
