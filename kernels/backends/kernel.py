"""The `kernel` backend: one launch of a copy kernel over mapped pinned memory."""

from collections.abc import Mapping
from dataclasses import dataclass

from pega_tune.kernels.backends.base import StaleError, UnsupportedPlanError, require
from pega_tune.kernels.descriptors import DescriptorSpace, tile_bytes, write_descriptors
from pega_tune.kernels.driver import DriverTable
from pega_tune.kernels.plan import WARP_THREADS, Backend, CopyPlan, Variant
from pega_tune.kernels.ranges import RangeBatch
from pega_tune.kernels.shape import Direction
from pega_tune.kernels.submit import KernelLaunch, KernelSubmitter


@dataclass(frozen=True, slots=True)
class PreparedLaunch:
    """A batch whose descriptors are written.

    Attributes:
        launch: how to run them.
        serial: which preparation of its backend this is.
    """

    launch: KernelLaunch
    serial: int


class KernelBackend:
    """Runs on SMs: the `block` variant one CTA per raw range, the `warp` variant one warp per merged range or tile.

    See `TransferBackend`.
    """

    def __init__(self, table: DriverTable, functions: Mapping[Variant, int], space: DescriptorSpace) -> None:
        """Keeps what is needed to run.

        Args:
            table: the driver.
            functions: CUfunction handle of each variant that can run here.
            space: for this backend alone.
        """
        self._functions = dict(functions)
        self._space = space
        self._submitter = KernelSubmitter(table, space.pinned_address, space.device_address)
        self._serial = 0

    def prepare(self, batch: RangeBatch, direction: Direction, plan: CopyPlan) -> PreparedLaunch:
        """As `TransferBackend.prepare`; writes the descriptors into pinned memory."""
        require(plan, Backend.KERNEL)
        if plan.variant not in self._functions or plan.threads is None or plan.options is None:
            raise UnsupportedPlanError(f"there is no {plan.variant} kernel here")
        self._serial += 1
        if plan.variant is Variant.BLOCK:
            blocks = count = write_descriptors(batch, direction, self._space)
        else:
            warps = plan.threads // WARP_THREADS
            tile = tile_bytes(batch.total_bytes, warps * plan.options.max_grid_blocks)
            count = write_descriptors(batch, direction, self._space, tile)
            blocks = -(-count // warps)
        launch = KernelLaunch(
            function=self._functions[plan.variant],
            grid_blocks=min(plan.options.max_grid_blocks, blocks),
            threads=plan.threads,
            descriptors=count,
        )
        return PreparedLaunch(launch, self._serial)

    def submit(self, prepared: PreparedLaunch, stream: int) -> None:
        """As `TransferBackend.submit`."""
        if prepared.serial != self._serial:
            raise StaleError("another batch has been prepared since")
        self._submitter.submit(prepared.launch, stream)
