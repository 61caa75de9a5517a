"""A block whose candidates are searched for in the whole plan space, just before they are compared."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Final, Self

from pega_tune.autotune.engine import Candidate, CandidateKind, Capabilities, Engine, SamplingLimits, TransferBlock
from pega_tune.autotune.measuring.cells import collect
from pega_tune.autotune.search.candidates import every_candidate
from pega_tune.autotune.search.search import Search, SearchLimits
from pega_tune.autotune.search.sites import Site
from pega_tune.autotune.search.space import Space
from pega_tune.autotune.sweep.keys import block_seed
from pega_tune.autotune.sweep.observations import usable
from pega_tune.autotune.sweep.plans import allowed
from pega_tune.autotune.sweep.recording import Measured, block_record
from pega_tune.autotune.sweep.representatives import representatives
from pega_tune.autotune.sweep.survivors import MeasuredPlan
from pega_tune.autotune.sweep.tasks import Task
from pega_tune.kernels.plan import AnyPlan
from pega_tune.profiles.policy.terms import Runtime
from pega_tune.profiles.store.records import BlockRecord

_FULL: Final = SearchLimits(share=0.2, coarse=10)
# Of one kernel with one number of threads; most differ in their grid alone, and decide by a cliff.
_BOUNDED: Final = SearchLimits(share=0.6, coarse=8)

SEARCHES: Final = ((Runtime.FULL, _FULL, 18), (Runtime.KERNEL_OPTIONS, _BOUNDED, 6))
"""For each runtime that leaves a choice: how far its search goes, and how many plans are compared in the end, beside
those that all runtimes can run."""

COMPARED: Final = sum(most for _, _, most in SEARCHES)

PROBING: Final = SamplingLimits(budget_s=0.0, min_rounds=3, max_rounds=3)
"""Of the blocks of a search, of which nothing is stored: enough for a median without the odd slow one."""


@dataclass(frozen=True, slots=True)
class SearchedBlock:
    """A block without decode of the plans that a search at its site leaves.

    It is a block like any other one: what is stored was measured side by side in one process, and nothing depends on
    blocks before it.

    Attributes:
        site: where.
        capabilities: of the device.
        limits: when the comparison of the finalists may stop.
        seed: of the sweep.
        estimate_s: wall time that it should take, in seconds.
    """

    site: Site
    capabilities: Capabilities
    limits: SamplingLimits
    seed: int
    estimate_s: float = 0.0

    @property
    def key(self) -> str:
        """Names it within its sweep."""
        return self.site.key

    @property
    def process(self) -> int:
        """It takes the process there is."""
        return 0

    def after(self, _before: Task | None, /) -> Self:
        """It starts nothing."""
        return self

    @property
    def estimated(self) -> tuple[TransferBlock, TransferBlock]:
        """Blocks that take as long: all that the search may try, and the finalists."""
        every = self._every()
        tried = every[: round(len(every) * _FULL.share)]
        return self._block(self.key, tried, PROBING), self._block(self.key, every[: COMPARED + 1], self.limits)

    def measure(self, engine: Engine, _stored: Mapping[str, BlockRecord]) -> BlockRecord:
        """Searches, then compares what is left.

        Raises:
            DeviceError: as `Engine.transfer`.
        """
        every = self._every()
        plans = self._found([candidate.plan for candidate in every[1:]], engine)
        block = self._block(self.key, tuple(_finalists(every, plans)), self.limits)
        measured = Measured(block, tuple(engine.transfer(block)), engine.conditions())
        return block_record(measured, engine.facts.identity.max_link)

    def _found(self, plans: Sequence[AnyPlan], engine: Engine) -> frozenset[AnyPlan]:
        """For each runtime, survivors that are as different as can be."""
        numbers, found = count(1), set[AnyPlan]()
        for runtime, limits, most in SEARCHES:
            space = Space(self.site, tuple(plan for plan in plans if allowed(runtime, plan)))
            search = Search([space], limits, block_seed(self.seed, self.key))
            while (proposal := search.next()) is not None:
                asked = (*proposal.plans, *([proposal.anchor] if proposal.anchor else []))
                probe = self._block(f"{self.key}/search-{next(numbers)}", _as_candidates(asked), PROBING)
                search.record(self.site, proposal.plans, self._probed(probe, engine))
            survivors = search.survivors(self.site)
            found.update(plan.plan for plan in (representatives(survivors, most) if survivors else ()))
        return frozenset(found)

    def _every(self) -> tuple[Candidate, ...]:
        return every_candidate(self.site.described, self.capabilities)

    def _block(self, key: str, candidates: tuple[Candidate, ...], limits: SamplingLimits) -> TransferBlock:
        seed = block_seed(self.seed, key)
        return TransferBlock(key, self.site.shape, candidates, limits, seed, layout=self.site.layout)

    def _probed(self, probe: TransferBlock, engine: Engine) -> Iterator[MeasuredPlan]:
        cells = collect(probe, tuple(engine.transfer(probe)))
        found = (MeasuredPlan.of(cell, self.site.described) for cell in cells if usable(cell))
        return (plan for plan in found if plan is not None)


def _as_candidates(plans: Sequence[AnyPlan]) -> tuple[Candidate, ...]:
    return tuple(Candidate(plan.key, CandidateKind.PLAN, plan) for plan in plans)


def _finalists(every: Sequence[Candidate], found: Collection[AnyPlan]) -> Iterator[Candidate]:
    """The ceiling, what every runtime can run, and what was found."""
    for candidate in every:
        basic = candidate.kind is not CandidateKind.PLAN or allowed(Runtime.PEGAFLOW, candidate.plan)
        if basic or candidate.plan in found:
            yield candidate
