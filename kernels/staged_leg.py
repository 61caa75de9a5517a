"""One direction of staged transfers: everything that is worked out before the first command can be submitted."""

from collections.abc import Callable
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from pega_tune.kernels.commands import WORDS, address_of
from pega_tune.kernels.descriptors import tile_bytes
from pega_tune.kernels.host_runs import HostRuns, RunFinder
from pega_tune.kernels.native import native
from pega_tune.kernels.ordering import Indices
from pega_tune.kernels.ranges import Addresses, Ids, RangeBatch
from pega_tune.kernels.shape import Direction
from pega_tune.kernels.staged_descriptors import LEG
from pega_tune.kernels.staged_schedule import Schedule, Scheduler
from pega_tune.kernels.staging import Ring

_FIRST_COPY, _COPIES = 5, 6  # words of a command with many copies


class StagedLeg:
    """Works out one batch after another, in buffers that it keeps. It is not thread-safe.

    Attributes:
        direction: which way; not both.
        batch: the ranges.
        schedule: their way through staging.
        tile: largest piece of one descriptor in bytes.
        address: of the `LEG` that the writer of descriptors reads.
        keep: what owns the memory that this `LEG` and the schedule refer to.
    """

    batch: RangeBatch
    schedule: Schedule

    def __init__(self, direction: Direction, ranges: int) -> None:
        """Allocates.

        Args:
            direction: as above.
            ranges: most ranges of a batch.
        """
        self.direction: Final = direction
        self.tile = 0
        self._cuts = 0
        self._finder = RunFinder(ranges)
        self._order: Indices = np.empty(0, np.int32)
        self._scheduler = Scheduler()
        self._sizes: tuple[object, int, int] | None = None
        self._ring: Ring | None = None
        self._record = np.zeros(1, LEG)
        self._record["device_column"] = direction is Direction.D2H
        self._places = np.zeros((2, 2), np.uint64)
        self.address: Final = address_of(self._record)

    def plan(self, batch: RangeBatch, cut: Callable[[HostRuns], Ring], chunk_bytes: int | None, warps: int) -> None:
        """Finds the host runs of a batch and its way through staging.

        Args:
            batch: the ranges.
            cut: makes a ring for the runs, of their bytes and padding alone.
            chunk_bytes: most bytes of a group of DMA commands.
            warps: of the largest grid.

        Raises:
            CapacityError: the batch has too many ranges.
        """
        runs = self._finder.find(batch)
        sizes = (cut, runs.total_bytes, runs.padding)
        if self._ring is None or sizes != self._sizes:
            self._ring, self._sizes = cut(runs), sizes
        self.schedule = schedule = self._scheduler.cut(runs, self._ring, chunk_bytes)
        self.batch, self._order = batch, runs.order
        commands, _, parts = schedule.counts
        self.tile = tile_bytes(runs.total_bytes // parts, warps)
        self._cuts = commands - len(runs)

    def descriptor_bound(self, capacity: int) -> int:
        """Most descriptors that the batch can need; a rough answer if it is at most `capacity`, and costs nothing.

        A descriptor is a whole tile, or ends where a range ends or a DMA command is cut inside a run.
        """
        rough = len(self.batch) + self._cuts + self.batch.total_bytes // self.tile
        if rough <= capacity:
            return rough
        whole = np.uint64(self.tile)
        return int(((self.batch.nbytes - np.uint64(1)) // whole).sum()) + len(self.batch) + self._cuts

    def arm(self, words: Addresses, rows: Ids, layout: Ids) -> bool:
        """Tells the writer and the commands of a program about the batch.

        Args:
            words: (n x WORDS,) of the program.
            rows: (g,) its commands for the groups of DMA commands.
            layout: (p,) groups before the end of each part, for which the program was made.

        Returns:
            Whether the schedule is laid out so; otherwise nothing was told.
        """
        schedule, batch = self.schedule, self.batch
        if schedule.counts.parts >= len(self._places):
            self._places = np.zeros((schedule.counts.parts + 1, 2), np.uint64)
        columns = (batch.device, batch.nbytes, batch.device_allocation, self._order)
        way = (schedule.buffers[1], schedule.buffers[2], schedule.ends, self._places)
        armed: bool = _arm(self._record, columns, way, (words, rows, layout), self.tile)
        return armed

    @property
    def keep(self) -> tuple[Any, ...]:
        """As above."""
        return self._record, self.batch, self._order, self.schedule, self._places


@native
def _arm(
    records: NDArray[Any],
    columns: tuple[Addresses, Addresses, Ids, Indices],
    way: tuple[Addresses, Addresses, Ids, Addresses],
    program: tuple[Addresses, Ids, Ids],
    tile: int,
) -> bool:
    """As `StagedLeg.arm`, with the (1,) of `LEG`, and the arrays that it shall point to."""
    device, nbytes, allocation, order = columns
    staging, sizes, ends, places = way
    words, rows, layout = program
    for part in range(layout.shape[0]):
        if ends[2, part] != layout[part]:
            return False
    leg = records[0]
    leg.device, leg.nbytes, leg.allocation = device.ctypes.data, nbytes.ctypes.data, allocation.ctypes.data
    leg.order, leg.ordered, leg.ranges = order.ctypes.data, order.shape[0], device.shape[0]
    leg.staging, leg.sizes, leg.part_ends = staging.ctypes.data, sizes.ctypes.data, ends[1].ctypes.data
    leg.places, leg.tile = places.ctypes.data, tile
    first = 0
    for group in range(rows.shape[0]):
        command = words[rows[group] * WORDS :]
        command[_FIRST_COPY], command[_COPIES] = first, ends[0, group] - first
        first = ends[0, group]
    return True
