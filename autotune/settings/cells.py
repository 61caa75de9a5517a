"""Times from the measured cells of a sweep, for any shape: its curve, and what that misses at the shapes around."""

from collections.abc import Iterator, Sequence
from functools import reduce

import numpy as np

from pega_tune.autotune.compiling.curves import Curve
from pega_tune.autotune.compiling.forecast import fit_curves, forecast
from pega_tune.autotune.compiling.laws import Array
from pega_tune.autotune.settings.mix import Mix
from pega_tune.autotune.settings.widths import Widths
from pega_tune.autotune.sweep.observations import Observations
from pega_tune.autotune.sweep.plans import launched, legs_of
from pega_tune.kernels.plan import AnyPlan
from pega_tune.kernels.shape import Direction, TransferShape
from pega_tune.profiles.policy.terms import Hint


class MeasuredTimes:
    """What a sweep says of the shapes of a mix. Implements `Source`.

    Ranges are taken for shuffled: engines that have but a setting do not look at how they lie.
    """

    basis = "the measured cells of the sweep"

    def __init__(self, observations: Sequence[Observations], mix: Mix) -> None:
        """Fits the curves; a direction of the mix that was not measured leaves its times unknown."""
        self._counts = {d: sum(shape.direction is d for shape in mix.shapes) for d in Direction}
        self._groups = {
            seen.direction: Foreseen(seen, [s for s in mix.shapes if s.direction is seen.direction])
            for seen in observations
            if seen.hint is Hint.NONE and seen.direction in mix.directions
        }
        self.plans = frozenset(leg for group in self._groups.values() for plan in group.plans for leg in legs_of(plan))

    def times_s(self, plan: AnyPlan, direction: Direction) -> Array:
        """As `Source.times_s`."""
        group = self._groups.get(direction)
        return np.full(self._counts[direction], np.nan) if group is None else group.times_s(plan)


class Foreseen:
    """The times of N plans for D shapes, of one direction, whose ranges lie as those that were measured.

    Of a plan, or one that launches the same, which was measured at the nearest shape that was; else of kernels of other
    widths; else by the plan's own curve through shapes farther off. No curve leads past the fastest at which anything
    was seen to move bytes.

    Attributes:
        plans: those that were measured.
    """

    def __init__(self, seen: Observations, shapes: Sequence[TransferShape]) -> None:
        curves = fit_curves(seen)
        found = forecast(seen, curves, shapes)
        near = found.measured[:, np.argmin(found.apart, axis=1)]
        own = np.array([isinstance(curves.plans.get(plan), Curve) for plan in seen.plans])
        self._least_s = np.array([shape.moved_bytes for shape in shapes]) / _fastest(seen)
        times_s = np.maximum(found.times_s, self._least_s)
        self._near_s, self._own_s = (np.where(known, times_s, np.nan) for known in (near, own[:, None]))
        self._shapes = shapes
        self._index: dict[AnyPlan, int] = {plan: i for i, plan in enumerate(seen.plans)}
        self.plans = seen.plans
        self._launches = [dict(self._launched(column)) for column in range(len(shapes))]
        self._widths = Widths(dict(zip(seen.plans, self._near_s, strict=True)), curves.families, shapes)

    def times_s(self, plan: AnyPlan) -> Array:
        """The times, (D,), in seconds; NaN where unknown."""
        index = self._index.get(plan)
        unknown = np.full(len(self._shapes), np.nan)
        alike = zip(self._launches, self._shapes, strict=True)
        sources = (
            unknown if index is None else self._near_s[index],
            np.array([launches.get(launched(plan, shape), np.nan) for launches, shape in alike]),
            np.maximum(self._widths.times_s(plan), self._least_s),
            unknown if index is None else self._own_s[index],
        )
        return reduce(lambda first, second: np.where(np.isfinite(first), first, second), sources)

    def _launched(self, column: int) -> Iterator[tuple[AnyPlan, float]]:
        """What is launched at a shape, and how long it takes."""
        for plan, index in self._index.items():
            if np.isfinite(self._near_s[index, column]):
                yield launched(plan, self._shapes[column]), float(self._near_s[index, column])


def _fastest(seen: Observations) -> float:
    """The highest rate at which a plan has moved bytes, in bytes per second."""
    return max(seen.shapes[i].moved_bytes / time_s for times_s in seen.times_s for i, time_s in times_s.items())
