"""The staging schedule: how a transfer passes through a bounded device buffer, part by part.

The buffer is a ring of slots. Part k of a transfer uses slot k modulo their number; a transfer that fits has a slot for
every part. A transfer is a sequence of bytes, those of its host runs one after another; parts and DMA commands cut it.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import Final, NamedTuple, TypeAlias

import numpy as np

from pega_tune.errors import UsageError
from pega_tune.kernels.host_runs import ALIGNMENT, HostRuns
from pega_tune.kernels.native import native
from pega_tune.kernels.ranges import Addresses, Ids

DEFAULT_STAGING_BYTES: Final = 128 << 20
MIN_STAGING_BYTES: Final = 4096
PART_BYTES: Final = 16 << 20
MAX_PARTS: Final = 4
STREAMING_SLOTS: Final = 8

_PADDING = ALIGNMENT - 1
_GRAIN_BYTES = 4096  # cuts of runs fall on page borders of the run
_SLOT_GRAIN_BYTES = 256
_NO_CHUNKS = 2**63


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


@dataclass(frozen=True, slots=True, eq=False)
class Schedule:
    """The DMA commands of a transfer between host and staging, in groups and parts.

    Attributes:
        ring: where the parts lie.
        host: (m,) host addresses, one per DMA command.
        staging: (m,) staging addresses.
        nbytes: (m,) sizes in bytes.
        group_ends: (g,) commands before the end of each group; a group holds at most `chunk_bytes` of one part.
        part_ends: (p,) commands before the end of each part.
        group_part_ends: (p,) groups before the end of each part.
    """

    ring: Ring
    host: Addresses
    staging: Addresses
    nbytes: Addresses
    group_ends: Ids
    part_ends: Ids
    group_part_ends: Ids

    @property
    def parts(self) -> int:
        """How many parts."""
        return len(self.part_ends)

    def groups(self) -> list[list[tuple[int, int]]]:
        """For every part its groups, as (first command, how many)."""
        spans = [(first, end - first) for first, end in pairwise([0, *self.group_ends.tolist()])]
        return [spans[first:end] for first, end in pairwise([0, *self.group_part_ends.tolist()])]


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


def schedule(runs: HostRuns, ring: Ring, chunk_bytes: int | None = None) -> Schedule:
    """Gives every byte its place in the ring, and cuts the runs where parts, and groups of `chunk_bytes`, end.

    Args:
        runs: the host runs.
        ring: the cut.
        chunk_bytes: most bytes of a group of DMA commands; None makes one group of a part.

    Returns:
        As many DMA commands as runs, and one more for every cut inside a run.
    """
    count, total_bytes, room = len(runs), runs.total_bytes, ring.slot_bytes - _PADDING
    full = total_bytes // ring.part_bytes + 1
    parts = full + (total_bytes + _PADDING * (count + full)) // (room - _PADDING) + 1
    groups = parts + (total_bytes // chunk_bytes if chunk_bytes else 0)
    commands = np.empty((3, count + groups), np.uint64)
    ends = np.empty((3, groups), np.int64)
    cut = (ring.address, ring.slots, ring.slot_bytes, ring.part_bytes, chunk_bytes or _NO_CHUNKS)
    used, groups, parts = _cut(runs.host, runs.nbytes, np.array(cut, np.uint64), commands, ends)
    host, staging, nbytes = commands[:, :used]
    return Schedule(ring, host, staging, nbytes, ends[0, :groups], ends[1, :parts], ends[2, :parts])


_Counts: TypeAlias = tuple[int, int, int]


@native
def _cut(host: Addresses, nbytes: Addresses, cut: Addresses, commands: Addresses, ends: Ids) -> _Counts:
    """Walks through the runs.

    Args:
        host: (r,) addresses of the runs.
        nbytes: (r,) their sizes.
        cut: address of the ring, slots, bytes of a slot, of a part and of a group.
        commands: (3, enough), receives host and staging addresses and sizes.
        ends: (3, enough), receives the ends of groups in commands, and of parts in commands and in groups.

    Returns:
        How many commands, groups and parts.
    """
    address, slots, slot_bytes, part_bytes, chunk_bytes = cut[0], cut[1], cut[2], cut[3], cut[4]
    low_bits, zero = np.uint64(_PADDING), np.uint64(0)
    count = groups = parts = 0
    base, used, part_room, chunk_room = address, zero, part_bytes, chunk_bytes
    for run in range(host.shape[0]):
        at, left = host[run], nbytes[run]
        padding = (at - base - used) & low_bits
        while left > zero:
            part_full = part_room == zero or used + padding >= slot_bytes
            if part_full or chunk_room == zero:
                ends[0, groups] = count
                groups += 1
                chunk_room = chunk_bytes
            if part_full:
                ends[1, parts], ends[2, parts] = count, groups
                parts += 1
                base, used, part_room = address + (np.uint64(parts) % slots) * slot_bytes, zero, part_bytes
                padding = (at - base) & low_bits
            used += padding
            padding = zero
            size = min(left, slot_bytes - used, part_room, chunk_room)
            commands[0, count], commands[1, count], commands[2, count] = at, base + used, size
            count += 1
            at, left, used = at + size, left - size, used + size
            part_room, chunk_room = part_room - size, chunk_room - size
    ends[0, groups] = ends[1, parts] = count
    ends[2, parts] = groups + 1
    return count, groups + 1, parts + 1
