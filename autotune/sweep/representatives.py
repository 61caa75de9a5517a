"""A few plans that stand for many: as different as can be in what decode may suffer from."""

from collections.abc import Iterator, Sequence
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pega_tune.autotune.sweep.plans import legs_of
from pega_tune.autotune.sweep.survivors import MeasuredPlan, family
from pega_tune.kernels.plan import AnyPlan, Backend, CopyPlan, PlanPair

# What counts as next to nothing of each measure: transfer time, CTAs, kernel-resident time, DMA bytes, SM-seconds.
# Below it ratios mean little; above it, distances are in octaves.
_GRAINS: Final = np.array([1e-6, 1.0, 1e-6, 4096.0, 1e-6])

Points: TypeAlias = NDArray[np.float64]


def representatives(plans: Sequence[MeasuredPlan], most: int) -> tuple[MeasuredPlan, ...]:
    """At most so many of the plans, in their order: the best in each measure, the ends of each kind, then others.

    A kind is a backend, in chunks or whole, for both directions or fused. Of those that no copy kernel moves come the
    fastest, then the one with the smallest DMA commands, behind which a step's own copies wait the least; then the
    fastest of those with a copy kernel, which decode suffers from more. The others are each the farthest from those
    that are there, in octaves over all five measures. A measure that is unknown counts as nothing. Variants of a plan,
    which the measures do not tell apart, take what room is left.

    Args:
        plans: (n,) to choose from, those that nothing dominates.
        most: how many to keep, at least 1.
    """
    firsts: dict[AnyPlan, MeasuredPlan] = {}
    for plan in plans:
        firsts.setdefault(family(plan.plan), plan)
    if len(firsts) > most:
        return _spread(tuple(firsts.values()), most)
    chosen = [*firsts.values(), *(plan for plan in plans if plan not in firsts.values())][:most]
    return tuple(plan for plan in plans if plan in chosen)


def _spread(plans: Sequence[MeasuredPlan], most: int) -> tuple[MeasuredPlan, ...]:
    values = np.array([[0.0 if m is None else float(m) for m in plan.measures] for plan in plans])
    points: Points = np.log2(1 + values / _GRAINS)
    best = (int(column.argmin()) for column in values.T)
    kept = list(dict.fromkeys([*best, *_ends_of_kinds(plans)]))
    while len(kept) < most:
        kept.append(_farthest(points, kept))
    return tuple(plans[index] for index in sorted(kept[:most]))


def _ends_of_kinds(plans: Sequence[MeasuredPlan]) -> Iterator[int]:
    """Indices of the fastest and of the gentlest of each kind, as `representatives` says."""
    by_time = sorted(range(len(plans)), key=lambda i: plans[i].transfer_s)
    copies = [i for i in by_time if not _has_copy_kernel(plans[i].plan)]
    gentle = sorted(copies, key=lambda i: plans[i].largest_dma_bytes)
    for indices in (copies, gentle, by_time):
        first: dict[object, int] = {}
        for i in indices:
            first.setdefault(_kind(plans[i].plan), i)
        yield from first.values()


def _kind(plan: AnyPlan) -> tuple[tuple[Backend, bool], ...]:
    """What sets plans apart beside decode whatever was measured without it."""
    kinds = tuple((leg.backend, _chunked(leg)) for leg in legs_of(plan))
    return (*kinds, kinds[0]) if isinstance(plan, PlanPair) and plan.fused else kinds


def _has_copy_kernel(plan: AnyPlan) -> bool:
    return any(leg.backend is Backend.KERNEL for leg in legs_of(plan))


def _chunked(leg: CopyPlan) -> bool:
    return leg.chunk_bytes is not None or (leg.options is not None and leg.options.chunk_descriptors is not None)


def _farthest(points: Points, kept: list[int]) -> int:
    """Index of the point whose nearest kept one is farthest away."""
    apart = np.abs(points[:, None, :] - points[None, kept, :]).sum(axis=2).min(axis=1)
    apart[kept] = -1.0
    return int(apart.argmax())
