"""The steps of one block, run on a GPU."""

from dataclasses import replace
from typing import Final, TypeAlias

import numpy as np

from pega_tune.autotune.cuda.bench import Bench, DirectedRun, OddTransfers
from pega_tune.autotune.cuda.buffers import Need
from pega_tune.autotune.cuda.layout import GUARD_BYTES, Layout, equal_ranges, extent_bytes
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
from pega_tune.kernels.plan import CopyPlan, PlanPair, direct
from pega_tune.kernels.shape import Direction

_SEEDS_PER_BLOCK: Final = 1 << 16

_Legs: TypeAlias = tuple[tuple[Direction, CopyPlan], ...]


class BlockRunner:
    """Runs the steps of one block."""

    def __init__(self, block: TransferBlock, bench: Bench, odd: OddTransfers, sampler: LoadSampler) -> None:
        """Reserves the memory and lays out the ranges.

        Raises:
            MemoryLimitError: there is not so much memory; nothing has been run.
        """
        self._block = block
        self._bench = bench
        self._odd = odd
        self._sampler = sampler
        self._warm: set[int] = set()
        shape = block.shape
        bench.reserve(Need.of(shape.merged_ranges, extent_bytes(shape)).union(odd.need), shape.direction.legs)
        # Each direction has a shuffle of its own.
        self._layouts = {way: equal_ranges(shape, block.seed + i) for i, way in enumerate(shape.direction.legs)}

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
        except UnsupportedPlanError as error:  # a backend knows more limits than we do
            return Measurement(step.candidate, step.phase, Status.UNSUPPORTED, detail=error.message)
        except DriverCallError as error:
            return self._failed(step, error)

    def _verify(self, step: Step, candidate: Candidate) -> Measurement:
        wrong = ""
        if candidate.kind is not CandidateKind.CEILING:
            verdicts = (self._odd.verify(direction, plan) for direction, plan in self._legs(candidate))
            wrong = next((verdict for verdict in verdicts if verdict), "")
        seed = self._block.seed * _SEEDS_PER_BLOCK + step.candidate
        wrong = wrong or self._bench.verify(self._runs(candidate), seed)
        return Measurement(step.candidate, step.phase, Status.MISMATCH if wrong else Status.OK, detail=wrong)

    def _time(self, step: Step, candidate: Candidate) -> Measurement:
        runs = self._runs(candidate)
        if step.candidate not in self._warm:
            self._warm.add(step.candidate)
            self._bench.time(runs, meanwhile=self._sampler.sample)
        timing = self._bench.time(runs)
        measurement = Measurement(
            step.candidate,
            step.phase,
            transfer_s=timing.transfer_s,
            prepare_s=timing.prepare_s,
            submit_s=timing.submit_s,
            device_s=timing.device_s,
        )
        if timing.device_s > 0:
            return measurement
        return replace(measurement, status=Status.INVALID, detail=f"device events {timing.device_s:g} s apart")

    def _failed(self, step: Step, error: DriverCallError) -> Measurement:
        try:
            if error.is_sticky:
                raise error
            self._bench.context.synchronize()  # what was submitted before the failed call is still under way
        except DriverCallError as lost:
            raise EngineLostError(f"the context is lost: {lost.message}", lost.hint) from error
        return Measurement(step.candidate, step.phase, Status.INVALID, detail=error.message)

    def _runs(self, candidate: Candidate) -> tuple[DirectedRun, ...]:
        run = self._contiguous if candidate.kind is CandidateKind.CEILING else self._scattered
        return tuple(run(direction, plan) for direction, plan in self._legs(candidate))

    def _scattered(self, direction: Direction, plan: CopyPlan) -> DirectedRun:
        return self._bench.run(direction, self._layouts[direction], plan)

    def _contiguous(self, direction: Direction, plan: CopyPlan) -> DirectedRun:
        """The same bytes in one range, by one DMA command."""
        block = self._layouts[direction]
        begin = np.array([GUARD_BYTES], np.uint64)
        whole = Layout(begin, begin, np.array([self._block.shape.total_bytes], np.uint64), block.extent_bytes)
        return self._bench.run(direction, whole, replace(direct(), stream_priority=plan.stream_priority))

    def _legs(self, candidate: Candidate) -> _Legs:
        plan = candidate.plan
        if isinstance(plan, PlanPair):
            return (Direction.H2D, plan.load), (Direction.D2H, plan.save)
        return ((self._block.shape.direction, plan),)
