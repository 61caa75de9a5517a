"""Measured points and what lies between them."""

from bisect import bisect_right
from dataclasses import dataclass
from math import exp, log


@dataclass(frozen=True, slots=True)
class Curve:
    """Positive points, joined by straight lines on logarithmic axes: monotone wherever the points are.

    Attributes:
        xs: ascending and positive, at least one.
        ys: positive, one for each x.
    """

    xs: tuple[float, ...]
    ys: tuple[float, ...]

    def __post_init__(self) -> None:
        if not self.xs or len(self.xs) != len(self.ys) or min(*self.xs, *self.ys) <= 0:
            raise ValueError(f"a curve has positive points, as many x as y: {self.xs}, {self.ys}")
        if sorted(set(self.xs)) != list(self.xs):
            raise ValueError(f"the x of a curve ascend: {self.xs}")

    def at(self, x: float) -> float:
        """The value at a positive `x`; outside the points, that of the nearest one."""
        above = bisect_right(self.xs, x)
        if above == 0:
            return self.ys[0]
        if above == len(self.xs):
            return self.ys[-1]
        left, right = self.xs[above - 1], self.xs[above]
        share = log(x / left) / log(right / left)
        return exp((1 - share) * log(self.ys[above - 1]) + share * log(self.ys[above]))

    def saturating(self, x: float) -> float:
        """The value at a positive `x` of a rate that is proportional to `x` before the first point."""
        return self.at(x) * min(1.0, x / self.xs[0])
