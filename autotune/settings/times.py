"""How long copy plans take for the shapes of a mix."""

from collections.abc import Iterable
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from pega_tune.autotune.compiling.laws import Array
from pega_tune.autotune.settings.mix import Mix
from pega_tune.kernels.plan import AnyPlan, CopyPlan, PlanPair
from pega_tune.kernels.shape import Direction


class Source(Protocol):
    """What is known of times.

    Attributes:
        basis: what they rest on, for the user.
        plans: single plans that were measured in one direction at least.
    """

    basis: str
    plans: frozenset[CopyPlan]

    def times_s(self, plan: AnyPlan, direction: Direction) -> Array:
        """Transfer times in seconds of the shapes of one direction, in their order in the mix; NaN where unknown."""
        ...


class Times:
    """Times of single plans and of pairs for a mix of C shapes.

    Attributes:
        mix: the shapes.
        source: what is known.
    """

    def __init__(self, mix: Mix, source: Source) -> None:
        self.mix = mix
        self.source = source
        self._at = {
            direction: np.array([i for i, shape in enumerate(mix.shapes) if shape.direction is direction])
            for direction in mix.directions
        }
        self._known: dict[tuple[CopyPlan, CopyPlan], Array] = {}

    def of(self, load: CopyPlan, save: CopyPlan) -> Array:
        """Times in seconds, (C,), if all loads take one plan and all saves the other; NaN where unknown.

        A load and a save at once that take different plans take as long as the slower of the two takes in both
        directions, unless the pair itself was measured.
        """
        if (load, save) not in self._known:
            times_s = np.full(len(self.mix.shapes), np.nan)
            for direction, at in self._at.items():
                times_s[at] = self._one_direction(direction, load, save)
            self._known[load, save] = times_s
        return self._known[load, save]

    def is_guessed(self, load: CopyPlan, save: CopyPlan) -> NDArray[np.bool_]:
        """Whether the times stand for pairs that were not measured, (C,)."""
        guessed = np.zeros(len(self.mix.shapes), dtype=np.bool_)
        if load != save and Direction.BOTH in self._at:
            paired = self.source.times_s(PlanPair(load, save), Direction.BOTH)
            guessed[self._at[Direction.BOTH]] = ~np.isfinite(paired)
        return guessed

    def is_known(self, load: CopyPlan, save: CopyPlan) -> bool:
        """Whether the times are known for every shape."""
        return bool(np.isfinite(self.of(load, save)).all())

    def known(self, plans: Iterable[CopyPlan]) -> list[CopyPlan]:
        """The plans whose times are known for every shape, whichever way it goes."""
        return [plan for plan in plans if self.is_known(plan, plan)]

    def _one_direction(self, direction: Direction, load: CopyPlan, save: CopyPlan) -> Array:
        if direction is not Direction.BOTH:
            return self.source.times_s(load if direction is Direction.H2D else save, direction)
        paired = self.source.times_s(PlanPair(load, save), direction)
        if load == save:
            return paired
        alike = [self.source.times_s(PlanPair(leg, leg), direction) for leg in (load, save)]
        return np.where(np.isfinite(paired), paired, np.maximum(*alike))
