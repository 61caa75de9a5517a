"""The serving blocks of a sweep: a survey of what transfers alone left over, then its finalists in fresh processes."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Self

from pega_tune.autotune.engine import Candidate, CandidateKind, Engine
from pega_tune.autotune.layouts import NamedLayout
from pega_tune.autotune.serving import DecodeSpec, Pacing, ServingBlock, ServingLimits
from pega_tune.autotune.sweep.keys import block_key, block_seed, final_key
from pega_tune.autotune.sweep.observations import usable
from pega_tune.autotune.sweep.presets import ServingPreset
from pega_tune.autotune.sweep.recording import MeasuredServing, serving_record
from pega_tune.autotune.sweep.representatives import representatives
from pega_tune.autotune.sweep.serving_costs import costs_of, finalists
from pega_tune.autotune.sweep.survivors import MeasuredPlan, prune
from pega_tune.autotune.sweep.tasks import Task, one_after_another
from pega_tune.errors import DeviceError
from pega_tune.kernels.plan import AnyPlan
from pega_tune.kernels.shape import TransferShape
from pega_tune.profiles.policy.choose import DEFAULT_PERIOD_S
from pega_tune.profiles.policy.terms import Colocation
from pega_tune.profiles.store.records import BlockRecord

# For the estimate before anything has run; it is scaled by what blocks take. Source: H200, 2026-12-01, two `standard`
# sweeps of 8a39189, less what has been taken out of them since: each start tried batched copies, by a guess 1.1 s. The
# period is a mean over plans and baseline.
PERIOD_S: Final = 0.026
SMALL_PERIOD_S: Final = 0.018
SMALL_BYTES: Final = 32 << 20  # moved in a fraction of a decode step
DECODE_START_S: Final = 2.1
SAME_CONTEXT_START_S: Final = 0.6  # the process is there, and has loaded the compiler
PROCESS_START_S: Final = 2.2
SETUP_S: Final = 0.3
VERIFY_S: Final = 0.15  # and warming up


class NothingToCompareError(DeviceError):
    """What a serving block builds on was not measured."""

    code = "nothing-to-compare"


@dataclass(frozen=True, slots=True)
class PlannedServing:
    """A serving block whose candidates follow from the blocks before it.

    Attributes:
        key: names it within its sweep.
        source: key of the block whose candidates it takes: one without decode for a survey, else the survey.
        shape: what is moved.
        layout: how it lies.
        colocation: where decode runs.
        decode: what it is.
        process: 0 for a survey; else the number of the fresh process.
        preset: how much to measure.
        seed: of the sweep.
        start_s: for the estimate: seconds until decode runs, unless the block before leaves it running.
    """

    key: str
    source: str
    shape: TransferShape
    layout: NamedLayout
    colocation: Colocation
    decode: DecodeSpec
    process: int
    preset: ServingPreset
    seed: int
    start_s: float = 0.0

    @property
    def estimate_s(self) -> float:
        """Wall time that it should take, in seconds."""
        count = self.preset.finalists if self.process else self.preset.candidates
        rounds = self.preset.final_rounds if self.process else self.preset.rounds
        period_s = SMALL_PERIOD_S if self.shape.moved_bytes <= SMALL_BYTES else PERIOD_S
        return self.start_s + SETUP_S + count * VERIFY_S + (count + 1) * rounds * self.preset.bursts * period_s

    def after(self, before: Task | None, /) -> Self:
        """It starts decode, and the process, unless they are there: an engine keeps its decode in one place.

        Who is a client of MPS was born one, so that each change of that takes a process, too.
        """
        there = before if isinstance(before, PlannedServing) else None
        process, place = (0, Colocation.IDLE) if there is None else (there.process, there.colocation)
        start_s = 0.0
        if self.process != process or (self.colocation != place and Colocation.MPS in (self.colocation, place)):
            start_s += PROCESS_START_S
        if (self.process, self.colocation) != (process, place):
            start_s += SAME_CONTEXT_START_S if self.colocation is Colocation.SAME_CONTEXT else DECODE_START_S
        return replace(self, start_s=start_s)

    def measure(self, engine: Engine, stored: Mapping[str, BlockRecord]) -> BlockRecord:
        """Runs it.

        Raises:
            NothingToCompareError: the block before it is not among those stored, or had no usable cell.
            DeviceError: as `Engine.beside_decode`.
        """
        source = stored.get(self.source)
        if source is None:
            raise NothingToCompareError(f"there is nothing to measure beside decode: {self.source} was not measured")
        plans = self._plans(source)
        if not plans:
            raise NothingToCompareError(f"there is nothing to measure beside decode: {self.source} gave no plan")
        block = self._block(plans)
        segments = tuple(engine.beside_decode(block))
        measured = MeasuredServing(block, segments, engine.conditions())
        return serving_record(measured, engine.facts.identity.max_link)

    def _plans(self, source: BlockRecord) -> tuple[AnyPlan, ...]:
        if self.process:
            return tuple(cost.plan for cost in finalists(costs_of([source]), self.preset.finalists))
        measured = (MeasuredPlan.of(cell, source.shape) for cell in source.cells if usable(cell))
        kept = prune([plan for plan in measured if plan is not None])
        return tuple(plan.plan for plan in representatives(_sustainable(kept), self.preset.candidates))

    def _block(self, plans: Sequence[AnyPlan]) -> ServingBlock:
        rounds = self.preset.final_rounds if self.process else self.preset.rounds
        return ServingBlock(
            key=self.key,
            shape=self.shape,
            candidates=tuple(Candidate(plan.key, CandidateKind.PLAN, plan) for plan in plans),
            colocation=self.colocation,
            limits=ServingLimits(0.0, rounds, rounds),
            seed=block_seed(self.seed, self.key),
            decode=self.decode,
            pacing=Pacing(period_s=None, bursts=self.preset.bursts),
            layout=self.layout,
        )


def _sustainable(plans: Sequence[MeasuredPlan]) -> Sequence[MeasuredPlan]:
    """Those that complete within the reference period even alone, if there are any: no objective takes another one."""
    return [plan for plan in plans if plan.transfer_s < DEFAULT_PERIOD_S] or plans


@dataclass(frozen=True, slots=True)
class Source:
    """What is measured beside decode.

    Attributes:
        shape: what is moved.
        layout: how it lies.
        preset: how much to measure.
    """

    shape: TransferShape
    layout: NamedLayout
    preset: ServingPreset

    @property
    def key(self) -> str:
        """Of its block without decode."""
        return block_key(self.shape, Colocation.IDLE, self.layout)


def plan_serving(
    sources: Sequence[Source], colocations: Sequence[Colocation], decode: DecodeSpec, seed: int
) -> tuple[PlannedServing, ...]:
    """Surveys of every source in every colocation, then the finalists of all that have any, process after process.

    Args:
        sources: what is measured.
        colocations: where decode runs; not idle.
        decode: what it is.
        seed: of the sweep.
    """
    surveys = tuple(
        PlannedServing(
            key=block_key(source.shape, colocation, source.layout),
            source=source.key,
            shape=source.shape,
            layout=source.layout,
            colocation=colocation,
            decode=decode,
            process=0,
            preset=source.preset,
            seed=seed,
        )
        for colocation in colocations
        for source in sources
    )
    return tuple(one_after_another((*surveys, *_finals(surveys))))


def _finals(surveys: Sequence[PlannedServing]) -> Iterator[PlannedServing]:
    most = max((survey.preset.processes for survey in surveys), default=0)
    for process in range(1, most + 1):
        for survey in surveys:
            if process > survey.preset.processes:
                continue
            yield replace(survey, key=final_key(survey.key, process), source=survey.key, process=process)
