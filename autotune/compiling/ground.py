"""What is known of one kind of transfer without decode: its grid of cells, the times there, and who may be chosen."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from pega_tune.autotune.compiling.forecast import Forecast
from pega_tune.autotune.compiling.grid import Grid
from pega_tune.autotune.compiling.laws import Array, Shapes
from pega_tune.autotune.sweep.observations import Observations
from pega_tune.autotune.sweep.plans import allowed, legs_of
from pega_tune.kernels.plan import AnyPlan
from pega_tune.kernels.shape import TransferShape
from pega_tune.profiles.policy.terms import Runtime

MORE_DOUBT: Final = 0.1
"""How much less may be known of a plan's time than of the best known one's, as `Weights.doubt` counts."""


@dataclass(frozen=True)
class Ground:
    """Plans, measured shapes and cells of one direction and hint. N plans, S shapes, C cells.

    Attributes:
        seen: what was measured.
        grid: the cells.
        times: of every plan in every cell.
    """

    seen: Observations
    grid: Grid
    times: Forecast

    @cached_property
    def cells(self) -> tuple[TransferShape, ...]:
        """The shapes that stand for the cells."""
        return self.grid.shapes

    def plans(self, runtime: Runtime) -> NDArray[np.intp]:
        """Indices of the plans that a runtime can run."""
        return np.array([i for i, plan in enumerate(self.seen.plans) if allowed(runtime, plan)], dtype=np.intp)

    def nearest(self, plans: Sequence[int] | NDArray[np.intp]) -> NDArray[np.intp]:
        """For each cell, the nearest shape at which one of the plans was measured: (C,)."""
        columns = np.flatnonzero(self.times.measured[plans].any(axis=0))
        found: NDArray[np.intp] = columns[np.argmin(self.times.apart[:, columns], axis=1)]
        return found

    def offered(self, plans: NDArray[np.intp]) -> Array:
        """Times of the plans where they may be chosen, infinite elsewhere: (len(plans), C).

        A plan may be chosen only if it was measured at the shape nearest to the cell, where its rivals were measured in
        the same block; if the shapes that it was not measured at leave its time as well known as any other's; and if
        its bound on CTAs cuts off work in all of the cell, or in none of it, as at that shape. If no plan keeps the
        other two, the first one counts.
        """
        nearest = self.nearest(plans)
        here = self.times.measured[plans][:, nearest] & np.isfinite(self.times.times_s[plans])
        doubts = np.where(here, self.times.doubts[plans], np.inf)
        known = doubts <= doubts.min(axis=0) + MORE_DOUBT
        alike = ~self._whole_at_shapes[plans][:, nearest] | self._whole_in_cells[plans]
        strict = here & known & alike
        chosen = np.where(strict.any(axis=0), strict, here)
        times_s: Array = np.where(chosen, self.times.times_s[plans], np.inf)
        return times_s

    @cached_property
    def _whole_at_shapes(self) -> NDArray[np.bool_]:
        """(N, S) whether the plan has a CTA for all work."""
        return _whole(self.seen.plans, Shapes.of(self.seen.shapes))

    @cached_property
    def _whole_in_cells(self) -> NDArray[np.bool_]:
        """(N, C) whether it has one for every shape of the cell."""
        return _whole(self.seen.plans, Shapes.of(self.grid.corners))


def _whole(plans: Sequence[AnyPlan], shapes: Shapes) -> NDArray[np.bool_]:
    whole = np.ones((len(plans), len(shapes.ranges)), dtype=np.bool_)
    for index, plan in enumerate(plans):
        for leg in legs_of(plan):
            if leg.options:
                whole[index] &= leg.options.max_grid_blocks >= shapes.useful_ctas(leg)
    return whole
