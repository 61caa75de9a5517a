"""How long a transfer takes on a simulated device, without noise."""

from dataclasses import dataclass, replace
from math import ceil

from pega_tune.autotune.sim.parameters import SimParameters
from pega_tune.kernels.plan import WARP_THREADS, AnyPlan, Backend, CopyPlan, PlanPair, Variant
from pega_tune.kernels.shape import Direction, TransferShape

_DESCRIPTOR_BYTES = 24
_WIDEST_ACCESS_BYTES = 16

MODELLED_BACKENDS = (Backend.DIRECT, Backend.KERNEL)


@dataclass(frozen=True, slots=True)
class TransferTimes:
    """Parts of one transfer, in seconds.

    Attributes:
        prepare_s: ordering ranges and writing descriptors.
        submit_s: driver calls.
        start_s: latency before the first and after the last byte.
        device_s: from the first event to the last; overlaps with `submit_s` where copy engines work on early commands.
        transfer_s: all of it, as the caller sees it.
    """

    prepare_s: float
    submit_s: float
    start_s: float
    device_s: float
    transfer_s: float


@dataclass(frozen=True, slots=True)
class _Launch:
    """One direction of a kernel transfer, cut to the work there is.

    Attributes:
        count: launches, one after another.
        descriptors: of the whole transfer.
        nbytes: of one launch.
        threads: on the SMs at once, if they all fit.
        in_flight_bytes: requested and not yet there, at any time.
    """

    count: int
    descriptors: int
    nbytes: float
    threads: int
    in_flight_bytes: float


@dataclass(frozen=True, slots=True)
class _Leg:
    """One direction: submissions of two legs add up, their flows overlap."""

    prepare_s: float
    submit_s: float
    start_s: float
    flow_s: float
    device_s: float


