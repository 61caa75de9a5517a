"""Times from the tables of a profile alone, where the cells that it rests on are elsewhere."""

from collections.abc import Iterator

import numpy as np

from pega_tune.autotune.compiling.laws import Array, Shapes
from pega_tune.autotune.settings.mix import Mix
from pega_tune.autotune.settings.widths import plain_kernel
from pega_tune.autotune.sweep.choices import kind_of
from pega_tune.autotune.sweep.plans import launched, legs_of
from pega_tune.kernels.plan import AnyPlan
from pega_tune.kernels.shape import Direction, TransferShape
from pega_tune.profiles.policy.table import CompiledPolicy, Option
from pega_tune.profiles.policy.terms import Colocation, Hint, Runtime


class TabledTimes:
    """What the tables say of the shapes of a mix. Implements `Source`.

    A cell holds the plans that no other one beats in both time and threads. A kernel that is not among them takes at
    least as long as the fastest of its kind that has no more bytes in flight than it has: that is its time here. Of
    copy engines no more is known than what is there.
    """

    basis = "the tables of the profile alone, in which times of kernels that were passed over are lower bounds"

    def __init__(self, policy: CompiledPolicy, mix: Mix) -> None:
        """Takes the tables without decode and without hints."""
        self._policy = policy
        self._shapes = {d: [s for s in mix.shapes if s.direction is d] for d in Direction}
        self._options = {d: [tuple(self._offered(s)) for s in shapes] for d, shapes in self._shapes.items()}
        everywhere = (options for of_direction in self._options.values() for options in of_direction)
        self.plans = frozenset(leg for options in everywhere for option in options for leg in legs_of(option.plan))

    def times_s(self, plan: AnyPlan, direction: Direction) -> Array:
        """As `Source.times_s`."""
        pairs = zip(self._shapes[direction], self._options[direction], strict=True)
        return np.array([_time_s(plan, shape, options) for shape, options in pairs])

    def _offered(self, shape: TransferShape) -> Iterator[Option]:
        for runtime in Runtime:
            table = self._policy.find(shape.direction, Colocation.IDLE, runtime, Hint.NONE)
            if table is not None:
                yield from table.look_up(shape.merged_ranges, shape.average_range_bytes)


def _time_s(plan: AnyPlan, shape: TransferShape, options: tuple[Option, ...]) -> float:
    wanted = launched(plan, shape)
    exact = [o.predicted.time_s for o in options if launched(o.plan, shape) == wanted]
    if exact:
        return min(exact)
    own, at = plain_kernel(plan), Shapes.of([shape])
    if own is None:
        return np.nan
    lighter = [
        option.predicted.time_s
        for option in options
        if kind_of(option.plan) == kind_of(plan)
        and (kernel := plain_kernel(option.plan)) is not None
        and at.in_flight_bytes(kernel)[0] <= at.in_flight_bytes(own)[0]
    ]
    return min(lighter, default=np.nan)
