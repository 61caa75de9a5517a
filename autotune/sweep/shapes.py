"""The shapes that a sweep measures: a lattice in log ranges x log range size, cut to the memory there is."""

from dataclasses import dataclass
from itertools import islice

from pega_tune.autotune.sweep.plans import SMALLEST_TILE_BYTES
from pega_tune.autotune.sweep.presets import Preset
from pega_tune.errors import DeviceError
from pega_tune.kernels.shape import Direction, TransferShape

RANGE_OCTAVES = (0, 16)  # 1 to 65,536 merged ranges
SIZE_OCTAVES = (8, 26)  # 256 B to 64 MiB on average
DIRECTIONS = (Direction.H2D, Direction.D2H, Direction.BOTH)

# Where every axis of the plan space is looked at: a fragmented KV cache of 4 KiB pages, and one of 256 KiB pages.
FULL_COUNTS = ((16_384, 4096), (256, 262_144))

# Below this a sweep would see launch latency and nothing else.
LEAST_COUNTS = (256, 4096)

# What an engine allocates: per direction, on host and device alike, whole large pages for the ranges, each of which
# begins at a multiple of 16, and descriptors for the finest tiles; never less than plans are verified with at odd
# addresses. On the host one more of the largest, to compare with.
GRAIN_BYTES = 2 << 20
SLOT_BYTES = 16
GUARD_BYTES = 16_384
DESCRIPTOR_BYTES = 24
LEAST_LEG_BYTES = 16 << 20


@dataclass(frozen=True, slots=True)
class Memory:
    """What a block may use.

    Attributes:
        device_bytes: device memory, in bytes.
        host_bytes: pinned host memory, in bytes.
    """

    device_bytes: int
    host_bytes: int

    def lacks(self, shape: TransferShape) -> str:
        """Which memory is too small for the shape, with the numbers; empty if it fits."""
        legs, leg_bytes = len(shape.direction.legs), _leg_bytes(shape)
        device, host = legs * leg_bytes, (legs + 1) * leg_bytes
        if device > self.device_bytes:
            return f"it needs {device} bytes of device memory and may use {self.device_bytes}"
        if host > self.host_bytes:
            return f"it needs {host} bytes of pinned host memory and may use {self.host_bytes}"
        return ""

    def require(self, shape: TransferShape) -> None:
        """Checks that the shape fits.

        Raises:
            DeviceError: it does not; the message names the memory and the hint the option.
        """
        lack = self.lacks(shape)
        if lack:
            option = "--max-device-memory" if "device memory" in lack else "--max-host-memory"
            raise DeviceError(f"too little memory for {describe(shape)}: {lack}", f"free some, or raise {option}")


def describe(shape: TransferShape) -> str:
    """`h2d 16384 x 4096 B`: direction, merged ranges, average range size."""
    return f"{shape.direction} {shape.merged_ranges} x {shape.average_range_bytes} B"


def full_shapes(preset: Preset, memory: Memory) -> tuple[TransferShape, ...]:
    """The shapes that get every axis, in each direction; with fewer ranges where memory is short.

    Raises:
        DeviceError: memory is too small for a sweep to see more than latency.
    """
    memory.require(_shape(*LEAST_COUNTS, Direction.BOTH))
    shapes = []
    for ranges, size in FULL_COUNTS[: preset.full_shapes]:
        counts = (ranges >> halvings for halvings in range(ranges.bit_length()))
        fitting = (n for n in counts if not memory.lacks(_shape(n, size, Direction.BOTH)))
        shapes += [_shape(n, size, d) for n in islice(fitting, 1) for d in DIRECTIONS]
    return tuple(shapes)


def lattice_shapes(preset: Preset, memory: Memory) -> tuple[TransferShape, ...]:
    """The lattice of the preset in each direction, coarse points first, without what does not fit."""
    points = sorted(_points(preset), key=lambda p: (_level(*p), p))
    shapes = (_shape(1 << ranges, 1 << size, d) for ranges, size in points for d in DIRECTIONS)
    return tuple(s for s in shapes if not memory.lacks(s))


def _points(preset: Preset) -> list[tuple[int, int]]:
    """Lattice points as (log2 ranges, log2 average size)."""
    step = preset.octaves
    top = preset.max_total_bytes.bit_length() - 1
    sparse = preset.sparse_bytes.bit_length() - 1
    points = []
    for ranges in range(RANGE_OCTAVES[0], RANGE_OCTAVES[1] + 1, step):
        for size in range(SIZE_OCTAVES[0], SIZE_OCTAVES[1] + 1, step):
            total = ranges + size
            # A single range is the cheapest of its total, and the far end of the plane.
            chosen = ranges == 0 or (ranges // step + (top - total) // step) % preset.stride == 0
            if total <= top and (total < sparse or chosen):
                points.append((ranges, size))
    return points


def _level(ranges: int, size: int) -> int:
    """How fine the lattice must be to hold the point: 0 for every fourth octave."""
    both = ranges | size
    return 0 if both % 4 == 0 else 1 if both % 2 == 0 else 2


def _leg_bytes(shape: TransferShape) -> int:
    extent = GUARD_BYTES + shape.merged_ranges * SLOT_BYTES * (shape.average_range_bytes // SLOT_BYTES + 2)
    descriptors = shape.merged_ranges + extent // SMALLEST_TILE_BYTES
    return max(LEAST_LEG_BYTES, -(-extent // GRAIN_BYTES) * GRAIN_BYTES + DESCRIPTOR_BYTES * descriptors)


def _shape(ranges: int, size: int, direction: Direction) -> TransferShape:
    return TransferShape(ranges, ranges * size, direction)
