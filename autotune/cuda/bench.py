"""What transfers are run and verified on, from one block to the next."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from pega_tune.autotune.cuda.abilities import Abilities
from pega_tune.autotune.cuda.buffers import Buffers
from pega_tune.autotune.cuda.lanes import Lane, LaneRun
from pega_tune.autotune.cuda.layout import Layout, odd_ranges
from pega_tune.autotune.cuda.need import Need
from pega_tune.autotune.cuda.submission import SubmissionThread
from pega_tune.autotune.cuda.timing import Timing, time_moving, time_transfer
from pega_tune.autotune.cuda.verifying import Leg, Verifier
from pega_tune.kernels.context import PrimaryContext
from pega_tune.kernels.memory import OutOfDeviceMemoryError
from pega_tune.kernels.plan import AnyPlan, Backend, PlanPair
from pega_tune.kernels.shape import Direction
from pega_tune.kernels.spans import SpanRecorder, Spans, copies_in_batches

_ODD_SEED: Final = 408

Layouts: TypeAlias = Mapping[Direction, Layout]


@dataclass(frozen=True, slots=True)
class Transfer:
    """A transfer of one or both directions, to run any number of times.

    Attributes:
        runs: what moves it, in the order of submission; one for both directions if they are fused.
        layouts: where the ranges of each direction lie.
    """

    runs: tuple[LaneRun, ...]
    layouts: Layouts


@dataclass(frozen=True, slots=True)
class Bench:
    """Lanes with their memory.

    Attributes:
        context: where everything lives.
        lanes: one per direction.
        buffers: their memory.
        verifier: compares bytes.
        abilities: what can run.
        recorder: writes down how long CTAs run; None leaves that unknown.
        second: submits the second direction where that keeps the host busy; None leaves all to one thread.
    """

    context: PrimaryContext
    lanes: Mapping[Direction, Lane]
    buffers: Buffers
    verifier: Verifier
    abilities: Abilities
    recorder: SpanRecorder | None = None
    second: SubmissionThread | None = None

    def reserve(self, need: Need, directions: tuple[Direction, ...], plans: Iterable[AnyPlan] = ()) -> None:
        """Gives the lanes of these directions slabs that satisfy the need; transfers made before are void.

        Args:
            need: of each direction, without staging.
            directions: which ones.
            plans: what will run; staged plans are given staging buffers.

        Raises:
            MemoryLimitError: there is not so much memory.
        """
        needs = dict.fromkeys(directions, need)
        for plan in plans:
            for direction in _staged_directions(plan, directions):
                needs[direction] = needs[direction].union(need.staged())
            if isinstance(plan, PlanPair) and plan.fused:
                needs[Direction.H2D] = needs[Direction.H2D].union(need.staged().fused())
        self.buffers.reserve(needs)
        for direction in directions:
            self.lanes[direction].attach(self.buffers[direction])

    def transfer(self, plan: AnyPlan, layouts: Layouts) -> Transfer:
        """A transfer of the ranges of one layout, or of one per direction by a pair.

        Raises:
            UnsupportedPlanError: a plan does not run here.
        """
        batches = {way: self.lanes[way].slabs.batch(layout) for way, layout in layouts.items()}
        if not isinstance(plan, PlanPair):
            ((way, batch),) = batches.items()
            return Transfer((self.lanes[way].run(batch, plan),), layouts)
        load, save = batches[Direction.H2D], batches[Direction.D2H]
        if plan.fused:
            return Transfer((self.lanes[Direction.H2D].run_fused(load, save, plan),), layouts)
        runs = (self.lanes[Direction.H2D].run(load, plan.load), self.lanes[Direction.D2H].run(save, plan.save))
        # A staged save has to gather before its first byte leaves the device, so it begins first.
        return Transfer(runs[::-1] if plan.save.backend is Backend.STAGED else runs, layouts)

    def verify(self, transfer: Transfer, seed: int) -> str:
        """Runs a transfer between fresh data and poison; what is wrong, or nothing."""
        legs = [Leg(way, self.lanes[way], layout) for way, layout in transfer.layouts.items()]
        return self.verifier.verify(legs, self.buffers.mirror, seed, lambda: self.run(transfer))

    def run(self, transfer: Transfer, meanwhile: Callable[[], None] | None = None) -> Timing:
        """Runs a transfer once, as `time_transfer`."""
        return time_transfer(transfer.runs, meanwhile=meanwhile, second=self.second)

    def time(self, transfer: Transfer) -> Timing:
        """Runs a transfer, and one of several runs once more right after, prepared beforehand, for `moving_s`."""
        timing = self.run(transfer)
        if timing.moving_s is not None:
            return timing
        return replace(timing, moving_s=time_moving(transfer.runs, second=self.second))

    def spans(self, transfer: Transfer) -> Spans | None:
        """Runs a transfer once more, if it launches kernels, with timed ones; None if there is no telling.

        The host waits as it always does, and so do chunks.
        """
        if self.recorder is None:
            return None
        runs = transfer.runs
        for run in runs:
            run.prepare()
        programs = [run.program for run in runs]
        if copies_in_batches(programs):
            return None

        def move() -> None:
            for run in runs:
                run.submit()
            runs[0].wait(runs[1:])

        try:
            return self.recorder.record(programs, [run.bounds for run in runs], move)
        except OutOfDeviceMemoryError:  # what measures must not cost what it measures
            return None


class OddTransfers:
    """Verifies plans on awkward ranges: every size from 1 to 4097, every pair of alignments, guards between.

    Each plan is verified once per direction and engine, a fused pair once.

    Attributes:
        need: what must have been reserved for the directions, beside what the plan itself needs.
    """

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self._layout = odd_ranges(_ODD_SEED)
        self._verdicts: dict[tuple[Direction, AnyPlan], str] = {}
        self.need: Final = Need.of(len(self._layout.nbytes), self._layout.extent_bytes)

    def verify(self, direction: Direction, plan: AnyPlan) -> str:
        """What is wrong, or nothing.

        Args:
            direction: both for a pair that is not the same as its two legs.
            plan: to verify.

        Raises:
            UnsupportedPlanError, DriverCallError: it could not be run, and there is no verdict.
        """
        key = (direction, plan)
        if key not in self._verdicts:
            transfer = self._bench.transfer(plan, dict.fromkeys(direction.legs, self._layout))
            wrong = self._bench.verify(transfer, len(self._verdicts))
            self._verdicts[key] = f"odd sizes and addresses: {wrong}" if wrong else ""
        return self._verdicts[key]


def _staged_directions(plan: AnyPlan, directions: tuple[Direction, ...]) -> Iterator[Direction]:
    """Those of the directions in which a plan is staged."""
    legs = (plan.load, plan.save) if isinstance(plan, PlanPair) else (plan,)
    for direction, leg in zip(directions, legs, strict=False):
        if leg.backend is Backend.STAGED:
            yield direction
