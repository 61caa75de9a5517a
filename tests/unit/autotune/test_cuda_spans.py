"""SM-seconds and resident time of every kind of plan, over a driver whose timed kernels take a known time."""

from collections.abc import Iterator

import pytest

from pega_tune.autotune.cuda.comparing import Comparer
from pega_tune.autotune.engine import Candidate, CandidateKind, Measurement, Phase, Status, TransferBlock
from pega_tune.autotune.layouts import NamedLayout
from pega_tune.kernels.backends.staged import staged
from pega_tune.kernels.driver import DriverFunction
from pega_tune.kernels.plan import AnyPlan, Backend, CopyPlan, KernelOptions, PlanPair, Variant, direct, kernel
from pega_tune.kernels.shape import Direction, TransferShape
from tests.helpers.engines import LIMITS
from tests.helpers.fake_driver import SPAN_NS, TIMED
from tests.helpers.moving_lanes import MovingBench
from tests.helpers.spans import SMS

SPAN_S = SPAN_NS / 1e9
BATCH = CopyPlan(Backend.BATCH)
IN_CHUNKS = CopyPlan(Backend.KERNEL, Variant.BLOCK, 64, KernelOptions(2, 25))


@pytest.fixture(scope="module")
def comparer() -> Iterator[Comparer]:
    with Comparer(2) as made:
        yield made


def timed(comparer: Comparer, plan: AnyPlan) -> tuple[list[Measurement], MovingBench]:
    """The timed rounds of one plan alone, which moves 100 ranges of 512 bytes."""
    direction = Direction.BOTH if isinstance(plan, PlanPair) else Direction.H2D
    layout = NamedLayout.parse("host-ordered")
    shape = layout.described(TransferShape(100, 100 * 512, direction))
    candidates = (Candidate(plan.key, CandidateKind.PLAN, plan),)
    bench = MovingBench(comparer)
    measurements = bench.run(TransferBlock("spans", shape, candidates, LIMITS, 3, layout=layout))
    assert {m.status for m in measurements} == {Status.OK}
    return [m for m in measurements if m.phase is Phase.TIMED], bench


@pytest.mark.parametrize(
    ("plan", "sm_spans"),
    [
        (kernel(Variant.WARP, 2, 64), 2),
        (kernel(Variant.BLOCK, 64, 64), 64 * SMS / 12),  # three on each SM
        (IN_CHUNKS, 4 * 2),
        (staged(2, 64), 2),
        (PlanPair(kernel(Variant.WARP, 1, 64), kernel(Variant.WARP, 2, 64)), 1 + 2),
        (PlanPair(staged(2, 64), staged(2, 64), fused=True), 2),
        (PlanPair(direct(), staged(2, 64)), 2),
    ],
    ids=lambda value: value.key if isinstance(value, CopyPlan | PlanPair) else "",
)
def test_the_first_timed_round_tells_what_the_kernels_took(comparer: Comparer, plan: AnyPlan, sm_spans: float) -> None:
    first, *others = timed(comparer, plan)[0]
    assert first.sm_s == pytest.approx(sm_spans * SPAN_S)
    assert first.span_s is not None
    assert first.span_s >= SPAN_S * (1 - 1e-9)
    assert others
    assert {(m.sm_s, m.span_s) for m in others} == {(None, None)}


@pytest.mark.parametrize("plan", [direct(), CopyPlan(Backend.PITCHED), PlanPair(direct(), direct())], ids=str)
def test_copy_engines_use_no_sm(comparer: Comparer, plan: AnyPlan) -> None:
    first = timed(comparer, plan)[0][0]
    assert (first.sm_s, first.span_s) == (0.0, 0.0)


@pytest.mark.parametrize("plan", [BATCH, PlanPair(kernel(Variant.WARP, 2, 64), BATCH)], ids=str)
def test_nobody_knows_what_batched_copies_use(comparer: Comparer, plan: AnyPlan) -> None:
    first = timed(comparer, plan)[0][0]
    assert (first.sm_s, first.span_s) == (None, None)


def test_timed_kernels_run_once_a_candidate_and_only_beside_the_timed_rounds(comparer: Comparer) -> None:
    rounds, moving = timed(comparer, kernel(Variant.WARP, 2, 64))
    calls = [call for call in moving.driver.calls if call.function is DriverFunction.LAUNCH_KERNEL]
    stamped = [bool(call.arguments[0] & TIMED) for call in calls]
    assert sum(stamped) == 1
    assert stamped.index(True) == len(calls) - len(rounds) - 1
