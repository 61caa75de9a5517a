"""The steps of one block, run on a GPU."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final, TypeAlias

import numpy as np

from pega_tune.autotune.cuda.bench import Bench, OddTransfers, Transfer
from pega_tune.autotune.cuda.layout import GUARD_BYTES, Layout, equal_ranges, extent_bytes
from pega_tune.autotune.cuda.need import Need
from pega_tune.autotune.cuda.sampling import LoadSampler
from pega_tune.autotune.engine import (
    Candidate,
    CandidateKind,
    EngineLostError,
    Measurement,
    Phase,
    Status,
    TransferBlock,
)
from pega_tune.autotune.measuring.schedule import Step
from pega_tune.kernels.backends.base import UnsupportedPlanError
from pega_tune.kernels.driver import DriverCallError
from pega_tune.kernels.plan import AnyPlan, CopyPlan, PlanPair, direct
from pega_tune.kernels.prepare import CapacityError
from pega_tune.kernels.shape import Direction

CandidateError: TypeAlias = UnsupportedPlanError | CapacityError | DriverCallError
CANDIDATE_ERRORS: Final = (UnsupportedPlanError, CapacityError, DriverCallError)
"""What a candidate may fail with, and the others go on."""

_SEEDS_PER_BLOCK: Final = 1 << 16


class BlockRunner:
    """Runs the steps of one block."""

    def __init__(self, block: TransferBlock, bench: Bench, odd: OddTransfers, sampler: LoadSampler) -> None:
        """Reserves the memory and lays out the ranges.

        Raises:
            MemoryLimitError: there is not so much memory; nothing has been run.
            EngineLostError: the context is lost already.
        """
        self._block = block
        self._bench = bench
        self._odd = odd
        self._sampler = sampler
        self._warm: set[int] = set()
        shape = block.shape
        need = Need.of(shape.merged_ranges, extent_bytes(shape, block.layout))
        plans = (c.plan for i, c in enumerate(block.candidates) if i not in block.excluded)
        runnable = (plan for plan in plans if not bench.abilities.refusal(plan))
        try:
            bench.reserve(need.union(odd.need), shape.direction.legs, runnable)
        except DriverCallError as error:
            raise (_lost(error) if error.is_sticky else error) from error
        # Each direction has a shuffle of its own.
        ways = enumerate(shape.direction.legs)
        self._layouts = {way: equal_ranges(shape, block.seed + i, block.layout) for i, way in ways}

    def execute(self, step: Step) -> Measurement:
        """Runs one step.

        Raises:
            EngineLostError: the candidate has cost the context.
        """
        candidate = self._block.candidates[step.candidate]
        refusal = self._bench.abilities.refusal(candidate.plan)
        if refusal:
            return Measurement(step.candidate, step.phase, Status.UNSUPPORTED, detail=refusal)
        try:
            return self._verify(step, candidate) if step.phase is Phase.VERIFY else self._time(step, candidate)
        except CANDIDATE_ERRORS as error:
            return self.outcome_of(step, error)

    def _verify(self, step: Step, candidate: Candidate) -> Measurement:
        wrong = ""
        if candidate.kind is not CandidateKind.CEILING:
            verdicts = (self._odd.verify(*part) for part in self._parts(candidate.plan))
            wrong = next((verdict for verdict in verdicts if verdict), "")
        seed = self._block.seed * _SEEDS_PER_BLOCK + step.candidate
        wrong = wrong or self._bench.verify(self.transfer(candidate), seed)
        return Measurement(step.candidate, step.phase, Status.MISMATCH if wrong else Status.OK, detail=wrong)

    def _time(self, step: Step, candidate: Candidate) -> Measurement:
        transfer = self.transfer(candidate)
        spans = None
        if step.candidate not in self._warm:
            self._warm.add(step.candidate)
            self._bench.run(transfer, meanwhile=self._sampler.sample)
            spans = self._bench.spans(transfer)
        timing = self._bench.time(transfer)
        measurement = Measurement(
            step.candidate,
            step.phase,
            transfer_s=timing.transfer_s,
            prepare_s=timing.prepare_s,
            submit_s=timing.submit_s,
            device_s=timing.device_s,
            wait_cpu_s=timing.wait_cpu_s,
            moving_s=timing.moving_s,
            sm_s=spans.sm_s if spans else None,
            span_s=spans.span_s if spans else None,
        )
        if timing.device_s > 0:
            return measurement
        return replace(measurement, status=Status.INVALID, detail=f"device events {timing.device_s:g} s apart")

    def outcome_of(self, step: Step, error: CandidateError) -> Measurement:
        """What an error says of the candidate that was running.

        Raises:
            EngineLostError: it has cost the context.
        """
        if not isinstance(error, DriverCallError):  # a backend knows more limits than we do
            return Measurement(step.candidate, step.phase, Status.UNSUPPORTED, detail=error.message)
        try:
            if error.is_sticky:
                raise error
            self._bench.context.synchronize()  # what was submitted before the failed call is still under way
        except DriverCallError as lost:
            raise _lost(lost) from error
        return Measurement(step.candidate, step.phase, Status.INVALID, detail=error.message)

    def transfer(self, candidate: Candidate) -> Transfer:
        """What a candidate moves, and how.

        Raises:
            UnsupportedPlanError: it does not run here.
        """
        if candidate.kind is not CandidateKind.CEILING:
            return self._bench.transfer(candidate.plan, self._layouts)
        whole = {way: self._contiguous(layout) for way, layout in self._layouts.items()}
        return self._bench.transfer(_ceiling_of(candidate.plan), whole)

    def _contiguous(self, layout: Layout) -> Layout:
        """The same bytes in one range."""
        begin = np.array([GUARD_BYTES], np.uint64)
        return Layout(begin, begin, np.array([self._block.shape.total_bytes], np.uint64), layout.extent_bytes)

    def _parts(self, plan: AnyPlan) -> Iterator[tuple[Direction, AnyPlan]]:
        """What is verified by itself: a plan, the two legs of a pair, or a fused pair, whose legs are one."""
        if isinstance(plan, PlanPair) and not plan.fused:
            yield Direction.H2D, plan.load
            yield Direction.D2H, plan.save
        else:
            yield self._block.shape.direction, plan


def _ceiling_of(plan: AnyPlan) -> AnyPlan:
    """One DMA command a direction, on streams and with a wait like those of the plan."""
    if isinstance(plan, PlanPair):
        return PlanPair(_command_like(plan.load), _command_like(plan.save))
    return _command_like(plan)


def _command_like(plan: CopyPlan) -> CopyPlan:
    return replace(direct(), stream_priority=plan.stream_priority, completion=plan.completion)


def _lost(error: DriverCallError) -> EngineLostError:
    return EngineLostError(f"the context is lost: {error.message}", error.hint)
