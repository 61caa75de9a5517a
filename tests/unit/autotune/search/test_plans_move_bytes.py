"""Every plan of the plan space, run by the real backends over a driver that moves the bytes in this process."""

import pytest

from pega_tune.autotune.cuda.comparing import Comparer
from pega_tune.autotune.engine import Candidate, CandidateKind, SamplingLimits, Status, TransferBlock
from pega_tune.autotune.layouts import NamedLayout
from pega_tune.autotune.search.plan_set import plan_set
from pega_tune.kernels.plan import AnyPlan, PlanPair
from pega_tune.kernels.shape import Direction, TransferShape
from tests.helpers.moving_lanes import MIB, MovingBench

ONCE = SamplingLimits(budget_s=0.0, min_rounds=1, max_rounds=1)
RANGES = 2049  # more than there are descriptors in a launch, and more bytes than in most chunks


def _plans(direction: Direction) -> tuple[AnyPlan, ...]:
    single, pairs = plan_set().single, plan_set().pairs
    if direction is Direction.BOTH:
        twins = (PlanPair(plan, plan) for plan in single if plan.backend != "kernel")
        return (*twins, *pairs)
    return single


@pytest.mark.parametrize("direction", list(Direction))
def test_every_plan_can_be_run_and_moves_every_byte_right(direction: Direction) -> None:
    layout = NamedLayout.parse("strided")
    shape = TransferShape(RANGES, RANGES * 2112, direction)
    assert shape.total_bytes > 4 * MIB
    candidates = tuple(Candidate(plan.key, CandidateKind.PLAN, plan) for plan in _plans(direction))
    block = TransferBlock("all", shape, candidates, ONCE, 3, layout=layout)
    with Comparer(2) as comparer:
        measurements = MovingBench(comparer).run(block)
    failed = [
        f"{candidates[m.candidate].name} {m.status}: {m.detail}" for m in measurements if m.status is not Status.OK
    ]
    assert failed == []
    assert len(measurements) == 2 * len(candidates)
