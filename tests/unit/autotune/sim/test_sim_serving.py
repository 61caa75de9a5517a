"""Serving blocks on a simulated device: what is particular to it; the contract suite has the rest."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from pega_tune.autotune.engine import Candidate, CandidateKind, EngineLostError, MemoryLimitError, Status
from pega_tune.autotune.pacing import UNDISTURBED_STEPS
from pega_tune.autotune.serving import BASELINE, DecodeSpec, MpsShare, Pacing, Segment, ServingBlock, ServingLimits
from pega_tune.autotune.sim.devices import sim_factory
from pega_tune.autotune.sim.parameters import load_parameters
from pega_tune.autotune.sim.serving_run import step_s
from pega_tune.errors import UsageError
from pega_tune.kernels.decode.models import DecodeModel
from pega_tune.kernels.plan import AnyPlan, Backend, Completion, CopyPlan, direct, kernel
from pega_tune.kernels.plan import Variant as KernelVariant
from pega_tune.kernels.shape import Direction, TransferShape
from pega_tune.profiles.policy.terms import Colocation
from tests.helpers.sim_rows import block as block_kernel
from tests.helpers.sim_rows import shuffled, twice

SLICED, SAME, MPS = Colocation.TIME_SLICED, Colocation.SAME_CONTEXT, Colocation.MPS
WARP = twice(kernel(KernelVariant.WARP, 2, 1024))
LIMITS = ServingLimits(budget_s=0.0, min_rounds=2, max_rounds=2)


def _block(
    *plans: AnyPlan, colocation: Colocation = SLICED, seed: int = 3, shape: TransferShape | None = None
) -> ServingBlock:
    candidates = tuple(Candidate(plan.key, CandidateKind.PLAN, plan) for plan in plans or (WARP,))
    return ServingBlock("test/both", shape or shuffled(), candidates, colocation, LIMITS, seed)


def _run(block: ServingBlock, name: str = "sim:h200") -> list[Segment]:
    return list(sim_factory(name)().beside_decode(block))


def _arrays(segments: Sequence[Segment]) -> list[list[float]]:
    return [[*s.step_ends, *s.due, *s.submitted, *s.completed] for s in segments]


def _steps_s(segments: Sequence[Segment], candidate: int) -> np.ndarray:
    return np.concatenate([segment.steps_s for segment in segments if segment.candidate == candidate])


def test_equal_blocks_give_equal_segments_and_other_seeds_others() -> None:
    assert _arrays(_run(_block())) == _arrays(_run(_block()))
    assert _arrays(_run(_block())) != _arrays(_run(_block(seed=4)))


def test_time_goes_on_from_segment_to_segment() -> None:
    segments = _run(_block(WARP, twice(direct())))
    assert all(one.step_ends[-1] <= following.step_ends[0] for one, following in pairwise(segments))


def test_steps_cover_the_bursts_and_a_period_after_them() -> None:
    for segment in _run(_block(WARP, twice(direct()))):
        assert (np.diff(segment.step_ends) > 0).all()
        if segment.candidate != BASELINE:
            assert segment.step_ends[0] <= segment.submitted[0]
            assert segment.step_ends[-1] >= max(segment.due[-1] + segment.period_s, segment.completed[-1])


def test_a_transfer_that_takes_longer_than_the_period_runs_as_often_as_it_can() -> None:
    slow = next(s for s in _run(_block(twice(direct()))) if s.candidate == 0)
    assert (slow.completed - slow.submitted > slow.period_s).all()
    assert slow.submitted[1:] == pytest.approx(slow.completed[:-1])
    assert slow.missed > 0


def test_the_baseline_is_as_measured() -> None:
    for colocation, expected_s in ((SLICED, 3.68e-3), (SAME, 3.87e-3), (MPS, 4.17e-3)):
        steps_s = _steps_s(_run(_block(colocation=colocation)), BASELINE)
        assert np.median(steps_s) == pytest.approx(expected_s, rel=0.002)
        assert np.std(steps_s) < 0.005 * expected_s


def test_the_shortest_period_leaves_undisturbed_steps() -> None:
    block = replace(_block(WARP, twice(direct())), pacing=Pacing(period_s=None, bursts=5))
    segments = _run(block)
    periods_s = {s.candidate: s.period_s for s in segments}
    assert periods_s[0] < periods_s[1] == periods_s[BASELINE]
    for segment in segments:
        if segment.candidate != BASELINE:
            gaps_s = segment.submitted[1:] - segment.completed[:-1]
            assert (gaps_s > UNDISTURBED_STEPS * 3.68e-3).all()
            assert segment.missed == 0


def test_bursts_meet_a_step_in_all_of_its_phases() -> None:
    block = replace(_block(WARP), pacing=Pacing(period_s=14 * 3.68e-3, bursts=32))
    for segment in _run(block):
        if segment.candidate != BASELINE:
            eighths = ((segment.due - segment.step_ends[0]) / 3.68e-3 * 8).astype(int) % 8
            assert np.bincount(eighths, minlength=8).min() >= 2
            assert segment.missed == 0


def test_priorities_change_nothing_between_processes() -> None:
    # The report's follow-up, 3: 9.10 and 9.114 against 9.204 ms.
    block = _block(twice(block_kernel()))
    decode = replace(block, decode=DecodeSpec(stream_priority=-5))
    assert _arrays(_run(block, "sim:rtx5090")) == _arrays(_run(decode, "sim:rtx5090"))


def test_a_wait_that_blocks_leaves_the_processor_time_unknown() -> None:
    waiting = replace(WARP.load, completion=Completion.BLOCKING_EVENT)
    segments = _run(_block(WARP, twice(waiting)))
    polled, blocked = (next(s for s in segments if s.candidate == index) for index in (0, 1))
    assert polled.host_cpu_s == pytest.approx((polled.completed - polled.submitted).sum())
    assert blocked.host_cpu_s is None


def test_copies_meet_decode_in_some_processes_and_not_in_others() -> None:
    one = TransferShape(1, 64 << 20, Direction.BOTH)
    added = []
    for seed in range(30):
        segments = _run(_block(twice(direct()), colocation=SAME, seed=seed, shape=one))
        added.append(_steps_s(segments, 0).max() / np.median(_steps_s(segments, BASELINE)))
    free = sum(ratio < 1.02 for ratio in added)
    assert 1 <= free <= 10  # one process in seven
    assert max(added) > 1.2


def test_fewer_sms_under_mps_for_a_full_grid() -> None:
    block = _block(block_kernel(), colocation=MPS, shape=shuffled(Direction.H2D))
    little = replace(block, mps=MpsShare(active_thread_percentage=1))
    whole_s, little_s = (_steps_s(_run(b), 0).max() for b in (block, little))
    assert little_s < whole_s
    assert _arrays(_run(replace(little, colocation=SLICED))) == _arrays(_run(replace(block, colocation=SLICED)))


def test_what_cannot_run_says_so_once() -> None:
    block = _block(twice(CopyPlan(Backend.PITCHED)), WARP)
    failed = [s for s in _run(block) if s.candidate == 0]
    assert [(s.status, len(s.step_ends)) for s in failed] == [(Status.UNSUPPORTED, 0)]
    assert "stride" in failed[0].detail


def test_a_mismatch_takes_the_last_plan_out() -> None:
    segments = _run(_block(twice(direct()), WARP), "sim:h200+mismatch")
    assert [s.status for s in segments if s.candidate == 1] == [Status.MISMATCH]
    assert {s.status for s in segments if s.candidate == 0} == {Status.OK}
    assert all(s.verified for s in segments if s.candidate == 0)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"decode": DecodeSpec(source="external:true")}, "only builtin decodes, not 'external:true'"),
        ({"decode": DecodeSpec(source="torch")}, "only builtin decodes, not 'torch'"),
        ({"decode": DecodeSpec(model="qwen3-900b")}, "qwen3-900b"),
        ({"decode": DecodeSpec(stream_priority=3)}, "stream priority 3"),
        ({"mps": MpsShare(active_thread_percentage=0)}, "1 to 100, not 0"),
    ],
)
def test_what_is_refused_before_anything_runs(change: dict[str, object], why: str) -> None:
    engine = sim_factory("sim:h200")()
    with pytest.raises(UsageError, match=why):
        engine.beside_decode(replace(_block(), **change))  # type: ignore[arg-type]


def test_memory_and_a_closed_engine() -> None:
    with pytest.raises(MemoryLimitError):
        sim_factory("sim:h200+nomem")().beside_decode(_block())
    engine = sim_factory("sim:h200")()
    engine.close()
    with pytest.raises(EngineLostError):
        engine.beside_decode(_block())


def test_steps_of_other_models() -> None:
    parameters = load_parameters("h200")

    def of(model: str) -> float:
        return step_s(parameters, SLICED, DecodeModel.parse(model))

    assert of("qwen3-4b") == pytest.approx(3.68e-3)
    assert of("llama-3.1-8b") / of("qwen3-4b") == pytest.approx(
        DecodeModel.parse("llama-3.1-8b").step_bytes / DecodeModel.parse("qwen3-4b").step_bytes
    )
    assert of("small") < 0.1 * of("qwen3-4b")
    assert of("prefill") > of("qwen3-4b")
