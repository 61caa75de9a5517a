"""The schedule of a staged transfer: its DMA commands between host and staging, in groups and parts.

A transfer is a sequence of bytes, those of its host runs one after another; parts and DMA commands cut it.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import Final, NamedTuple, TypeAlias

import numpy as np

from pega_tune.kernels.chunks import CopyColumns
from pega_tune.kernels.host_runs import ALIGNMENT, HostRuns
from pega_tune.kernels.native import native
from pega_tune.kernels.ranges import Addresses, Ids
from pega_tune.kernels.shape import MAX_BYTES
from pega_tune.kernels.staging import Ring

_PADDING = ALIGNMENT - 1
_NO_CHUNKS: Final = MAX_BYTES


class Counts(NamedTuple):
    """How much a schedule holds.

    Attributes:
        commands: DMA commands.
        groups: of commands.
        parts: of groups.
    """

    commands: int
    groups: int
    parts: int


@dataclass(frozen=True, slots=True, eq=False)
class Schedule:
    """The DMA commands of a transfer, in groups and parts.

    Attributes:
        ring: where the parts lie.
        counts: how many commands, groups and parts.
        buffers: (at least m,) host and staging addresses and sizes, one per DMA command.
        ends: (3, at least g); row 0: commands before the end of each group, which holds at most `chunk_bytes` of one
            part; row 1: commands before the end of each part; row 2: groups before the end of each part.
    """

    ring: Ring
    counts: Counts
    buffers: CopyColumns
    ends: Ids

    @property
    def columns(self) -> CopyColumns:
        """(m,) host and staging addresses and sizes."""
        host, staging, nbytes = (buffer[: self.counts.commands] for buffer in self.buffers)
        return host, staging, nbytes

    @property
    def group_ends(self) -> Ids:
        """(g,) commands before the end of each group."""
        return self.ends[0, : self.counts.groups]

    @property
    def part_ends(self) -> Ids:
        """(p,) commands before the end of each part."""
        return self.ends[1, : self.counts.parts]

    @property
    def group_part_ends(self) -> Ids:
        """(p,) groups before the end of each part."""
        return self.ends[2, : self.counts.parts]

    def groups(self) -> list[list[tuple[int, int]]]:
        """For every part its groups, as (first command, how many)."""
        spans = [(first, end - first) for first, end in pairwise([0, *self.group_ends.tolist()])]
        return [spans[first:end] for first, end in pairwise([0, *self.group_part_ends.tolist()])]


class Scheduler:
    """Makes schedules one after another, in buffers that grow when they must. It is not thread-safe."""

    def __init__(self) -> None:
        self._ring: Ring | None = None
        self._chunk_bytes: int | None = None
        self._cut = np.zeros(6, np.uint64)
        self._reserve(0, 0)

    def cut(self, runs: HostRuns, ring: Ring, chunk_bytes: int | None = None) -> Schedule:
        """Gives every byte its place in the ring, and cuts the runs where parts, and groups of `chunk_bytes`, end.

        Args:
            runs: the host runs.
            ring: the cut.
            chunk_bytes: most bytes of a group of DMA commands; None makes one group of a part.

        Returns:
            As many DMA commands as runs, and one more for every cut inside a run; in buffers of this scheduler, valid
            until its next use.
        """
        if ring is not self._ring or chunk_bytes != self._chunk_bytes:
            self._ring, self._chunk_bytes = ring, chunk_bytes
            self._cut[:5] = (*ring, min(chunk_bytes or _NO_CHUNKS, _NO_CHUNKS))
        self._cut[5] = runs.total_bytes
        counts = _cut(runs.host, runs.nbytes, self._cut, self._commands, self._ends)
        if not counts[2]:
            self._reserve(counts[0], counts[1])
            counts = _cut(runs.host, runs.nbytes, self._cut, self._commands, self._ends)
        return Schedule(ring, Counts(*counts), self._buffers, self._ends)

    def _reserve(self, commands: int, groups: int) -> None:
        """Makes new buffers; programs under way keep the old ones."""
        self._commands = np.empty((3, commands), np.uint64)
        self._ends = np.empty((3, groups), np.int64)
        self._buffers: CopyColumns = (self._commands[0], self._commands[1], self._commands[2])


_Counts: TypeAlias = tuple[int, int, int]


@native
def _cut(host: Addresses, nbytes: Addresses, cut: Addresses, commands: Addresses, ends: Ids) -> _Counts:
    """Walks through the runs.

    Args:
        host: (r,) addresses of the runs.
        nbytes: (r,) their sizes.
        cut: address of the ring, slots, bytes of a slot, of a part, of a group, and of all runs.
        commands: (3, m) receives host and staging addresses and sizes.
        ends: (3, g) receives the ends of groups in commands, and of parts in commands and in groups.

    Returns:
        How many commands, groups and parts; if there might not be room, how many of the first two may be needed, and 0.
    """
    address, slots, slot_bytes, part_bytes, chunk_bytes = cut[0], cut[1], cut[2], cut[3], cut[4]
    most_commands, most_groups = _bounds(host.shape[0], cut)
    if most_commands > commands.shape[1] or most_groups > ends.shape[1]:
        return most_commands, most_groups, 0
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


@native
def _bounds(runs: int, cut: Addresses) -> tuple[int, int]:
    """Most commands and groups of so many runs."""
    room, total_bytes = np.int64(cut[2]) - 2 * _PADDING, np.int64(cut[5])
    full = total_bytes // np.int64(cut[3]) + 1
    parts = full + (total_bytes + _PADDING * (runs + full)) // room + 1
    groups = parts + total_bytes // np.int64(cut[4])
    return runs + int(groups), int(groups)
