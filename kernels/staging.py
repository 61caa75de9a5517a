"""The staging buffer: how a transfer passes through it, part by part (see `staged_schedule`).

The buffer is a ring of slots. Part k of a transfer uses slot k modulo their number; a transfer that fits has a slot for
every part.
"""

from dataclasses import dataclass
from typing import Final, NamedTuple

from pega_tune.errors import UsageError
from pega_tune.kernels.host_runs import ALIGNMENT, HostRuns

DEFAULT_STAGING_BYTES: Final = 128 << 20
MIN_STAGING_BYTES: Final = 4096
PART_BYTES: Final = 16 << 20
MAX_PARTS: Final = 4
STREAMING_SLOTS: Final = 8

_PADDING = ALIGNMENT - 1
_GRAIN_BYTES = 4096  # cuts of runs fall on page borders of the run
_SLOT_GRAIN_BYTES = 256


@dataclass(frozen=True, slots=True)
class StagingBuffer:
    """Device memory through which transfers pass, one at a time.

    Attributes:
        address: where it begins, a multiple of 256.
        capacity: its size in bytes, at least 4 KiB.
    """

    address: int
    capacity: int = DEFAULT_STAGING_BYTES

    def __post_init__(self) -> None:
        if self.capacity < MIN_STAGING_BYTES:
            raise UsageError(f"a staging buffer has at least {MIN_STAGING_BYTES} bytes, not {self.capacity}")
        if self.address % _SLOT_GRAIN_BYTES:
            raise UsageError(f"a staging buffer begins at a multiple of {_SLOT_GRAIN_BYTES}, not at {self.address}")

    def halves(self) -> "tuple[StagingBuffer, StagingBuffer]":
        """Two buffers in this one, for a load and a save at once.

        Raises:
            UsageError: they would be too small.
        """
        half = self.capacity // 2 // _SLOT_GRAIN_BYTES * _SLOT_GRAIN_BYTES
        return StagingBuffer(self.address, half), StagingBuffer(self.address + half, half)


class Ring(NamedTuple):
    """How a buffer is cut, and a transfer with it.

    Attributes:
        address: where the buffer begins.
        slots: how many slots.
        slot_bytes: size of each.
        part_bytes: bytes of the transfer in one part; fewer where alignment takes the rest of the slot.
    """

    address: int
    slots: int
    slot_bytes: int
    part_bytes: int


def pipelined(runs: HostRuns, buffer: StagingBuffer, parts: int | None = None) -> Ring:
    """The cut for one direction, whose DMA and kernel overlap part by part.

    A transfer that fits is cut into parts of at least 16 MiB, four at most: with 64 MiB one way, four parts hide three
    quarters of the kernel (50.0 against 49.4 GiB/s for one part, h200-lab); more would hide little more, and cost
    launches and gaps between DMA commands. With the other direction beside it one part was better by 1.5 % (89.8
    against 88.4 GiB/s), too little to give the gain up, and small transfers have one part anyway. A larger transfer
    streams through eight slots: what is left when its last DMA ends is the kernel of one eighth of the buffer, and a
    slot has the time of seven DMAs to be read.

    Args:
        runs: the host runs.
        buffer: the memory.
        parts: cuts a transfer that fits into so many parts instead.
    """
    parts = parts or max(1, min(MAX_PARTS, runs.total_bytes // PART_BYTES))
    return _ring(runs, buffer, parts, STREAMING_SLOTS)


def whole(runs: HostRuns, buffer: StagingBuffer) -> Ring:
    """The cut with the fewest parts: one if the transfer fits; else parts of half the buffer, in two slots."""
    return _ring(runs, buffer, 1, 2)


def _ring(runs: HostRuns, buffer: StagingBuffer, parts: int, streaming_slots: int) -> Ring:
    """So many parts with a slot each if they fit, else as many as need be in so many slots."""
    total_bytes, needed = runs.total_bytes, runs.total_bytes + runs.padding
    slack = 0 if parts == 1 else _PADDING + _GRAIN_BYTES
    slots = parts if needed + parts * slack <= _slot_bytes(buffer, parts) * parts else streaming_slots
    slot_bytes = _slot_bytes(buffer, slots)
    room = slot_bytes - (ALIGNMENT if slots != parts and runs.padding else 0)
    if slots != parts:
        parts = -(-needed // room)
    share = -(-total_bytes // parts)
    return Ring(buffer.address, slots, slot_bytes, min(room, -(-share // _GRAIN_BYTES) * _GRAIN_BYTES))


def _slot_bytes(buffer: StagingBuffer, slots: int) -> int:
    return buffer.capacity // slots // _SLOT_GRAIN_BYTES * _SLOT_GRAIN_BYTES
