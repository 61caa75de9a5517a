"""Times by a formula, in place of measured ones."""

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from pega_tune.autotune.kv.traffic import CountedShape
from pega_tune.autotune.settings.mix import Mix
from pega_tune.autotune.settings.times import Times
from pega_tune.kernels.plan import AnyPlan, CopyPlan, PlanPair
from pega_tune.kernels.shape import Direction, TransferShape

Formula = Callable[[TransferShape], float]


class FormulaSource:
    """Implements `Source`: a plan takes what its formula says, either way, and so does a pair of it with itself."""

    basis = "formulas"

    def __init__(self, mix: Mix, formulas: Mapping[CopyPlan, Formula]) -> None:
        self._shapes = mix.shapes
        self._formulas = formulas
        self.plans = frozenset(formulas)

    def times_s(self, plan: AnyPlan, direction: Direction) -> NDArray[np.float64]:
        leg = plan.load if isinstance(plan, PlanPair) and plan.load == plan.save else plan
        formula = self._formulas.get(leg) if isinstance(leg, CopyPlan) else None
        shapes = [shape for shape in self._shapes if shape.direction is direction]
        return np.array([np.nan if formula is None else formula(shape) for shape in shapes])


def counted(ranges: int, size: int, direction: Direction = Direction.H2D, count: int = 1) -> CountedShape:
    """So many transfers of equal ranges."""
    return CountedShape(TransferShape(ranges, ranges * size, direction), count)


def times_of(formulas: Mapping[CopyPlan, Formula], *traffic: CountedShape) -> Times:
    """What plans take for transfers."""
    mix = Mix.of(traffic)
    return Times(mix, FormulaSource(mix, formulas))
