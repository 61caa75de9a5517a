"""A search through a recording of the whole plan space, and what its choices cost."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from statistics import fmean, median

from pega_tune.autotune.engine import Candidate, CandidateKind, Engine, SamplingLimits, TransferBlock
from pega_tune.autotune.measuring.cells import collect
from pega_tune.autotune.search.search import Proposal, Search, SearchLimits, Step
from pega_tune.autotune.search.sites import Site
from pega_tune.autotune.search.space import Space
from pega_tune.autotune.sweep.keys import layout_of
from pega_tune.autotune.sweep.observations import transfer_samples, usable
from pega_tune.autotune.sweep.survivors import MeasuredPlan
from pega_tune.kernels.plan import AnyPlan
from pega_tune.kernels.shape import TransferShape
from pega_tune.profiles.store.records import BlockRecord, CellRecord, MeasurementRecord, Metric

EVERYTHING = SamplingLimits(budget_s=1e9, min_rounds=1000, max_rounds=1000, drop_ratio=1e9)

Choices = Mapping[Site, AnyPlan]


@dataclass(frozen=True, slots=True)
class Oracle:
    """Every plan at every site, timed twice: in one half of the rounds and in the other one.

    Attributes:
        first, second: by site and plan, medians in seconds.
    """

    first: Mapping[Site, Mapping[AnyPlan, float]]
    second: Mapping[Site, Mapping[AnyPlan, float]]

    @classmethod
    def of(cls, blocks: Sequence[BlockRecord]) -> "Oracle":
        """From an exhaustive sweep."""
        halves = [
            {site_of(block): {c.plan: _median(c, half) for c in block.cells if usable(c)} for block in blocks}
            for half in range(2)
        ]
        return cls(*halves)

    @property
    def cells(self) -> int:
        """Plans of all sites together."""
        return sum(map(len, self.first.values()))

    def regret(self, choices: Choices) -> float:
        """What was chosen in the first half, timed in the second one: mean over the sites, less 1."""
        ratios = (self.second[site][plan] / min(self.second[site].values()) for site, plan in choices.items())
        return fmean(ratios) - 1

    def best(self) -> Choices:
        """The fastest plan of each site in the first half."""
        return {site: min(times, key=times.__getitem__) for site, times in self.first.items()}

    def drawn(self, share: float, seed: int) -> Choices:
        """The fastest in the first half among plans drawn at random, as large a part of each site's."""
        rng, choices = Random(seed), {}
        for site, times in self.first.items():
            some = rng.sample(list(times), max(1, round(share * len(times))))
            choices[site] = min(some, key=times.__getitem__)
        return choices


def site_of(block: BlockRecord) -> Site:
    """Where an idle block was measured."""
    shape = TransferShape(block.shape.merged_ranges, block.shape.total_bytes, block.shape.direction)
    return Site(shape, layout_of(block.key))


def search_through(
    engine: Engine, oracle: Oracle, limits: SearchLimits, seed: int, steps: Collection[Step] = tuple(Step)
) -> tuple[Search, int]:
    """Runs a search to its end, or to the first step that is not among `steps`.

    Returns:
        The search, and how many plans at how many sites it has measured, each pair once.
    """
    search = Search([Space(site, tuple(times)) for site, times in oracle.first.items()], limits, seed)
    seen: set[tuple[Site, AnyPlan]] = set()
    while (proposal := search.next()) is not None and proposal.step in steps:
        measured = measure(engine, proposal)
        seen |= {(proposal.site, plan.plan) for plan in measured}
        search.record(proposal.site, proposal.plans, measured)
    return search, len(seen)


def measure(engine: Engine, proposal: Proposal) -> tuple[MeasuredPlan, ...]:
    """One block of a search, as its first half tells it."""
    plans = (*proposal.plans, *([proposal.anchor] if proposal.anchor else []))
    candidates = tuple(Candidate(plan.key, CandidateKind.PLAN, plan) for plan in plans)
    site = proposal.site
    block = TransferBlock(site.key, site.shape, candidates, EVERYTHING, seed=1, layout=site.layout)
    cells = collect(block, tuple(engine.transfer(block)))
    found = (MeasuredPlan.of(_first_half(cell), site.described) for cell in cells if usable(cell))
    return tuple(plan for plan in found if plan is not None)


def _first_half(cell: CellRecord) -> CellRecord:
    series = (m for m in cell.measurements if m.metric is not Metric.TRANSFER)
    transfer = MeasurementRecord(Metric.TRANSFER, transfer_samples(cell)[::2])
    return replace(cell, measurements=(transfer, *series))


def _median(cell: CellRecord, half: int) -> float:
    samples = transfer_samples(cell)
    return median(samples[half::2] or samples)
