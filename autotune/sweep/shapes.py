"""The shapes that a sweep measures: a lattice in log ranges x log range size, cut to the memory there is."""

from dataclasses import dataclass
from itertools import islice
from math import ceil

from pega_tune.autotune.sweep.plans import SMALLEST_TILE_BYTES
from pega_tune.autotune.sweep.presets import Preset
from pega_tune.errors import DeviceError
from pega_tune.kernels.shape import MAX_BYTES, Direction, TransferShape

RANGE_OCTAVES = (0, 16)  # 1 to 65,536 merged ranges
SIZE_OCTAVES = (8, 26)  # 256 B to 64 MiB on average
DIRECTIONS = (Direction.H2D, Direction.D2H, Direction.BOTH)

# Where every axis of the plan space is looked at: a fragmented KV cache of 4 KiB pages, and one of 256 KiB pages.
FULL_COUNTS = ((16_384, 4096), (256, 262_144))

# Where ranges are measured in layouts that some plans live on: from where these begin to win on to where copies take
# milliseconds, in the middle and at the corners of what serving moves.
HINTED_COUNTS = ((64, 16_384), (1024, 1024), (1024, 16_384), (4096, 1024), (16_384, 4096), (64, 262_144))

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


DEVICE_OPTION = "--max-device-memory"
HOST_OPTION = "--max-host-memory"


@dataclass(frozen=True, slots=True)
class Lack:
    """A memory that is too small for a shape.

    Attributes:
        memory: which, in words.
        option: of the command line that limits it.
        needed_bytes, allowed_bytes: what the shape needs, and what it may use.
    """

    memory: str
    option: str
    needed_bytes: int
    allowed_bytes: int


@dataclass(frozen=True, slots=True)
class Memory:
    """What a block may use.

    Attributes:
        device_bytes: device memory, in bytes.
        host_bytes: pinned host memory, in bytes.
    """

    device_bytes: int
    host_bytes: int

    def lacks(self, shape: TransferShape) -> tuple[Lack, ...]:
        """Which memories are too small for the shape; none if it fits."""
        legs, leg_bytes = len(shape.direction.legs), _leg_bytes(shape)
        lacks = (
            Lack("pinned host memory", HOST_OPTION, (legs + 1) * leg_bytes, self.host_bytes),
            Lack("device memory", DEVICE_OPTION, legs * leg_bytes, self.device_bytes),
        )
        return tuple(lack for lack in lacks if lack.needed_bytes > lack.allowed_bytes)

    def require(self, shape: TransferShape) -> None:
        """Checks that the shape fits.

        Raises:
            DeviceError: it does not; the message names the memory and the hint the option.
        """
        lacks = self.lacks(shape)
        if lacks:
            needs = " and ".join(
                f"it needs {lack.needed_bytes} bytes of {lack.memory} and may use {lack.allowed_bytes}"
                for lack in lacks
            )
            options = " and ".join(lack.option for lack in lacks)
            raise DeviceError(f"too little memory for {describe(shape)}: {needs}", f"free some, or raise {options}")


@dataclass(frozen=True, slots=True)
class Shortage:
    """Shapes of a preset that memory is too small for.

    Attributes:
        shapes: how many.
        of: shapes of the whole preset.
        from_bytes: what the smallest of them moves in each direction.
        lacks: what the largest needs of each memory that is too small for one of them or more.
    """

    shapes: int
    of: int
    from_bytes: int
    lacks: tuple[Lack, ...]

    @property
    def words(self) -> str:
        """What was left out and what it would take, one line."""
        needs = " and ".join(f"{_mebibytes(one.needed_bytes)} of {one.memory} ({one.option})" for one in self.lacks)
        left_out = f"{self.shapes} of {self.of} shapes, from {_mebibytes(self.from_bytes)} on, were left out"
        return f"{left_out}: all of them need {needs}"


def shortage(preset: Preset, memory: Memory) -> Shortage | None:
    """What memory leaves out of a preset, shapes measured with fewer ranges among it; None if all of it fits."""
    whole = dict.fromkeys((*full_shapes(preset, UNLIMITED), *lattice_shapes(preset, UNLIMITED)))
    lacks = {shape: found for shape in whole if (found := memory.lacks(shape))}
    if not lacks:
        return None
    every = [lack for found in lacks.values() for lack in found]
    most = (
        max((lack for lack in every if lack.option == option), key=lambda lack: lack.needed_bytes, default=None)
        for option in (HOST_OPTION, DEVICE_OPTION)
    )
    from_bytes = min(shape.total_bytes for shape in lacks)
    return Shortage(len(lacks), len(whole), from_bytes, tuple(lack for lack in most if lack is not None))


UNLIMITED = Memory(MAX_BYTES, MAX_BYTES)


def _mebibytes(count: int) -> str:
    return f"{ceil(count / (1 << 20))}MiB"


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


def hinted_shapes(preset: Preset, memory: Memory) -> tuple[TransferShape, ...]:
    """The shapes that are measured in other layouts too, in each direction, without what does not fit."""
    counts = HINTED_COUNTS if preset.hinted else ()
    shapes = (_shape(*point, d) for point in counts for d in DIRECTIONS)
    return tuple(s for s in shapes if not memory.lacks(s))


def small_shapes(preset: Preset, memory: Memory) -> tuple[TransferShape, ...]:
    """The shapes of surveys of small transfers, without what does not fit."""
    counts = preset.serving.small.counts if preset.serving.small else ()
    shapes = (_shape(*point, Direction.BOTH) for point in counts)
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
            # A single range is the cheapest of its total; it and the smallest ranges are the far ends of the plane.
            end = ranges == 0 or size == SIZE_OCTAVES[0]
            chosen = end or (ranges // step + (top - total) // step) % preset.stride == 0
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
