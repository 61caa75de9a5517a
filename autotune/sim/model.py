"""How long a transfer takes on a simulated device, without noise."""

from dataclasses import dataclass, replace
from math import ceil
from typing import TypeAlias

from pega_tune.autotune.sim.parameters import SimParameters
from pega_tune.autotune.sim.times import Leg, TransferTimes, together
from pega_tune.autotune.sweep.plans import legs_of
from pega_tune.kernels.plan import WARP_THREADS, AnyPlan, Backend, CopyPlan, PlanPair, Variant
from pega_tune.kernels.shape import Direction, TransferShape

_DESCRIPTOR_BYTES = 24
_WIDEST_ACCESS_BYTES = 16

MODELLED_BACKENDS = tuple(Backend)


@dataclass(frozen=True, slots=True)
class Launches:
    """One direction of a kernel transfer, cut to the work there is.

    Attributes:
        count: launches, one after another.
        descriptors: of the whole transfer.
        nbytes: of one launch.
        threads: on the SMs at once, if they all fit.
        sms: SMs that any of them are on.
        in_flight_bytes: requested and not yet there, at any time.
        waits: a launch is submitted only when the one before has completed.
    """

    count: int
    descriptors: int
    nbytes: float
    threads: int
    sms: int
    in_flight_bytes: float
    waits: bool


_Side: TypeAlias = tuple[CopyPlan, Direction]


