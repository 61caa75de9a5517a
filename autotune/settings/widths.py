"""Kernels that were not measured themselves: times from those that differ from them in grid and CTA size alone."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log2
from typing import Final

import numpy as np

from pega_tune.autotune.compiling.curves import Curve, Fit
from pega_tune.autotune.compiling.laws import Array, Shapes, family_of, terms
from pega_tune.kernels.plan import AnyPlan, CopyPlan, PlanPair, Variant, kernel
from pega_tune.kernels.shape import TransferShape

MOST_OCTAVES: Final = 2.0
"""How far apart the bytes in flight may be: 4 times, as for CTAs of 1024 threads and of 256."""


def plain_kernel(plan: AnyPlan) -> CopyPlan | None:
    """The copy kernel of a plan that has nothing to it but a variant, a CTA size and a grid; None if it is another.

    Of a pair, that of both directions if they are alike.
    """
    if isinstance(plan, PlanPair):
        return plain_kernel(plan.load) if plan == PlanPair(plan.load, plan.load) else None
    if plan.variant is None or plan.options is None or plan.threads is None:
        return None
    return plan if plan == kernel(plan.variant, plan.options.max_grid_blocks, plan.threads) else None


@dataclass(frozen=True, slots=True, eq=False)
class _Measured:
    """One kernel at D shapes: time in seconds (NaN where unknown), octaves of bytes in flight, and its family's curve.

    A pair of a kernel with itself is one of its own.
    """

    leg: CopyPlan
    times_s: Array
    octaves: Array
    curve: Curve | None
    along_s: Array


class Widths:
    """Times of kernels that were not measured, for D shapes of one direction.

    What counts is how many bytes a kernel has in flight, which CTA size and grid bound in another way for small ranges
    than for large ones (`Shapes.in_flight_bytes`). The kernel of the same variant whose bytes in flight are nearest
    stands for one that is not known, its time changed by as much as the curve of its family changes from the one to the
    other.
    """

    def __init__(
        self, times_s: Mapping[AnyPlan, Array], families: Mapping[str, Fit], shapes: Sequence[TransferShape]
    ) -> None:
        """Keeps the plain kernels among plans with their times, (D,) each."""
        self._shapes = Shapes.of(shapes)
        self._kept: dict[tuple[type, Variant], list[_Measured]] = {}
        for plan, known_s in times_s.items():
            leg = plain_kernel(plan)
            if leg is not None and leg.variant is not None and np.isfinite(known_s).any():
                curve = families.get(family_of(plan))
                fitted = curve if isinstance(curve, Curve) else None
                one = _Measured(leg, known_s, self._octaves(leg), fitted, self._along_s(fitted, plan))
                self._kept.setdefault((type(plan), leg.variant), []).append(one)

    def times_s(self, plan: AnyPlan) -> Array:
        """The times, (D,), in seconds; NaN where no kernel is near enough."""
        times_s = np.full(len(self._shapes.ranges), np.nan)
        leg = plain_kernel(plan)
        if leg is None or leg.variant is None:
            return times_s
        octaves, nearest = self._octaves(leg), np.full_like(times_s, np.inf)
        for one in sorted(self._kept.get((type(plan), leg.variant), ()), key=lambda one: _unlike(one.leg, leg)):
            changed_s = self._changed(one, plan, octaves)
            apart = np.abs(one.octaves - octaves)
            better = (apart < nearest) & (apart <= MOST_OCTAVES) & np.isfinite(changed_s)
            times_s[better], nearest[better] = changed_s[better], apart[better]
        return times_s

    def _changed(self, one: _Measured, plan: AnyPlan, octaves: Array) -> Array:
        """The time of another kernel, from that of one: (D,)."""
        if one.curve is None:
            return np.where(one.octaves == octaves, one.times_s, np.nan)
        changed: Array = one.times_s * self._along_s(one.curve, plan) / one.along_s
        return changed

    def _along_s(self, curve: Curve | None, plan: AnyPlan) -> Array:
        return np.ones_like(self._shapes.ranges) if curve is None else curve.at(terms(plan, self._shapes))

    def _octaves(self, leg: CopyPlan) -> Array:
        octaves: Array = np.log2(self._shapes.in_flight_bytes(leg))
        return octaves


def _unlike(one: CopyPlan, other: CopyPlan) -> tuple[float, int]:
    """What to take first of kernels with as many bytes in flight: like CTAs, then the smallest grid."""
    assert one.threads is not None
    assert other.threads is not None
    assert one.options is not None
    return abs(log2(one.threads / other.threads)), one.options.max_grid_blocks
