"""The `staged` backend: one DMA command per host run, and a kernel between staging and the ranges on the device."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

from pega_tune.kernels import staged_commands
from pega_tune.kernels.backends.base import UnsupportedPlanError, require
from pega_tune.kernels.descriptors import DESCRIPTOR_BYTES, DescriptorSpace, sides, tile_bytes
from pega_tune.kernels.host_runs import HostRuns, RunFinder
from pega_tune.kernels.plan import Backend, CopyPlan, KernelOptions, PlanPair, Variant
from pega_tune.kernels.program import Lease, Program, ProgramBuilder, Route
from pega_tune.kernels.ranges import RangeBatch
from pega_tune.kernels.shape import Direction
from pega_tune.kernels.staged_commands import Dma, Launches, StagingKernel
from pega_tune.kernels.staged_descriptors import DescriptorWriter, StagedLeg
from pega_tune.kernels.staging import Ring, StagingBuffer, pipelined, schedule, whole

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
        upload: whether descriptors go to device memory before anything else. Otherwise kernels read them in pinned
            memory, through its alias, which is then the device address of the descriptor space: in the save of a load
            and a save at once, an upload may stand behind the load's DMA in the queue of their copy engine.
    """

    parts: int | None = None
    upload: bool = True


_HABITS: Final = StagedHabits()


class StagedBackend:
    """Runs on copy engines, and for tens of microseconds on SMs. It takes any number of host runs.

    DMA commands are in the route's stream, in which the program begins and ends; kernels of a transfer in several parts
    are in the side stream, so that they overlap with the DMA of other parts. A slot of the staging buffer is used again
    only behind the event of its last reader, for which streams wait, never the host. The descriptors of all parts are
    uploaded before anything else. See `TransferBackend`.
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
        self._finders = {direction: RunFinder(ranges) for direction in Direction.BOTH.legs}
        self._habits = habits
        self._lease = Lease()

    def prepare(self, batch: RangeBatch, direction: Direction, plan: CopyPlan, route: Route) -> Program:
        """As `TransferBackend.prepare`."""
        kernel = self._kernel(plan)
        sides(batch.device, batch.host, direction)  # refuses both
        lease = self._renew()
        leg = self._leg(direction, batch, partial(pipelined, buffer=self._staging, parts=self._habits.parts), plan)
        rows = DescriptorWriter(leg, self._space).write(0)
        builder = ProgramBuilder(route)
        launches = Launches(builder, kernel, self._space.device_address)
        self._upload(builder, rows[-1])
        dma = Dma(builder, leg, plan, route.stream)
        (staged_commands.load if direction is Direction.H2D else staged_commands.save)(builder, launches, dma, rows)
        return builder.finish(lease)

    def prepare_fused(self, load: RangeBatch, save: RangeBatch, pair: PlanPair, route: Route) -> Program:
        """Compiles a load and a save whose kernels are one.

        All DMA in, one launch that scatters the load and gathers the save, then all DMA out. Each direction has half
        of the staging buffer; a transfer that does not fit goes in rounds, the DMA in of the next one beside the DMA
        out of the last one.

        Args:
            load: the ranges of the load.
            save: the ranges of the save.
            pair: the plans; all but what concerns DMA must be alike.
            route: load DMA and launches are in its stream, save DMA is in its side stream.

        Raises:
            UnsupportedPlanError: the plans are not fused, not this backend's, or need two kernels.
            CapacityError: the batches are larger than the buffers.
        """
        kernel = self._kernel(pair.load)
        if not pair.fused or self._kernel(pair.save) != kernel:
            raise UnsupportedPlanError("a fused launch needs a fused pair of plans with the same grid and threads")
        lease = self._renew()
        builder = ProgramBuilder(route)
        cut = zip(Direction.BOTH.legs, (load, save), (pair.load, pair.save), self._staging.halves(), strict=True)
        legs = [self._leg(way, batch, partial(whole, buffer=half), plan) for way, batch, plan, half in cut]
        rows = self._write_rounds(legs)
        self._upload(builder, rows[-1])
        inward = Dma(builder, legs[0], pair.load, route.stream)
        outward = Dma(builder, legs[1], pair.save, route.side_stream)
        staged_commands.fused(builder, Launches(builder, kernel, self._space.device_address), (inward, outward), rows)
        return builder.finish(lease)

    def _leg(
        self, direction: Direction, batch: RangeBatch, cut: Callable[[HostRuns], Ring], plan: CopyPlan
    ) -> StagedLeg:
        """The way of a batch through the ring that `cut` makes for its runs."""
        runs = self._finders[direction].find(batch)
        way = schedule(runs, cut(runs), plan.chunk_bytes)
        tile = tile_bytes(batch.total_bytes // way.parts, self._kernel(plan).warps)
        return StagedLeg(direction, batch, runs, way, tile)

    def _kernel(self, plan: CopyPlan) -> StagingKernel:
        require(plan, Backend.STAGED)
        if plan.variant is not Variant.WARP or plan.variant not in self._functions:
            raise UnsupportedPlanError(f"there is no {plan.variant} kernel for staging here")
        if plan.threads is None or plan.options is None or plan.options.chunk_descriptors is not None:
            raise UnsupportedPlanError("staged plans launch once a part", "cut the DMA with chunk_bytes instead")
        return StagingKernel(self._functions[plan.variant], plan.threads, plan.options.max_grid_blocks)

    def _renew(self) -> Lease:
        self._lease.revoked = True
        self._lease = Lease()
        return self._lease

    def _write_rounds(self, legs: list[StagedLeg]) -> list[int]:
        """Writes the descriptors of every round behind one another; the row behind each round."""
        writers = [(leg.schedule.parts, DescriptorWriter(leg, self._space)) for leg in legs]
        row, rows = 0, []
        for number in range(max(parts for parts, _ in writers)):
            for parts, writer in writers:
                if number < parts:
                    row = writer.write(row, 1)[0]
            rows.append(row)
        return rows

    def _upload(self, builder: ProgramBuilder, rows: int) -> None:
        space = self._space
        if self._habits.upload:
            builder.copy(Direction.H2D, (space.device_address, space.pinned_address), rows * DESCRIPTOR_BYTES)
        builder.keep(space.pinned)
