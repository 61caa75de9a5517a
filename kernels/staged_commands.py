"""The commands of staged transfers: DMA, kernels, and the events between them."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest
from typing import Final

from pega_tune.kernels.descriptors import DESCRIPTOR_BYTES, sides
from pega_tune.kernels.plan import WARP_THREADS, CopyPlan
from pega_tune.kernels.program import Launch, ProgramBuilder
from pega_tune.kernels.staged_descriptors import StagedLeg


@dataclass(frozen=True, slots=True)
class StagingKernel:
    """The copy kernel with its bounds."""

    function: int
    threads: int
    max_grid_blocks: int

    @property
    def warps(self) -> int:
        """Warps of the largest grid."""
        return self.max_grid_blocks * self.threads // WARP_THREADS


class Launches:
    """Launches of the copy kernel over descriptors that have been uploaded."""

    def __init__(self, builder: ProgramBuilder, kernel: StagingKernel, descriptors: int) -> None:
        self._builder = builder
        self._kernel = kernel
        self._descriptors = descriptors
        self._row = 0

    def launch(self, end: int, stream: int) -> None:
        """Runs the descriptors from the last launch up to row `end`."""
        kernel, count = self._kernel, end - self._row
        blocks = min(kernel.max_grid_blocks, -(-count * WARP_THREADS // kernel.threads))
        arguments = (self._descriptors + self._row * DESCRIPTOR_BYTES, count)
        self._builder.launch(Launch(kernel.function, blocks, kernel.threads, arguments), stream)
        self._row = end


class _Signal:
    """An event that is recorded again and again; whoever waits for it waits for its last record before that."""

    def __init__(self, builder: ProgramBuilder) -> None:
        self._builder = builder
        self._event: int | None = None

    def record(self, stream: int) -> None:
        """Says that the stream has come here."""
        if self._event is None:
            self._event = self._builder.take_and_record(stream)
        else:
            self._builder.record(self._event, stream)

    def hold(self, stream: int) -> None:
        """Makes a stream wait."""
        assert self._event is not None
        self._builder.await_event(self._event, stream)

    def hold_program(self) -> None:
        """Makes the program wait, if there is anything to wait for."""
        if self._event is not None:
            self._builder.barrier(self._event)


class Dma:
    """The DMA commands of a leg, group by group."""

    def __init__(self, builder: ProgramBuilder, leg: StagedLeg, plan: CopyPlan, stream: int) -> None:
        cut = leg.schedule
        self.parts: Final = cut.parts
        self.slots: Final = cut.ring.slots
        self._builder = builder
        self._direction = leg.direction
        self._stream = stream
        self._groups = cut.groups()
        self._columns = (*sides(cut.staging, cut.host, leg.direction), cut.nbytes)
        self._done = _Signal(builder) if plan.chunk_bytes and plan.backpressure else None

    def reuses(self, part: int) -> bool:
        """Whether a part lies where an earlier one lay."""
        return self.slots <= part < self.parts

    def groups(self, part: int) -> Iterator[None]:
        """Enqueues one group after another; none if there is no such part.

        With backpressure, the program goes on with a group only when the group before it is done.
        """
        for group in self._groups[part] if part < self.parts else ():
            if self._done is not None:
                self._done.hold_program()
            self._copy(*group)
            if self._done is not None:
                self._done.record(self._stream)
            yield

    def _copy(self, first: int, count: int) -> None:
        if count > 1:
            self._builder.copies(self._direction, self._columns, (first, count), self._stream)
            return
        destination, source, nbytes = (int(column[first]) for column in self._columns)
        self._builder.copy(self._direction, (destination, source), nbytes, self._stream)

    def enqueue(self, part: int) -> None:
        """Enqueues all groups of a part."""
        for _ in self.groups(part):
            pass


class _Handoff:
    """Makes one stream wait for another, wherever it is called."""

    def __init__(self, builder: ProgramBuilder, source: int, target: int) -> None:
        self._streams = (source, target)
        self._reached = _Signal(builder)

    def __call__(self) -> None:
        source, target = self._streams
        if source != target:
            self._reached.record(source)
            self._reached.hold(target)


class _Slots:
    """Says when the last reader of a slot is done, with one event a slot."""

    def __init__(self, builder: ProgramBuilder, dma: Dma, reader: int, writer: int) -> None:
        self._dma = dma
        self._reader, self._writer = reader, writer
        self._read = [_Signal(builder) for _ in range(dma.slots)]

    def acquire(self, part: int) -> None:
        """Makes the writing stream wait until the slot of a part has been read."""
        if self._dma.reuses(part):
            self._read[part % self._dma.slots].hold(self._writer)

    def release(self, part: int) -> None:
        """Records that the slot of a part has been read, if another part needs it."""
        if self._dma.reuses(part + self._dma.slots):
            self._read[part % self._dma.slots].record(self._reader)


def load(builder: ProgramBuilder, launches: Launches, dma: Dma, rows: list[int]) -> None:
    """DMA of one part into staging while the part before it is scattered."""
    stream = builder.route.stream
    side = builder.route.side_stream if dma.parts > 1 else stream
    filled, slots = _Handoff(builder, stream, side), _Slots(builder, dma, side, stream)
    for part, row in enumerate(rows):
        slots.acquire(part)
        dma.enqueue(part)
        filled()
        launches.launch(row, side)
        slots.release(part)
    _Handoff(builder, side, stream)()


def save(builder: ProgramBuilder, launches: Launches, dma: Dma, rows: list[int]) -> None:
    """DMA of one part out of staging while the next part is gathered, which is submitted first."""
    stream = builder.route.stream
    side = builder.route.side_stream if dma.parts > 1 else stream
    filled, slots = _Handoff(builder, side, stream), _Slots(builder, dma, stream, side)
    _Handoff(builder, stream, side)()
    launches.launch(rows[0], side)
    for part in range(dma.parts):
        filled()
        if part + 1 < dma.parts:
            slots.acquire(part + 1)
            launches.launch(rows[part + 1], side)
        dma.enqueue(part)
        slots.release(part)


def fused(builder: ProgramBuilder, launches: Launches, dma: tuple[Dma, Dma], rows: list[int]) -> None:
    """Rounds of DMA in, one launch, and DMA out; a round's DMA out and the next one's DMA in are submitted in turn."""
    inward, outward = dma
    stream, side = builder.route.stream, builder.route.side_stream
    gathered, slots = _Handoff(builder, stream, side), _Slots(builder, outward, side, stream)
    inward.enqueue(0)
    for number, row in enumerate(rows):
        slots.acquire(number)
        launches.launch(row, stream)
        gathered()
        for _ in zip_longest(outward.groups(number), inward.groups(number + 1)):
            pass
        slots.release(number)
    _Handoff(builder, side, stream)()
