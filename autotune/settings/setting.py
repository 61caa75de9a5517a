"""What an engine can be told, and what it then does."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np

from pega_tune.autotune.compiling.laws import Array
from pega_tune.autotune.settings.times import Times
from pega_tune.autotune.settings.widths import plain_kernel
from pega_tune.kernels.plan import MAX_GRID_BLOCKS, CopyPlan, Variant, kernel
from pega_tune.kernels.shape import Direction, TransferShape

Leg: TypeAlias = Callable[[TransferShape, Direction], CopyPlan]
Value: TypeAlias = str | int


@dataclass(frozen=True, slots=True)
class Setting:
    """Values for everything that an engine can be told here.

    Attributes:
        values: by the engine's own names.
        leg: the plan that then moves one direction of a shape; its implementation here stands for the engine's.
    """

    values: Mapping[str, Value]
    leg: Leg

    @classmethod
    def uniform(cls, values: Mapping[str, Value], load: CopyPlan, save: CopyPlan) -> "Setting":
        """One that treats all loads alike, and all saves."""

        def leg(_shape: TransferShape, direction: Direction) -> CopyPlan:
            return load if direction is Direction.H2D else save

        return cls(values, leg)

    def pairs(self, times: Times) -> Iterator[tuple[CopyPlan, CopyPlan]]:
        """Load and save of each shape; of a shape that moves one way, the other one is without effect."""
        return ((self.leg(shape, Direction.H2D), self.leg(shape, Direction.D2H)) for shape in times.mix.shapes)

    def times_s(self, times: Times) -> Array:
        """Transfer times of the shapes in seconds, (C,); NaN where unknown."""
        return np.array([times.of(*pair)[c] for c, pair in enumerate(self.pairs(times))])

    def guessed(self, times: Times) -> float:
        """Fraction of the transfers whose times stand for pairs that were not measured."""
        pairs = tuple(self.pairs(times))
        guessed = {pair: times.is_guessed(*pair) for pair in set(pairs)}
        flags = [bool(guessed[pair][c]) for c, pair in enumerate(pairs)]
        return float(times.mix.counts[flags].sum() / times.mix.counts.sum())

    def threads(self, times: Times) -> int:
        """Most threads that a transfer holds on the SMs."""
        directions = [direction for d in times.mix.directions for direction in d.legs]
        return max(self.leg(s, d).resident_threads for s in times.mix.shapes for d in directions)


class Engine(Protocol):
    """An engine that can be told something.

    Attributes:
        name: of the format.
        stands: what runs here in place of the engine's own code.
    """

    name: str
    stands: str

    def settings(self, times: Times, sm_count: int) -> Iterable[Setting]:
        """The settings to choose among: those whose times are known for the whole mix.

        Raises:
            UsageError: nothing that the engine can be told changes anything for the mix.
        """
        ...

    def default(self, times: Times) -> Setting | None:
        """What the engine does unless told otherwise; None if no plan that is known stands for it."""
        ...

    def lines(self, values: Mapping[str, Value]) -> tuple[str, ...]:
        """What an operator writes where: comments begin with #."""
        ...


@dataclass(frozen=True, slots=True)
class Ctas:
    """CTAs of an engine's kernel, as a kernel here with as many of that size.

    Attributes:
        variant: whose way of cutting work is theirs.
        threads: of one of their CTAs.
    """

    variant: Variant
    threads: int

    def known(self, times: Times) -> dict[int, CopyPlan]:
        """Numbers of CTAs, ascending, and the plan of each, whose times are known for the whole mix.

        Tried are those that have as many CTAs, or as many threads, as a kernel that was measured.
        """
        plans = {ctas: kernel(self.variant, ctas, self.threads) for ctas in sorted(self._worth_trying(times))}
        return {ctas: plan for ctas, plan in plans.items() if times.is_known(plan, plan)}

    def plan(self, ctas: int, times: Times) -> CopyPlan | None:
        """The plan for so many CTAs; None if its times are not known for the whole mix."""
        plan = kernel(self.variant, ctas, self.threads)
        return plan if times.is_known(plan, plan) else None

    def _worth_trying(self, times: Times) -> set[int]:
        wide = (plain_kernel(plan) for plan in times.source.plans if plan.variant is self.variant)
        grids = {(p.options.max_grid_blocks, p.threads) for p in wide if p and p.options and p.threads}
        alike = {grid * threads // self.threads for grid, threads in grids if grid * threads % self.threads == 0}
        return {ctas for ctas in {grid for grid, _ in grids} | alike if ctas < MAX_GRID_BLOCKS}
