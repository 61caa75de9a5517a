"""Segments of a block in made-up time: verified first, paced, and failed one by one."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from pega_tune.autotune.cuda.bench import Transfer
from pega_tune.autotune.cuda.serving.decode import DecodeLostError
from pega_tune.autotune.cuda.serving.decodes import Beside
from pega_tune.autotune.cuda.serving.runner import Equipment, ServingRunner, as_transfers
from pega_tune.autotune.engine import Candidate, EngineLostError, Measurement, Phase, Status
from pega_tune.autotune.measuring.schedule import Step
from pega_tune.autotune.measuring.serving.schedule import run_serving_block
from pega_tune.autotune.pacing import Jitter, shortest_period_s
from pega_tune.autotune.serving import BASELINE, Pacing, Segment, ServingBlock
from pega_tune.errors import DeviceError, UsageError
from pega_tune.kernels.driver import DriverCallError
from pega_tune.kernels.plan import AnyPlan
from pega_tune.kernels.shape import Direction, TransferShape
from tests.helpers.serving_blocks import serving_block
from tests.helpers.serving_world import World, WorldlyDecode

STEP_S = 0.004
BURST_S = (0.001, 0.002, 0.003, 0.004)  # by candidate
ILLEGAL_ADDRESS, INVALID_VALUE = 700, 1


@dataclass
class Rig:
    """Candidates whose bursts take their time, and that fail on demand.

    Attributes:
        verdicts: by candidate, what verification finds.
        failures: by candidate, the CUresult of its bursts after so many that went well.
        events: what was done, in order.
    """

    block: ServingBlock
    world: World = field(default_factory=World)
    verdicts: dict[int, Status] = field(default_factory=dict)
    failures: dict[int, tuple[int, int]] = field(default_factory=dict)
    rests: set[float] = field(default_factory=set)
    events: list[tuple[str, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.decode = WorldlyDecode(self.world, STEP_S)

    def runner(self, flags: tuple[str, ...] = ()) -> ServingRunner:
        equipment = Equipment(self, self._warm_up, self, self.world.host)  # type: ignore[arg-type]
        return ServingRunner(self.block, equipment, Beside(self.decode, STEP_S, STEP_S, flags))

    def run(self) -> list[Segment]:
        return list(run_serving_block(self.block, self.runner().execute))

    def execute(self, step: Step) -> Measurement:
        assert step.phase is Phase.VERIFY
        self.events.append(("verify", step.candidate))
        return Measurement(step.candidate, step.phase, self.verdicts.get(step.candidate, Status.OK), detail="seen")

    def transfer(self, candidate: Candidate) -> Transfer:
        return Transfer((self.block.candidates.index(candidate),), {})  # type: ignore[arg-type]

    def outcome_of(self, step: Step, error: DriverCallError) -> Measurement:
        if error.is_sticky:
            raise EngineLostError(error.message)
        return Measurement(step.candidate, step.phase, Status.INVALID, detail=error.message)

    def burst(self, plan: AnyPlan, runs: Sequence[int], rest_s: float) -> "RigBurst":
        assert self.block.candidates[runs[0]].plan == plan
        self.rests.add(rest_s)
        return RigBurst(self, runs[0])

    def _warm_up(self, transfer: Transfer) -> None:
        self.events.append(("warm up", int(transfer.runs[0])))  # type: ignore[call-overload]


@dataclass
class RigBurst:
    rig: Rig
    candidate: int
    done: int = 0

    def run(self) -> float:
        good, status = self.rig.failures.get(self.candidate, (1 << 30, 0))
        if self.done >= good:
            raise DriverCallError("cuLaunchKernel", status)
        self.done += 1
        self.rig.events.append(("burst", self.candidate))
        self.rig.world.work(BURST_S[self.candidate])
        return self.rig.world.time_s


def _counts(segments: list[Segment]) -> dict[int, int]:
    whole = [s.candidate for s in segments if s.status is Status.OK]
    return {candidate: whole.count(candidate) for candidate in whole}


PACED = serving_block(pacing=Pacing(period_s=0.05, bursts=4))


def test_every_segment_is_whole_and_the_schedule_accepts_it() -> None:
    segments = Rig(PACED).run()
    assert _counts(segments) == {0: 2, 1: 2, 2: 2, 3: 2, BASELINE: 2}
    for segment in segments:
        assert segment.period_s == 0.05
        last_s = segment.due[-1] + 0.05 if len(segment.due) else segment.step_ends[0] + 5 * 0.05
        assert segment.step_ends[-1] > last_s
        assert segment.step_ends[-2] <= last_s


def test_bursts_are_those_of_the_candidate_and_told_with_their_times() -> None:
    for segment in Rig(PACED).run():
        if segment.candidate == BASELINE:
            continue
        assert len(segment.due) == 4
        np.testing.assert_allclose(segment.completed - segment.submitted, BURST_S[segment.candidate], atol=1e-5)
        assert segment.host_cpu_s == pytest.approx(4 * BURST_S[segment.candidate], abs=1e-4)
        assert segment.moved_bytes == PACED.shape.moved_bytes
        assert segment.verified


def test_the_baseline_takes_as_long_and_transfers_nothing() -> None:
    rig = Rig(PACED)
    segment = rig.runner().execute(BASELINE)
    assert rig.events == []
    assert (len(segment.due), segment.moved_bytes, segment.host_cpu_s, segment.verified) == (0, 0, None, False)
    np.testing.assert_allclose(segment.steps_s, STEP_S)
    assert segment.step_ends[-1] - segment.step_ends[0] > 5 * 0.05


def test_a_candidate_is_verified_and_warmed_up_once_before_its_first_burst() -> None:
    rig = Rig(PACED)
    rig.run()
    for candidate in range(4):
        mine = [event for event, whose in rig.events if whose == candidate]
        assert mine[:2] == ["verify", "warm up"]
        assert mine.count("verify") == mine.count("warm up") == 1
        assert mine.count("burst") == 3 + 2 * 4


def test_the_first_burst_is_a_period_and_its_jitter_after_the_segment_began() -> None:
    runner = Rig(PACED).runner()
    for number in range(1, 5):
        segment = runner.execute(1)
        jitter = Jitter.over_a_step(STEP_S, 0.05, f"{PACED.seed}/{PACED.candidates[1].name}/{number}/jitter")
        assert segment.due[0] - segment.step_ends[0] == pytest.approx(0.05 + jitter.offset_s(0), abs=1e-5)


@pytest.mark.parametrize("period_s", [0.05, 0.052, 0.0535])
def test_bursts_meet_a_step_in_all_of_its_phases(period_s: float) -> None:
    rig = Rig(serving_block(pacing=Pacing(period_s=period_s, bursts=16), rounds=4))
    for segment in rig.run():
        if segment.candidate == BASELINE:
            continue
        # Nothing holds these steps up, so the phase of each burst is that since the first end.
        eighths = ((segment.due - segment.step_ends[0]) / STEP_S * 8).astype(int) % 8
        assert np.bincount(eighths, minlength=8).min() >= 1
        assert segment.missed == 0


@pytest.mark.parametrize("status", [Status.MISMATCH, Status.UNSUPPORTED, Status.INVALID])
def test_a_candidate_that_is_not_verified_leaves_with_its_reason(status: Status) -> None:
    rig = Rig(PACED, verdicts={2: status})
    segments = rig.run()
    failed = [(s.candidate, s.status, s.detail) for s in segments if s.status is not Status.OK]
    assert failed == [(2, status, "seen")]
    assert ("burst", 2) not in rig.events
    assert _counts(segments) == {0: 2, 1: 2, 3: 2, BASELINE: 2}


@pytest.mark.parametrize("good", [0, 3, 5])
def test_a_call_that_fails_costs_the_candidate(good: int) -> None:
    segments = Rig(PACED, failures={1: (good, INVALID_VALUE)}).run()
    failed = [(s.candidate, s.status, s.detail) for s in segments if s.status is not Status.OK]
    assert failed == [(1, Status.INVALID, "cuLaunchKernel failed with 1")]
    assert _counts(segments) == {0: 2, 2: 2, 3: 2, BASELINE: 2}


def test_a_lost_context_costs_the_engine() -> None:
    with pytest.raises(EngineLostError, match="cuLaunchKernel failed with 700"):
        Rig(PACED, failures={1: (5, ILLEGAL_ADDRESS)}).run()


def test_decode_that_is_lost_costs_the_engine() -> None:
    rig = Rig(PACED)
    runner = rig.runner()
    runner.execute(0)
    rig.decode.lost = DeviceError("the decode process was killed by SIGKILL")
    with pytest.raises(DecodeLostError, match="decode has ended: the decode process was killed by SIGKILL"):
        runner.execute(0)


def test_flags_are_passed_on() -> None:
    runner = Rig(PACED).runner(("serialised",))
    assert runner.execute(0).flags == runner.execute(BASELINE).flags == ("serialised",)


def test_without_a_period_each_candidate_has_the_shortest_that_leaves_undisturbed_steps() -> None:
    rig = Rig(serving_block(pacing=Pacing(period_s=None, bursts=4)))
    runner = rig.runner()
    before = runner.execute(BASELINE).period_s
    periods = [runner.execute(candidate).period_s for candidate in range(4)]
    np.testing.assert_allclose(periods, [shortest_period_s(STEP_S, burst_s) for burst_s in BURST_S], atol=1e-5)
    assert before == shortest_period_s(STEP_S, STEP_S)
    baseline = runner.execute(BASELINE)
    assert baseline.period_s == min(periods)
    assert baseline.step_ends[-1] - baseline.step_ends[0] >= 0.25


def test_a_rest_after_chunks_is_passed_on() -> None:
    rig = Rig(replace(PACED, pacing=replace(PACED.pacing, sleep_s=0.001)))
    rig.run()
    assert rig.rests == {0.001}


def test_candidates_must_move_what_the_block_moves() -> None:
    both = replace(PACED, shape=TransferShape(64, 64 * 4096, Direction.BOTH))
    with pytest.raises(UsageError, match="moves both"):
        as_transfers(both)
    assert as_transfers(PACED).candidates == PACED.candidates
