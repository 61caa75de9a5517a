"""The `staged` backend: one DMA command per host run, and a kernel between staging and the ranges on the device."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from pega_tune.kernels import staged_commands
from pega_tune.kernels.backends.base import UnsupportedPlanError, nothing, require
from pega_tune.kernels.descriptors import DescriptorSpace, sides
from pega_tune.kernels.plan import Backend, CopyPlan, KernelOptions, PlanPair, Variant
from pega_tune.kernels.prepare import CapacityError
from pega_tune.kernels.program import Lease, Program, ProgramBuilder, Route
from pega_tune.kernels.ranges import RangeBatch
from pega_tune.kernels.shape import Direction
from pega_tune.kernels.staged_commands import Dma
from pega_tune.kernels.staged_launches import Launches, StagingKernel
from pega_tune.kernels.staged_leg import StagedLeg
from pega_tune.kernels.staged_skeleton import Compiler, StagedSkeleton
from pega_tune.kernels.staging import Ring, StagingBuffer, pipelined, whole

DEFAULT_GRID: Final = 264
DEFAULT_THREADS: Final = 256
"""Two CTAs of 256 threads on each SM of an H200, the launch with which h200-lab measured `staged`."""


def staged(grid: int = DEFAULT_GRID, threads: int = DEFAULT_THREADS, chunk_bytes: int | None = None) -> CopyPlan:
    """A staged plan whose kernels have at most `grid` CTAs of `threads` threads."""
    return CopyPlan(Backend.STAGED, Variant.WARP, threads, KernelOptions(grid), chunk_bytes)


@dataclass(frozen=True, slots=True)
class StagedHabits:
    """What a staged backend does alike for all plans.

    Attributes:
        parts: parts of every transfer that fits; None takes the rule of `staging.pipelined`.
        upload: whether the descriptors of a part are uploaded before its kernel. Otherwise the kernel reads them in
            pinned memory, if the descriptor space has an alias there: an upload would stand in the queue of a copy
            engine behind DMA that has been submitted before, that of the other direction's load too.
    """

    parts: int | None = None
    upload: bool = False


_HABITS: Final = StagedHabits()


class StagedBackend:
    """Runs on copy engines, and for tens of microseconds on SMs. It takes any number of host runs.

    DMA commands are in the route's stream, in which the program begins and ends; kernels of a transfer in several parts
    are in the side stream, so that they overlap with the DMA of other parts. A slot of the staging buffer is used again
    only behind the event of its last reader, for which streams wait, never the host.

    Preparation finds the host runs and cuts them. The descriptors of a part are written by the program itself, while
    DMA runs: that of the whole load, or of the part before in a save. See `TransferBackend`.
    """

    def __init__(
        self,
        functions: Mapping[Variant, int],
        space: DescriptorSpace,
        staging: StagingBuffer,
        ranges: int,
        habits: StagedHabits = _HABITS,
    ) -> None:
        """Keeps what is needed to run.

        Args:
            functions: CUfunction handle of each variant that can run here.
            space: for this backend alone.
            staging: for this backend alone.
            ranges: most ranges of a batch.
            habits: what is alike for all plans.
        """
        self._functions = dict(functions)
        self._space = space
        self._staging = staging
        self._legs = {direction: StagedLeg(direction, ranges) for direction in Direction.BOTH.legs}
        self._pipelined = partial(pipelined, buffer=staging, parts=habits.parts)
        self._upload = habits.upload or space.pinned_alias is None
        self._lease = Lease()
        self._skeletons: dict[Direction, StagedSkeleton] = {}
        self._plan: CopyPlan | None = None
        self._kernel: StagingKernel | None = None
        self._halves: tuple[partial[Ring], ...] | None = None

    def prepare(self, batch: RangeBatch, direction: Direction, plan: CopyPlan, route: Route) -> Program:
        """As `TransferBackend.prepare`."""
        kernel = self._kernel_of(plan)
        sides(batch.device, batch.host, direction)  # refuses both
        lease = self._renew()
        if not len(batch):
            return nothing(route, lease)
        leg = self._legs[direction]
        leg.plan(batch, self._pipelined, plan.chunk_bytes, kernel.warps)
        self._require_room(leg)
        skeleton = self._skeletons.get(direction)
        if skeleton is None or not skeleton.arm(plan, route, (leg,)):
            skeleton = self._build(plan, route, (leg,), partial(self._compile, kernel, leg, plan))
            self._skeletons[direction] = skeleton
        return skeleton.program((leg,), lease)

    def prepare_fused(self, load: RangeBatch, save: RangeBatch, pair: PlanPair, route: Route) -> Program:
        """Compiles a load and a save whose kernels are one.

        All DMA in, one launch that scatters the load and gathers the save, then all DMA out. Each direction has half
        of the staging buffer; a transfer that does not fit goes in rounds, the DMA in of the next one beside the DMA
        out of the last one.

        Args:
            load: the ranges of the load.
            save: the ranges of the save.
            pair: the plans; all but what concerns DMA must be alike. If a batch has no ranges, the other goes alone.
            route: save DMA is in its stream, load DMA and launches are in its side stream.

        Raises:
            UnsupportedPlanError: the plans are not fused, not this backend's, or need two kernels.
            CapacityError: the batches are larger than the buffers.
        """
        kernel = self._kernel_of(pair.load)
        if not pair.fused or self._kernel_of(pair.save) != kernel:
            raise UnsupportedPlanError("a fused launch needs a fused pair of plans with the same grid and threads")
        if not len(save):
            return self.prepare(load, Direction.H2D, pair.load, route)
        if not len(load):
            return self.prepare(save, Direction.D2H, pair.save, route)
        lease = self._renew()
        legs = tuple(self._legs.values())
        if self._halves is None:
            self._halves = tuple(partial(whole, buffer=half) for half in self._staging.halves())
        for leg, batch, plan, cut in zip(legs, (load, save), (pair.load, pair.save), self._halves, strict=True):
            leg.plan(batch, cut, plan.chunk_bytes, kernel.warps)
        self._require_room(*legs)
        skeleton = self._skeletons.get(Direction.BOTH)
        if skeleton is None or not skeleton.arm(pair, route, legs):
            skeleton = self._build(pair, route, legs, partial(self._compile_fused, kernel, pair))
            self._skeletons[Direction.BOTH] = skeleton
        return skeleton.program(legs, lease)

    def _build(
        self, plan: CopyPlan | PlanPair, route: Route, legs: Sequence[StagedLeg], compile_commands: Compiler
    ) -> StagedSkeleton:
        """A skeleton for what has been planned, armed with it."""
        skeleton = StagedSkeleton(plan, route, compile_commands)
        armed = skeleton.arm(plan, route, legs)
        assert armed
        return skeleton

    def _compile(
        self, kernel: StagingKernel, leg: StagedLeg, plan: CopyPlan, builder: ProgramBuilder
    ) -> tuple[Launches, list[Dma]]:
        launches = self._launches(builder, kernel, leg.schedule.counts.parts)
        dma = Dma(builder, leg, plan, builder.route.stream)
        (staged_commands.load if leg.direction is Direction.H2D else staged_commands.save)(builder, launches, dma)
        return launches, [dma]

    def _compile_fused(
        self, kernel: StagingKernel, pair: PlanPair, builder: ProgramBuilder
    ) -> tuple[Launches, list[Dma]]:
        load, save = self._legs.values()
        launches = self._launches(builder, kernel, load.schedule.counts.parts + save.schedule.counts.parts)
        inward = Dma(builder, load, pair.load, builder.route.side_stream)
        outward = Dma(builder, save, pair.save, builder.route.stream)
        staged_commands.fused(builder, launches, (inward, outward))
        return launches, [inward, outward]

    def _launches(self, builder: ProgramBuilder, kernel: StagingKernel, parts: int) -> Launches:
        builder.keep(self._space)
        return Launches(builder, kernel, self._space, parts)

    def _kernel_of(self, plan: CopyPlan) -> StagingKernel:
        """As `_find_kernel`, remembered."""
        if plan is not self._plan or self._kernel is None:
            self._kernel, self._plan = self._find_kernel(plan), plan
        return self._kernel

    def _find_kernel(self, plan: CopyPlan) -> StagingKernel:
        require(plan, Backend.STAGED)
        if plan.variant is not Variant.WARP or plan.variant not in self._functions:
            raise UnsupportedPlanError(f"there is no {plan.variant} kernel for staging here")
        if plan.threads is None or plan.options is None or plan.options.chunk_descriptors is not None:
            raise UnsupportedPlanError("staged plans launch once a part", "cut the DMA with chunk_bytes instead")
        function, grid = self._functions[plan.variant], plan.options.max_grid_blocks
        return StagingKernel(function, plan.threads, grid, self._upload)

    def _renew(self) -> Lease:
        self._lease.revoked = True
        self._lease = Lease()
        return self._lease

    def _require_room(self, *legs: StagedLeg) -> None:
        room = self._space.capacity
        descriptors = sum(leg.descriptor_bound(room // len(legs)) for leg in legs)
        if descriptors > room:
            raise CapacityError(f"{descriptors} descriptors might not fit a space for {room}")