class TransferModel:
    """Times from tables: additive costs per command for copy engines, bytes in flight for kernels.

    Completion modes and stream priorities change nothing here: nobody measured them without decode beside.
    """

    def __init__(self, parameters: SimParameters) -> None:
        self._parameters = parameters

    def contiguous(self, shape: TransferShape) -> TransferTimes:
        """The ceiling: the bytes of each direction as one DMA command."""
        busy = shape.direction is Direction.BOTH
        legs = [self._dma(1, shape.total_bytes, direction, busy) for direction in shape.direction.legs]
        return _together(legs, max(leg.flow_s for leg in legs))

    def times(self, plan: AnyPlan, shape: TransferShape) -> TransferTimes:
        """A plan at a shape.

        Raises:
            ValueError: a backend that is not among `MODELLED_BACKENDS`, or a pair for a single direction.
        """
        plans = (plan.load, plan.save) if isinstance(plan, PlanPair) else (plan,)
        sides = list(zip(plans, shape.direction.legs, strict=True))
        legs = [self._leg(one, shape, direction, len(sides) == 2) for one, direction in sides]
        flow_s = max(leg.flow_s for leg in legs)
        if all(one.backend is Backend.KERNEL for one in plans) and len(sides) == 2:
            alone_s = sum(self._leg(one, shape, direction, False).flow_s for one, direction in sides)
            together = self._share_together(plans, shape)
            flow_s = together * flow_s + (1 - together) * alone_s
        return _together(legs, flow_s)

    def _leg(self, plan: CopyPlan, shape: TransferShape, direction: Direction, busy: bool) -> _Leg:
        if plan.backend is Backend.DIRECT:
            parts = ceil(shape.average_range_bytes / (plan.chunk_bytes or shape.total_bytes))
            leg = self._dma(shape.merged_ranges * parts, shape.total_bytes, direction, busy)
            waits_s = shape.merged_ranges * (parts - 1) * self._parameters.dma.chunk_wait_s
            order_s = self._parameters.order_s * shape.merged_ranges
            return replace(leg, prepare_s=order_s, flow_s=leg.flow_s + waits_s, device_s=leg.device_s + waits_s)
        if plan.backend is Backend.KERNEL:
            return self._kernel(self._launch(plan, shape), shape, direction, busy)
        raise ValueError(f"no model of {plan.backend} transfers")

    def _dma(self, commands: int, nbytes: int, direction: Direction, busy: bool) -> _Leg:
        dma = self._parameters.dma
        command_s = dma.command_s.at(commands) * (dma.pair_command_ratio if busy else 1)
        if direction is Direction.D2H:
            command_s *= dma.d2h_command_ratio
        flow_s = nbytes / (dma.rates[Direction.BOTH] / 2 if busy else dma.rates[direction])
        submit_s = commands * command_s
        return _Leg(0.0, submit_s, dma.start_s, flow_s, submit_s + flow_s)

    def _kernel(self, launch: _Launch, shape: TransferShape, direction: Direction, busy: bool) -> _Leg:
        kernel = self._parameters.kernel
        in_flight = launch.in_flight_bytes
        if busy:
            # Stores are posted: a save has twice the rate of a load with as much in flight, until the link is full.
            sees = in_flight * (2 if direction is Direction.D2H else 1)
            rate, best = kernel.rates[Direction.BOTH].saturating(sees) / 2, kernel.rates[Direction.BOTH].ys[-1] / 2
        else:
            rate, best = kernel.rates[direction].saturating(in_flight), kernel.rates[direction].ys[-1]
        moving_s = max(launch.nbytes / rate, kernel.round_trip_s[direction] + launch.nbytes / best)
        upload_s = launch.descriptors * _DESCRIPTOR_BYTES / kernel.rates[Direction.H2D].ys[-1]
        prepare_s = shape.merged_ranges * self._parameters.order_s + launch.descriptors * self._parameters.descriptor_s
        flow_s = launch.count * moving_s + upload_s
        return _Leg(prepare_s, launch.count * kernel.submit_s, launch.count * kernel.start_s, flow_s, flow_s)

    def _launch(self, plan: CopyPlan, shape: TransferShape) -> _Launch:
        assert plan.options is not None
        assert plan.threads is not None
        kernel = self._parameters.kernel
        warp = plan.variant is Variant.WARP
        workers = plan.threads // WARP_THREADS if warp else 1  # of one CTA
        piece = shape.total_bytes / shape.merged_ranges
        descriptors = shape.merged_ranges
        if warp:
            tile = self._tile_bytes(shape.total_bytes, plan.options.max_grid_blocks * workers)
            descriptors *= ceil(piece / tile)
            piece = min(piece, tile)
        count = ceil(descriptors / (plan.options.chunk_descriptors or descriptors))
        items = ceil(descriptors / count)
        grid = min(plan.options.max_grid_blocks, ceil(items / workers))
        resident = min(grid, max(1, kernel.resident_threads // plan.threads))
        access = shape.alignment or _WIDEST_ACCESS_BYTES
        lanes = WARP_THREADS * kernel.warp_loads if warp else plan.threads * kernel.block_loads
        in_flight = min(items, resident * workers) * min(piece, lanes * access)
        return _Launch(count, descriptors, shape.total_bytes / count, grid * plan.threads, in_flight)

    def _tile_bytes(self, total_bytes: int, warps: int) -> int:
        kernel = self._parameters.kernel
        share = total_bytes // (warps * kernel.tiles_per_warp) // kernel.least_tile_bytes * kernel.least_tile_bytes
        return max(kernel.least_tile_bytes, min(kernel.most_tile_bytes, share))

    def _share_together(self, plans: tuple[CopyPlan, ...], shape: TransferShape) -> float:
        """Share of the save's CTAs that find room beside the load; the others wait until the load has ended."""
        load, save = (self._launch(plan, shape).threads for plan in plans)
        return max(0.0, min(1.0, (self._parameters.kernel.resident_threads - load) / save))


def supports(plan: AnyPlan) -> bool:
    """Whether the model knows every backend of the plan."""
    plans = (plan.load, plan.save) if isinstance(plan, PlanPair) else (plan,)
    return all(one.backend in MODELLED_BACKENDS for one in plans)


def _together(legs: list[_Leg], flow_s: float) -> TransferTimes:
    prepare_s = sum(leg.prepare_s for leg in legs)
    submit_s = sum(leg.submit_s for leg in legs)
    start_s = max(leg.start_s for leg in legs)
    device_s = max(flow_s, *(leg.device_s for leg in legs))
    return TransferTimes(prepare_s, submit_s, start_s, device_s, prepare_s + submit_s + start_s + flow_s)
