"""The numbers behind a simulated device, and how they are read from its data file."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from pega_tune.autotune.sim.curve import Curve
from pega_tune.autotune.sim.serving_parameters import ServingParameters
from pega_tune.kernels.facts import DeviceFacts
from pega_tune.kernels.shape import Direction
from pega_tune.kernels.stream_options import PartitionSizes

_GIB = 2**30


@dataclass(frozen=True, slots=True)
class DmaParameters:
    """Copy engines.

    Attributes:
        rates: bytes per second of each direction alone; of `BOTH`, the sum of the two.
        start_s: from the last submission to the first byte, and from the last byte to completion seen.
        command_s: cost of one host-to-device command against commands in a row; it adds to the time of its bytes.
        d2h_command_ratio: cost of a device-to-host command relative to that.
        pair_command_ratio: cost of a command relative to that while the other direction is busy as well.
        chunk_wait_s: cost of every completion that is waited for between the chunks of a range.
    """

    rates: Mapping[Direction, float]
    start_s: float
    command_s: Curve
    d2h_command_ratio: float
    pair_command_ratio: float
    chunk_wait_s: float


@dataclass(frozen=True, slots=True)
class KernelParameters:
    """Copy kernels over mapped host memory.

    Attributes:
        submit_s: driver calls of one launch.
        start_s: from the last submission to the first load, and from the last store to completion seen.
        round_trip_s: latency of a range that is alone, by direction.
        rates: bytes per second against bytes in flight, by direction; of `BOTH`, the sum of the two.
        resident_threads: threads that the device holds at once.
        warp_loads: accesses in flight per thread of the `warp` kernel.
        block_loads: the same of the `block` kernel.
        least_tile_bytes: smallest tile into which the `warp` kernel cuts a range.
        most_tile_bytes: largest tile.
        tiles_per_warp: tiles that every warp should get.
    """

    submit_s: float
    start_s: float
    round_trip_s: Mapping[Direction, float]
    rates: Mapping[Direction, Curve]
    resident_threads: int
    warp_loads: float
    block_loads: float
    least_tile_bytes: int
    most_tile_bytes: int
    tiles_per_warp: int


@dataclass(frozen=True, slots=True)
class BatchParameters:
    """Batched copies.

    Attributes:
        call_s: driver call of an empty batch.
        pair_range_s: cost of one range in each direction at once, by average range size; it adds to the bytes' time.
        shares: of that cost, what a range takes when its direction is alone.
    """

    call_s: float
    pair_range_s: Curve
    shares: Mapping[Direction, float]


@dataclass(frozen=True, slots=True)
class PitchedParameters:
    """Two-dimensional copies.

    Attributes:
        submit_s: driver call of one command.
        rate_ratio: bytes per second, relative to contiguous copies.
    """

    submit_s: float
    rate_ratio: float


@dataclass(frozen=True, slots=True)
class StagedParameters:
    """Copies through a staging buffer on the device.

    Attributes:
        part_s: driver calls of the launch and the events of one part.
        gather_rate: bytes per second between the staging buffer and the ranges.
        part_bytes: least bytes of a part.
        most_parts: parts of a transfer that fits into the buffer.
        buffer_bytes: size of the buffer.
    """

    part_s: float
    gather_rate: float
    part_bytes: int
    most_parts: int
    buffer_bytes: int

    def parts(self, total_bytes: int) -> int:
        """Parts of a transfer of so many bytes."""
        fitting = max(1, min(self.most_parts, total_bytes // self.part_bytes))
        return fitting if total_bytes <= self.buffer_bytes else -(-total_bytes // self.part_bytes)


@dataclass(frozen=True, slots=True)
class SimParameters:
    """A simulated device.

    Attributes:
        facts: what it claims to be.
        device_bytes: device memory that a block may use.
        host_bytes: pinned host memory that a block may use.
        priorities: effective stream priorities, weakest first.
        partitions: SMs to which kernels can be confined; None if there are no partitions.
        batch_signature: of batched copies, as the driver of the device has them.
        dma: copy engines.
        kernel: copy kernels.
        batch: batched copies.
        pitched: two-dimensional copies.
        staged: copies through a staging buffer.
        order_s: preparation per range.
        in_order_s: the same where the ranges lie in order in one host run.
        descriptor_s: preparation per descriptor.
        noise_sigma: standard deviation of the logarithm of a measured time.
        serving: decode, and what it shares with transfers.
    """

    facts: DeviceFacts
    device_bytes: int
    host_bytes: int
    priorities: tuple[int, ...]
    partitions: PartitionSizes | None
    batch_signature: str
    dma: DmaParameters
    kernel: KernelParameters
    batch: BatchParameters
    pitched: PitchedParameters
    staged: StagedParameters
    order_s: float
    in_order_s: float
    descriptor_s: float
    noise_sigma: float
    serving: ServingParameters


def load_parameters(name: str) -> SimParameters:
    """Reads the data file of the device called `name`.

    Raises:
        FileNotFoundError: there is none.
    """
    data = json.loads((files("pega_tune.autotune.sim.devices") / f"{name}.json").read_text(encoding="utf-8"))
    return SimParameters(
        facts=DeviceFacts.from_json(data["facts"]),
        device_bytes=data["memory"]["device_bytes"],
        host_bytes=data["memory"]["host_bytes"],
        priorities=tuple(data["priorities"]["values"]),
        partitions=_partitions(data.get("partitions"), data["facts"]["identity"]["sm_count"]),
        batch_signature=data["batch"].get("signature", "v2"),
        dma=_dma(data["dma"]),
        kernel=_kernel(data["kernel"]),
        batch=_batch(data["batch"]),
        pitched=PitchedParameters(data["pitched"]["submit_s"], data["pitched"]["rate_ratio"]),
        staged=_staged(data["staged"]),
        order_s=data["preparation"]["order_s"],
        in_order_s=data["preparation"]["in_order_s"],
        descriptor_s=data["preparation"]["descriptor_s"],
        noise_sigma=data["noise"]["sigma"],
        serving=ServingParameters.from_json(data["serving"]),
    )


def _partitions(data: Mapping[str, Any] | None, device_sms: int) -> PartitionSizes | None:
    return None if data is None else PartitionSizes(data["least_sms"], data["step_sms"], device_sms)


def _dma(data: Mapping[str, Any]) -> DmaParameters:
    rates = {
        Direction.H2D: data["h2d_gib_per_s"] * _GIB,
        Direction.D2H: data["d2h_gib_per_s"] * _GIB,
        Direction.BOTH: data["pair_gib_per_s"] * _GIB,
    }
    return DmaParameters(
        rates=rates,
        start_s=data["start_s"],
        command_s=_curve(data["command_s"]),
        d2h_command_ratio=data["d2h_command_ratio"],
        pair_command_ratio=data["pair_command_ratio"],
        chunk_wait_s=data["chunk_wait_s"],
    )


def _kernel(data: Mapping[str, Any]) -> KernelParameters:
    return KernelParameters(
        submit_s=data["submit_s"],
        start_s=data["start_s"],
        round_trip_s={Direction.H2D: data["h2d_round_trip_s"], Direction.D2H: data["d2h_round_trip_s"]},
        rates={
            Direction.H2D: _curve(data["h2d_gib_per_s"], _GIB),
            Direction.D2H: _curve(data["d2h_gib_per_s"], _GIB),
            Direction.BOTH: _curve(data["pair_gib_per_s"], _GIB),
        },
        resident_threads=data["resident_threads"],
        warp_loads=data["warp_loads"],
        block_loads=data["block_loads"],
        least_tile_bytes=data["least_tile_bytes"],
        most_tile_bytes=data["most_tile_bytes"],
        tiles_per_warp=data["tiles_per_warp"],
    )


def _batch(data: Mapping[str, Any]) -> BatchParameters:
    shares = {Direction.H2D: data["h2d_share"], Direction.D2H: data["d2h_share"]}
    return BatchParameters(data["call_s"], _curve(data["pair_range_s"]), shares)


def _staged(data: Mapping[str, Any]) -> StagedParameters:
    return StagedParameters(
        part_s=data["part_s"],
        gather_rate=data["gather_gib_per_s"] * _GIB,
        part_bytes=data["part_bytes"],
        most_parts=data["most_parts"],
        buffer_bytes=data["buffer_bytes"],
    )


def _curve(points: Sequence[Sequence[float]], unit: float = 1.0) -> Curve:
    return Curve(tuple(x for x, _ in points), tuple(y * unit for _, y in points))
