"""A search for the best plans at many sites that measures a small part of all: fed with numbers, it sees no device."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from math import log2
from random import Random
from statistics import median

from pega_tune.autotune.search.sites import Site
from pega_tune.autotune.search.space import Space
from pega_tune.autotune.sweep.survivors import MeasuredPlan, prune
from pega_tune.kernels.plan import AnyPlan


class Verdict(StrEnum):
    """Where a search stands.

    `SETTLED`: at every site the neighbours of all leaders are measured, and what leads at the nearest sites. `SPENT`:
    as much as allowed has been measured, and some of that was left.
    """

    GO_ON = "go-on"
    SETTLED = "settled"
    SPENT = "spent"


class Step(StrEnum):
    """Why something is measured: it stands for many plans; it is like a leader; or it leads at a site nearby."""

    COARSE = "coarse"
    PLANS = "plans"
    SHAPES = "shapes"


@dataclass(frozen=True, slots=True)
class SearchLimits:
    """How far a search goes.

    Attributes:
        share: of all plans at all sites that may be measured.
        coarse: plans of the first pass at each site beside one of each kind; 0 leaves all of it to whoever feeds. Less
            than 2 miss the ends of the longest axis.
        leaders: survivors whose neighbours are measured, the fastest first.
        reach: how many times the fastest time a leader may take: near it the winner is not certain.
        sites: how many of the nearest sites lend their leaders, of those with the same layout and of all others.
    """

    share: float = 0.15
    coarse: int = 4
    leaders: int = 3
    reach: float = 1.1
    sites: int = 3


@dataclass(frozen=True, slots=True)
class Proposal:
    """What to measure next, in one block.

    Attributes:
        site: where.
        plans: which, none of them tried there before.
        step: why.
        anchor: the fastest plan there so far, to be measured along, since times of two blocks cannot be compared
            without; None in the first block of a site.
    """

    site: Site
    plans: tuple[AnyPlan, ...]
    step: Step
    anchor: AnyPlan | None = None


class Search:
    """Says what to measure next, from what it has been told so far and from nothing else.

    A coarse pass over all sites comes first. Then every site that is not settled gets one step after the other, those
    with the fewest blocks and with a winner that the nearest sites do not share first: the neighbours of its fastest
    plan along each axis of the plan space; without any left, what is fastest at the sites nearest to it, so that a plan
    which wins on one side of a boundary is tried on the other one; then the neighbours of the other leaders.
    """

    def __init__(self, spaces: Sequence[Space], limits: SearchLimits, seed: int) -> None:
        """Begins a search.

        Args:
            spaces: what may be measured, one per site.
            limits: how far to go.
            seed: of the choice among plans of the first pass that are equally good.
        """
        self._limits = limits
        self._sites = {space.site: _Known(space) for space in spaces}
        self._near = {site: self._nearest(site) for site in self._sites}
        self._steps: dict[Site, _Due | None] = {}
        self._allowed = int(limits.share * sum(len(space.plans) for space in spaces))
        if limits.coarse:
            rng = Random(seed)
            most = max(1, self._allowed // max(1, len(spaces)))  # so that the first pass reaches every site
            for known in self._sites.values():
                known.coarse = known.space.coarse(limits.coarse, rng)[:most]

    @property
    def left(self) -> int:
        """Plans that may still be measured; none if more than allowed have been."""
        return max(0, self._allowed - sum(len(known.tried) for known in self._sites.values()))

    @property
    def verdict(self) -> Verdict:
        """Whether it goes on, and why not."""
        if not any(self._due()):
            return Verdict.SETTLED
        return Verdict.GO_ON if self.left else Verdict.SPENT

    def next(self) -> Proposal | None:
        """What is due, the same until something has been recorded; None when the search has ended."""
        left = self.left
        due = min(self._due(), key=lambda due: (due.blocks, not due.contested), default=None) if left else None
        return None if due is None else replace(due.step, plans=due.step.plans[:left])

    def record(self, site: Site, tried: Iterable[AnyPlan], measured: Iterable[MeasuredPlan]) -> None:
        """Takes what came of one block.

        Transfer times are put into proportion by the plans that the site has from earlier blocks.

        Args:
            site: where.
            tried: all plans of the block; none is asked for again, whether or not it could be measured.
            measured: those that moved every byte right, the anchor among them.
        """
        self._sites[site].record(tried, tuple(measured))
        for other, near in self._near.items():
            if other == site or site in near:
                self._steps.pop(other, None)

    def best(self, site: Site) -> MeasuredPlan | None:
        """The fastest plan of a site so far; None without any."""
        return self._sites[site].best

    def survivors(self, site: Site) -> tuple[MeasuredPlan, ...]:
        """The plans of a site that no other one is as good as in all five measures, fastest first."""
        return self._sites[site].survivors

    def _due(self) -> "Iterator[_Due]":
        for site, known in self._sites.items():
            if site not in self._steps:
                step = self._step(site, known)
                self._steps[site] = _Due(step, known.blocks, self._contested(site)) if step else None
            if (due := self._steps[site]) is not None:
                yield due

    def _step(self, site: Site, known: "_Known") -> Proposal | None:
        best, near = known.best, known.space.neighbours
        if not known.blocks and known.coarse:
            return Proposal(site, known.coarse, Step.COARSE)
        if best and (plans := known.untried(near(best.plan))):
            return Proposal(site, plans, Step.PLANS, best.plan)
        if plans := known.untried(self._lent(site)):
            return Proposal(site, plans, Step.SHAPES, best.plan if best else None)
        others = (known.untried(near(leader.plan)) for leader in known.leaders(self._limits))
        plans = next(filter(None, others), ())
        return Proposal(site, plans, Step.PLANS, best.plan) if best and plans else None

    def _lent(self, site: Site) -> tuple[AnyPlan, ...]:
        """What the fastest plans of the nearest sites launch here, each once, without what cannot run here."""
        bests = (best for other in self._near[site] if (best := self._sites[other].best))
        alike = (self._sites[site].space.alike(best.plan) for best in bests)
        return tuple(dict.fromkeys(plan for plan in alike if plan is not None))

    def _contested(self, site: Site) -> bool:
        """Whether another plan wins at a site nearby."""
        best = self._sites[site].best
        return best is not None and any(plan != best.plan for plan in self._lent(site))

    def _nearest(self, site: Site) -> tuple[Site, ...]:
        """The nearest sites of the same direction, in octaves of ranges and of their size.

        Those of other layouts come beside those of the same one and displace none: most plans need to know nothing of a
        layout, but what wins where all is known may not run anywhere else.
        """
        others = [other for other in self._sites if other.shape.direction is site.shape.direction and other != site]
        others.sort(key=lambda other: _octaves(site, other))
        same = [other for other in others if other.layout.kind is site.layout.kind]
        rest = [other for other in others if other.layout.kind is not site.layout.kind]
        return (*same[: self._limits.sites], *rest[: self._limits.sites])


@dataclass(frozen=True, slots=True)
class _Due:
    """A step of a site, and what decides whose turn it is."""

    step: Proposal
    blocks: int
    contested: bool


class _Known:
    """What is known of one site."""

    def __init__(self, space: Space) -> None:
        self.space = space
        self.blocks = 0
        self.coarse: tuple[AnyPlan, ...] = ()
        self.tried: set[AnyPlan] = set()
        self._measured: dict[AnyPlan, MeasuredPlan] = {}

    def record(self, tried: Iterable[AnyPlan], measured: Sequence[MeasuredPlan]) -> None:
        known = self._measured
        ratios = [known[plan.plan].transfer_s / plan.transfer_s for plan in measured if plan.plan in known]
        scale = median(ratios) if ratios else 1.0
        for plan in measured:
            known.setdefault(plan.plan, replace(plan, transfer_s=plan.transfer_s * scale))
        self.tried.update(tried)
        self.blocks += 1

    @property
    def best(self) -> MeasuredPlan | None:
        return min(self._measured.values(), key=lambda plan: plan.transfer_s, default=None)

    @property
    def survivors(self) -> tuple[MeasuredPlan, ...]:
        return prune(sorted(self._measured.values(), key=lambda plan: plan.transfer_s))

    def leaders(self, limits: SearchLimits) -> tuple[MeasuredPlan, ...]:
        """The survivors that are nearly as fast as the fastest."""
        survivors = self.survivors
        return tuple(plan for plan in survivors if plan.transfer_s <= limits.reach * survivors[0].transfer_s)[
            : limits.leaders
        ]

    def untried(self, plans: Iterable[AnyPlan]) -> tuple[AnyPlan, ...]:
        return tuple(plan for plan in plans if plan not in self.tried)


def _octaves(one: Site, other: Site) -> float:
    ranges = log2(one.shape.merged_ranges / other.shape.merged_ranges)
    sizes = log2(one.shape.average_range_bytes / other.shape.average_range_bytes)
    return abs(ranges) + abs(sizes)