class TransferModel:
    """Times from tables: additive costs per command for copy engines, bytes in flight for kernels.

    Completion modes, stream priorities and the overlap flag change nothing here: nobody measured them without decode
    beside. A partition bounds the threads of a copy kernel that are on the SMs; staged plans, whose kernels are short,
    are taken to be as fast in one.
    """

    def __init__(self, parameters: SimParameters) -> None:
        self._parameters = parameters

    @property
    def parameters(self) -> SimParameters:
        """Of the device."""
        return self._parameters

    def contiguous(self, shape: TransferShape) -> TransferTimes:
        """The ceiling: the bytes of each direction as one DMA command."""
        busy = shape.direction is Direction.BOTH
        legs = [self._dma(1, shape.total_bytes, direction, busy) for direction in shape.direction.legs]
        return together(legs, max(leg.flow_s for leg in legs))

    def times(self, plan: AnyPlan, shape: TransferShape) -> TransferTimes:
        """A plan at a shape.

        Raises:
            ValueError: what `refusal` tells, or a pair for a single direction.
        """
        refused = refusal(plan, shape)
        if refused:
            raise ValueError(refused)
        plans = legs_of(plan)
        sides = list(zip(plans, shape.direction.legs, strict=True))
        if isinstance(plan, PlanPair) and plan.fused:
            return self._fused(sides, shape)
        legs = [self._waiting(one, self.leg(one, shape, direction, len(sides) == 2), shape) for one, direction in sides]
        flow_s = max(leg.flow_s for leg in legs)
        if all(one.backend is Backend.KERNEL for one in plans) and len(sides) == 2:
            alone_s = sum(self.leg(one, shape, direction, False).flow_s for one, direction in sides)
            share = self._share_together(plans, shape)
            flow_s = share * flow_s + (1 - share) * alone_s
        times = together(legs, flow_s)
        if times.span_s is None:
            return times
        return replace(times, span_s=times.span_s * flow_s / max(leg.flow_s for leg in legs))

    def _fused(self, sides: list[_Side], shape: TransferShape) -> TransferTimes:
        """The load's bytes arrive before the one kernel, the save's leave after it: their flows do not overlap."""
        legs = [
            self._waiting(one, self.leg(one, shape, direction, False, whole=True), shape) for one, direction in sides
        ]
        shared_s = shape.total_bytes / self._parameters.staged.gather_rate  # both halves of the kernel run at once
        times = together(legs, sum(leg.flow_s for leg in legs) - shared_s)
        return replace(times, sm_s=legs[0].sm_s, span_s=shared_s)

    def leg(
        self, plan: CopyPlan, shape: TransferShape, direction: Direction, busy: bool, *, whole: bool = False
    ) -> Leg:
        """One direction of a transfer, without what it waits for between chunks.

        Args:
            plan: of the direction.
            shape: of the transfer.
            direction: which.
            busy: whether the other direction is under way as well.
            whole: a staged transfer in one part, whatever its size.
        """
        match plan.backend:
            case Backend.DIRECT:
                pieces = shape.merged_ranges * ceil(shape.average_range_bytes / (plan.chunk_bytes or shape.total_bytes))
                leg = self._dma(pieces, shape.total_bytes, direction, busy)
            case Backend.BATCH:
                leg = self._batch(shape, direction, busy)
            case Backend.PITCHED:
                leg = self._pitched(plan, shape, direction, busy)
            case Backend.STAGED:
                leg = self._staged(plan, shape, direction, busy, parts=int(whole))
            case Backend.KERNEL:
                return self._kernel(self.launches(plan, shape), shape, direction, busy)
        return replace(leg, prepare_s=leg.prepare_s + self._ordering_s(shape))

    def _waiting(self, plan: CopyPlan, leg: Leg, shape: TransferShape) -> Leg:
        """Adds what a leg of DMA commands waits for between chunks; launches have it in their starts."""
        if plan.backend is Backend.KERNEL or not plan.backpressure:
            return leg
        waits_s = (chunks_of(plan, shape) - 1) * self._parameters.dma.chunk_wait_s
        return replace(leg, flow_s=leg.flow_s + waits_s, device_s=leg.device_s + waits_s)

    def _batch(self, shape: TransferShape, direction: Direction, busy: bool) -> Leg:
        batch = self._parameters.batch
        range_s = batch.pair_range_s.at(shape.average_range_bytes) * (0.5 if busy else batch.shares[direction])
        submit_s = batch.call_s + shape.merged_ranges * range_s
        leg = self._dma(1, shape.total_bytes, direction, busy)
        return replace(
            leg, submit_s=submit_s, device_s=submit_s + leg.flow_s, sm_s=None, span_s=None, commands=shape.merged_ranges
        )

    def _pitched(self, plan: CopyPlan, shape: TransferShape, direction: Direction, busy: bool) -> Leg:
        pitched = self._parameters.pitched
        leg = self._dma(1, shape.total_bytes, direction, busy)
        commands = chunks_of(plan, shape)
        submit_s, flow_s = commands * pitched.submit_s, leg.flow_s / pitched.rate_ratio
        device_s = submit_s + flow_s
        return replace(leg, submit_s=submit_s, flow_s=flow_s, device_s=device_s, moving_s=flow_s, commands=commands)

    def _staged(self, plan: CopyPlan, shape: TransferShape, side: Direction, busy: bool, parts: int = 0) -> Leg:
        """Part by part; only one part's gather is not hidden behind the copies of the others."""
        assert shape.host_runs is not None
        staged = self._parameters.staged
        parts = parts or staged.parts(shape.total_bytes)
        leg = self._dma(max(parts, chunks_of(plan, shape), shape.host_runs), shape.total_bytes, side, busy)
        kernels_s = shape.total_bytes / staged.gather_rate
        sm_s, span_s = self._sms(plan) * kernels_s, (kernels_s + (parts - 1) * leg.flow_s) / parts
        submit_s = leg.submit_s + parts * staged.part_s
        flow_s = leg.flow_s + kernels_s / parts
        prepare_s = shape.merged_ranges * self._parameters.descriptor_s
        device_s = submit_s + flow_s
        waiting = Leg(prepare_s, submit_s, leg.start_s, flow_s, device_s, sm_s, span_s)
        return replace(waiting, moving_s=leg.moving_s, commands=leg.commands, parts=parts)

    def _ordering_s(self, shape: TransferShape) -> float:
        in_order = shape.host_runs == 1
        return shape.merged_ranges * (self._parameters.in_order_s if in_order else self._parameters.order_s)

    def _dma(self, commands: int, nbytes: int, direction: Direction, busy: bool) -> Leg:
        dma = self._parameters.dma
        command_s = dma.command_s.at(commands) * (dma.pair_command_ratio if busy else 1)
        if direction is Direction.D2H:
            command_s *= dma.d2h_command_ratio
        flow_s = nbytes / (dma.rates[Direction.BOTH] / 2 if busy else dma.rates[direction])
        submit_s = commands * command_s
        device_s = submit_s + flow_s
        return Leg(0.0, submit_s, dma.start_s, flow_s, device_s, moving_s=flow_s, commands=commands)

    def _kernel(self, launch: Launches, shape: TransferShape, direction: Direction, busy: bool) -> Leg:
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
        prepare_s = self._ordering_s(shape) + launch.descriptors * self._parameters.descriptor_s
        flow_s = launch.count * moving_s + upload_s
        starts = launch.count if launch.waits else 1
        sm_s, span_s = launch.count * launch.sms * moving_s, launch.count * moving_s + (starts - 1) * kernel.start_s
        submit_s = launch.count * kernel.submit_s
        return Leg(prepare_s, submit_s, starts * kernel.start_s, flow_s, flow_s, sm_s, span_s)

    def launches(self, plan: CopyPlan, shape: TransferShape) -> Launches:
        """The launches of one direction of a kernel transfer."""
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
        resident = min(grid, max(1, self.room(plan) // plan.threads))
        access = shape.alignment or _WIDEST_ACCESS_BYTES
        lanes = WARP_THREADS * kernel.warp_loads if warp else plan.threads * kernel.block_loads
        in_flight = min(items, resident * workers) * min(piece, lanes * access)
        nbytes, sms = shape.total_bytes / count, min(grid, self._sms(plan))
        return Launches(count, descriptors, nbytes, grid * plan.threads, sms, in_flight, plan.backpressure)

    def _sms(self, plan: CopyPlan) -> int:
        """SMs that the largest launch of a plan reaches; a grid takes an SM for each of its CTAs as long as it can."""
        assert plan.options is not None
        return min(plan.options.max_grid_blocks, plan.sm_partition or self._parameters.facts.identity.sm_count)

    def _tile_bytes(self, total_bytes: int, warps: int) -> int:
        kernel = self._parameters.kernel
        share = total_bytes // (warps * kernel.tiles_per_warp) // kernel.least_tile_bytes * kernel.least_tile_bytes
        return max(kernel.least_tile_bytes, min(kernel.most_tile_bytes, share))

    def _share_together(self, plans: tuple[CopyPlan, ...], shape: TransferShape) -> float:
        """Share of the save's CTAs that find room beside the load; the others wait until the load has ended."""
        load, save = (self.launches(plan, shape).threads for plan in plans)
        apart = plans[0].sm_partition != plans[1].sm_partition
        return max(0.0, min(1.0, (self.room(plans[1]) - (0 if apart else load)) / save))

    def room(self, plan: CopyPlan) -> int:
        """Threads that the SMs of a plan hold at once."""
        everywhere, sms = self._parameters.kernel.resident_threads, plan.sm_partition
        return everywhere if sms is None else everywhere * sms // self._parameters.facts.identity.sm_count


def refusal(plan: AnyPlan, shape: TransferShape) -> str:
    """Why the model has no times for a plan at a shape, one line; empty if it has."""
    backends = {one.backend for one in legs_of(plan)}
    if isinstance(plan, PlanPair) and plan.fused and backends != {Backend.STAGED}:
        return "only two staged copies share a launch"
    if Backend.PITCHED in backends and shape.pitch is None:
        return "no model of pitched copies of ranges without a common stride"
    if Backend.STAGED in backends and shape.host_runs is None:
        return "no model of staged copies of ranges whose host runs are unknown"
    return ""


def chunks_of(plan: CopyPlan, shape: TransferShape) -> int:
    """Chunks of one direction of a transfer by DMA commands."""
    return ceil(shape.total_bytes / (plan.chunk_bytes or shape.total_bytes))
