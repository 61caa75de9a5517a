"""The `kernel` backend: launches of a copy kernel over mapped pinned memory, usually one."""

from collections.abc import Mapping
from dataclasses import dataclass

from pega_tune.kernels.backends.base import UnsupportedPlanError, nothing, require
from pega_tune.kernels.descriptors import DESCRIPTOR_BYTES, DescriptorSpace, tile_bytes, write_descriptors
from pega_tune.kernels.launch_skeleton import LaunchSkeleton
from pega_tune.kernels.plan import WARP_THREADS, Backend, CopyPlan, KernelOptions, Variant
from pega_tune.kernels.program import Launch, Lease, Program, ProgramBuilder, Route
from pega_tune.kernels.ranges import RangeBatch
from pega_tune.kernels.shape import Direction


@dataclass(frozen=True, slots=True)
class _Grid:
    """How the launches of a plan look."""

    function: int
    threads: int
    options: KernelOptions
    per_block: int  # descriptors that one CTA takes at once

    def launch(self, address: int, count: int) -> Launch:
        """One over so many descriptors at a device address."""
        return Launch(self.function, self.blocks(count), self.threads, (address, count))

    def blocks(self, count: int) -> int:
        """CTAs of a launch over so many descriptors."""
        return min(self.options.max_grid_blocks, -(-count // self.per_block))


class KernelBackend:
    """Runs on SMs: the `block` variant one CTA per raw range, the `warp` variant one warp per merged range or tile.

    See `TransferBackend`.
    """

    def __init__(self, functions: Mapping[Variant, int], space: DescriptorSpace) -> None:
        """Keeps what is needed to run.

        Args:
            functions: CUfunction handle of each variant that can run here.
            space: for this backend alone.
        """
        self._functions = dict(functions)
        self._space = space
        self._lease = Lease()
        self._plan: CopyPlan | None = None
        self._last: _Grid | None = None
        self._skeleton: LaunchSkeleton | None = None

    def prepare(self, batch: RangeBatch, direction: Direction, plan: CopyPlan, route: Route) -> Program:
        """As `TransferBackend.prepare`; writes the descriptors into pinned memory, from where the program uploads them.

        All are uploaded at once, also for a plan with chunks: each of its launches takes a part of them.
        """
        grid = self._grid_of(plan)
        self._lease.revoked, self._lease = True, Lease()
        tile = None
        if plan.variant is Variant.WARP:
            tile = tile_bytes(batch.total_bytes, grid.per_block * grid.options.max_grid_blocks)
        count = write_descriptors(batch, direction, self._space, tile)
        if not count:
            return nothing(route, self._lease)
        if route.end is None or grid.options.chunk_descriptors is not None:
            return self._build(batch, plan, route, count)
        if self._skeleton is None or self._skeleton.route is not route:
            self._skeleton = LaunchSkeleton(route, self._space, grid.function, grid.threads)
        return self._skeleton.fill(count, grid.blocks(count), batch, self._lease)

    def _build(self, batch: RangeBatch, plan: CopyPlan, route: Route, count: int) -> Program:
        """The program over so many descriptors, in chunks or not."""
        grid, space = self._grid_of(plan), self._space
        builder = ProgramBuilder(route)
        builder.keep(batch, space)
        builder.copy(Direction.H2D, (space.device_address, space.pinned_address), count * DESCRIPTOR_BYTES)
        chunk = grid.options.chunk_descriptors or count
        for first in range(0, count, chunk):
            if first and plan.backpressure:
                builder.complete_first()
            address = space.device_address + first * DESCRIPTOR_BYTES
            builder.launch(grid.launch(address, min(chunk, count - first)))
        return builder.finish(self._lease)

    def _grid_of(self, plan: CopyPlan) -> _Grid:
        """As `_grid`, remembered: a transfer engine runs the same plan again and again."""
        if plan is not self._plan or self._last is None:
            self._last, self._plan, self._skeleton = self._grid(plan), plan, None
        return self._last

    def _grid(self, plan: CopyPlan) -> _Grid:
        require(plan, Backend.KERNEL)
        if plan.chunk_bytes is not None:
            raise UnsupportedPlanError("chunk_bytes is for DMA commands", "use chunk_descriptors, or leave it out")
        if plan.variant not in self._functions or plan.threads is None or plan.options is None:
            raise UnsupportedPlanError(f"there is no {plan.variant} kernel here")
        per_block = 1 if plan.variant is Variant.BLOCK else plan.threads // WARP_THREADS
        return _Grid(self._functions[plan.variant], plan.threads, plan.options, per_block)
