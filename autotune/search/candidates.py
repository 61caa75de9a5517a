"""Of the whole plan space, what can run at a shape on a device, each launch once."""

from collections.abc import Iterator

from pega_tune.autotune.engine import Candidate, CandidateKind, Capabilities
from pega_tune.autotune.search.plan_set import plan_set
from pega_tune.autotune.sweep.plans import CEILING, STATIC_KERNEL, launched, legs_of, pegaflow_kernel
from pega_tune.kernels.plan import AnyPlan, Backend, CopyPlan, PlanPair, direct
from pega_tune.kernels.shape import Direction, TransferShape


def every_candidate(shape: TransferShape, capabilities: Capabilities) -> tuple[Candidate, ...]:
    """The ceiling, what PegaFlow launches today, and every other plan of the committed set.

    Args:
        shape: what is moved, with what is known of how its ranges lie.
        capabilities: of the device; nothing is planned that it cannot run.
    """
    both = shape.direction is Direction.BOTH
    static: AnyPlan = PlanPair(pegaflow_kernel(), pegaflow_kernel()) if both else pegaflow_kernel()
    ceiling: AnyPlan = PlanPair(direct(), direct()) if both else direct()
    chosen = [Candidate(CEILING, CandidateKind.CEILING, ceiling)]
    for plan in every_plan(shape, capabilities):
        if plan == static:
            chosen.append(Candidate(STATIC_KERNEL, CandidateKind.STATIC, plan))
        else:
            chosen.append(Candidate(plan.key, CandidateKind.PLAN, plan))
    return tuple(chosen)


def every_plan(shape: TransferShape, capabilities: Capabilities) -> tuple[AnyPlan, ...]:
    """The plans of the committed set that can run at a shape on a device, the first one of each launch.

    What the shape does not tell is taken as unknown: without host runs nothing is staged, and without a pitch nothing
    is pitched. Chunks that hold all of a transfer are no chunks.
    """
    first: dict[AnyPlan, AnyPlan] = {}
    for plan in _of_direction(shape.direction):
        if all(_runs(leg, shape, capabilities) for leg in legs_of(plan)):
            first.setdefault(launched(plan, shape), plan)
    return tuple(first.values())


def _of_direction(direction: Direction) -> Iterator[AnyPlan]:
    whole = plan_set()
    if direction is Direction.BOTH:
        yield from (PlanPair(plan, plan) for plan in whole.single)
        yield from whole.pairs
    else:
        yield from whole.single


def _runs(leg: CopyPlan, shape: TransferShape, capabilities: Capabilities) -> bool:
    if leg.backend not in capabilities.backends or (leg.threads or 0) > capabilities.max_threads:
        return False
    if leg.backend is Backend.PITCHED and shape.pitch is None:
        return False
    if leg.backend is Backend.STAGED and shape.host_runs is None:
        return False
    descriptors = leg.options.chunk_descriptors if leg.options else None
    return (leg.chunk_bytes or 0) < shape.total_bytes and (descriptors or 0) < shape.merged_ranges
