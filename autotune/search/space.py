"""The plans at one site as points: which are alike but for one step along one axis, and which stand for many."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import inf, log2
from random import Random
from statistics import median_low
from typing import Final, TypeAlias

from pega_tune.autotune.search.sites import Site
from pega_tune.autotune.sweep.plans import launched, legs_of
from pega_tune.kernels.plan import AnyPlan, CopyPlan, PlanPair

Place: TypeAlias = tuple[float, ...]
Kind: TypeAlias = tuple[object, ...]

_UNCUT_OCTAVES: Final = 2.0
"""How far a transfer in one piece lies from the largest chunk, in octaves: that is another matter than its size."""


@dataclass(frozen=True, slots=True)
class Point:
    """A plan, by what it is and how far it goes along each axis.

    Attributes:
        plan: which.
        kind: what no step along an axis changes: backends, and whether both directions share plan and launch.
        place: for each leg the octaves of grid, threads, descriptors and bytes of a chunk, infinite if it is not cut,
            then variant and hints, which have two values.
    """

    plan: AnyPlan
    kind: Kind
    place: Place

    @classmethod
    def of(cls, plan: AnyPlan) -> "Point":
        """The point of a plan; two equal legs are one."""
        fused = isinstance(plan, PlanPair) and plan.fused
        legs = tuple(dict.fromkeys(legs_of(plan)))
        kind = (fused, *(leg.backend for leg in legs))
        return cls(plan, kind, tuple(value for leg in legs for value in _place(leg)))

    def distance(self, other: "Point") -> float:
        """Octaves from one plan to another one of its kind, all axes together."""
        return _octaves(self.place, other.place)


@dataclass(frozen=True, slots=True)
class Space:
    """What may be measured at a site.

    Attributes:
        site: which.
        plans: all of them, each launch once.
    """

    site: Site
    plans: tuple[AnyPlan, ...]
    _points: dict[AnyPlan, Point] = field(init=False, repr=False, compare=False)
    _near: dict[AnyPlan, tuple[AnyPlan, ...]] = field(init=False, repr=False, compare=False)
    _launches: dict[AnyPlan, AnyPlan] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        points = {plan: Point.of(plan) for plan in self.plans}
        object.__setattr__(self, "_points", points)
        object.__setattr__(self, "_near", _neighbours(points.values()))
        shape = self.site.described
        object.__setattr__(self, "_launches", {launched(plan, shape): plan for plan in self.plans})

    def neighbours(self, plan: AnyPlan) -> tuple[AnyPlan, ...]:
        """The plans that differ from it in one axis, where none lies between; none for a plan that is not here."""
        return self._near.get(plan, ())

    def alike(self, plan: AnyPlan) -> AnyPlan | None:
        """The plan that launches here what a plan of another site would; None if there is none."""
        return self._launches.get(launched(plan, self.site.described))

    def coarse(self, count: int, rng: Random) -> tuple[AnyPlan, ...]:
        """Plans that stand for all: the middle of each kind, and so many more, each the farthest from those chosen.

        The farthest come from both ends of the kinds with the longest axes: what is fastest may be one CTA, or as many
        as can be, with slower ones next to it. Chunks, which are neighbours of what is not cut, are left to refinement.
        """
        whole = [point for point in self._points.values() if not any(leg.is_chunked for leg in legs_of(point.plan))]
        kinds: dict[Kind, list[Point]] = defaultdict(list)
        for point in whole:
            kinds[point.kind].append(point)
        chosen = [_middle(points) for points in kinds.values()]
        rest = [point for point in whole if point not in chosen]
        rng.shuffle(rest)  # of those that are equally far any may come first
        for _ in range(min(count, len(rest))):
            farthest = max(rest, key=lambda point: _isolation(point, chosen))
            chosen.append(farthest)
            rest.remove(farthest)
        return tuple(point.plan for point in chosen)


def _place(leg: CopyPlan) -> Place:
    grid, threads = (leg.options.max_grid_blocks, leg.threads or 1) if leg.options else (1, 1)
    descriptors = leg.options.chunk_descriptors if leg.options else None
    octaves = [log2(grid), log2(threads), *(inf if n is None else log2(n) for n in (descriptors, leg.chunk_bytes))]
    return (*octaves, float(leg.variant == "warp"), float(leg.prefer_overlap))


def _octaves(one: Place, other: Place) -> float:
    return sum(map(_apart, one, other))


def _apart(a: float, b: float) -> float:
    if a == b:
        return 0.0
    return _UNCUT_OCTAVES if inf in (a, b) else abs(a - b)


def _middle(points: Sequence[Point]) -> Point:
    """The point nearest to the median of all of them along each axis; the first of those."""
    centre = tuple(map(median_low, zip(*(point.place for point in points), strict=True)))
    return min(points, key=lambda point: _octaves(point.place, centre))


def _isolation(point: Point, chosen: Iterable[Point]) -> float:
    return min(point.distance(other) for other in chosen if other.kind == point.kind)


def _neighbours(points: Iterable[Point]) -> dict[AnyPlan, tuple[AnyPlan, ...]]:
    lines: dict[tuple[object, ...], list[tuple[float, AnyPlan]]] = defaultdict(list)
    for point in points:
        for axis, value in enumerate(point.place):
            rest = (*point.place[:axis], *point.place[axis + 1 :])
            lines[point.kind, axis, rest].append((value, point.plan))
    near: dict[AnyPlan, dict[AnyPlan, None]] = defaultdict(dict)
    for line in lines.values():
        for (_, one), (_, other) in pairwise(sorted(line, key=lambda entry: entry[0])):
            near[one][other] = near[other][one] = None
    return {plan: tuple(others) for plan, others in near.items()}
