"""Stored serving blocks, made up: plans whose stalls and completions are known."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from pega_tune.autotune.engine import Candidate, CandidateKind, Conditions
from pega_tune.autotune.layouts import SHUFFLED, NamedLayout
from pega_tune.autotune.serving import BASELINE, ServingBlock, ServingLimits
from pega_tune.autotune.sweep.keys import block_key
from pega_tune.autotune.sweep.recording import MeasuredServing, serving_record
from pega_tune.kernels.plan import AnyPlan, PlanPair, Variant, direct, kernel
from pega_tune.kernels.shape import Direction, TransferShape
from pega_tune.profiles.policy.terms import Colocation
from pega_tune.profiles.store.records import BlockRecord
from tests.helpers.serving import MadeUpDecode, constant

STEP_S = 4e-3
SHAPE = TransferShape(16_384, 64 << 20, Direction.BOTH)
WARP_1, WARP_16, WIDE = (
    PlanPair(leg, leg)
    for leg in (kernel(Variant.WARP, 1, 1024), kernel(Variant.WARP, 16, 1024), kernel(Variant.BLOCK, 512, 256))
)
COPIES = PlanPair(direct(), direct())


@dataclass(frozen=True, slots=True)
class Cost:
    """What a burst costs: extra time of the step that it disturbs, and how long it takes, in seconds."""

    extra_s: float
    completion_s: float = 2e-3


def survey_record(
    costs: Mapping[AnyPlan, Cost],
    key: str = "",
    colocation: Colocation = Colocation.TIME_SLICED,
    layout: NamedLayout = SHUFFLED,
    shape: TransferShape = SHAPE,
) -> BlockRecord:
    """A block in which every burst of a plan disturbs as it is told."""
    plans = tuple(costs)
    block = ServingBlock(
        key=key or block_key(shape, colocation, layout),
        shape=shape,
        candidates=tuple(Candidate(plan.key, CandidateKind.PLAN, plan) for plan in plans),
        colocation=colocation,
        limits=ServingLimits(0.0, 1, 1),
        seed=1,
        layout=layout,
    )
    segments = [MadeUpDecode(STEP_S, 0.0).segment(BASELINE, 0.025, 20, seed=1)]
    for number, cost in enumerate(costs.values()):
        decode = MadeUpDecode(STEP_S, 0.0, constant(cost.completion_s), constant(cost.extra_s))
        segments.append(replace(decode.segment(number, 0.025, 20, seed=1), verified=True))
    return serving_record(MeasuredServing(block, tuple(segments), Conditions()), None)
