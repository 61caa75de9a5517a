"""The commands of staged transfers: DMA, kernels, and the events between them.

With backpressure, nothing waits on the device, but the program on the host: a kernel that stands in its stream behind
DMA makes a device that processes share switch to its context, and find that it cannot run yet.
"""

from collections.abc import Iterator
from itertools import zip_longest
from typing import Final

from pega_tune.kernels.descriptors import sides
from pega_tune.kernels.plan import CopyPlan
from pega_tune.kernels.program import ProgramBuilder
from pega_tune.kernels.staged_launches import Launches
from pega_tune.kernels.staged_leg import StagedLeg


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
    """The DMA commands of a leg, group by group.

    Attributes:
        leg: whose they are.
        parts: how many parts.
        slots: how many slots they lie in.
        stops: whether the program waits for one group before it goes on with the next.
        rows: the command for each group so far.
    """

    def __init__(self, builder: ProgramBuilder, leg: StagedLeg, plan: CopyPlan, stream: int) -> None:
        cut = leg.schedule
        self.leg: Final = leg
        self.parts: Final = cut.counts.parts
        self.slots: Final = cut.ring.slots
        self.stops: Final = plan.chunk_bytes is not None and plan.backpressure
        self.rows: Final[list[int]] = []
        self._builder = builder
        self._stream = stream
        self._groups = cut.groups()
        host, staging, nbytes = cut.buffers
        self._columns = (*sides(staging, host, leg.direction), nbytes)
        self._done = _Signal(builder)

    def reuses(self, part: int) -> bool:
        """Whether a part lies where an earlier one lay."""
        return self.slots <= part < self.parts

    def settle(self) -> None:
        """With backpressure, makes the program wait for the last group."""
        if self.stops:
            self._done.hold_program()

    def groups(self, part: int) -> Iterator[None]:
        """Enqueues one group after another; none if there is no such part.

        With backpressure, the program goes on with a group only when the group before it is done.
        """
        for group in self._groups[part] if part < self.parts else ():
            self.settle()
            self.rows.append(len(self._builder))
            self._builder.copies(self.leg.direction, self._columns, group, self._stream)
            if self.stops:
                self._done.record(self._stream)
            yield

    def enqueue(self, part: int) -> None:
        """Enqueues all groups of a part."""
        for _ in self.groups(part):
            pass


class _Handoff:
    """Makes one stream wait for another, wherever it is called; the program in its place if it `stops`."""

    def __init__(self, builder: ProgramBuilder, source: int, target: int, stops: bool) -> None:
        self._streams = (source, target)
        self._stops = stops
        self._reached = _Signal(builder)

    def __call__(self) -> None:
        source, target = self._streams
        if source == target:
            return
        self._reached.record(source)
        if self._stops:
            self._reached.hold_program()
        else:
            self._reached.hold(target)


class _Slots:
    """Says when the last reader of a slot is done, with one event a slot."""

    def __init__(self, builder: ProgramBuilder, dma: Dma, reader: int, writer: int) -> None:
        self._dma = dma
        self._reader, self._writer = reader, writer
        self._read = [_Signal(builder) for _ in range(dma.slots)]

    def acquire(self, part: int) -> None:
        """Makes the writing stream, or the program, wait until the slot of a part has been read."""
        if not self._dma.reuses(part):
            return
        if self._dma.stops:
            self._read[part % self._dma.slots].hold_program()
        else:
            self._read[part % self._dma.slots].hold(self._writer)

    def release(self, part: int) -> None:
        """Records that the slot of a part has been read, if another part needs it."""
        if self._dma.reuses(part + self._dma.slots):
            self._read[part % self._dma.slots].record(self._reader)


def load(builder: ProgramBuilder, launches: Launches, dma: Dma) -> None:
    """DMA into staging, of as many parts ahead as there are slots, while others are described and scattered.

    The host describes parts when their DMA is on its way, and after another program has been submitted, for which it is
    there first of all.
    """
    stream, ahead = builder.route.stream, 1 if dma.stops else min(dma.slots, dma.parts)
    side = builder.route.side_stream if dma.parts > 1 or launches.kernel.upload else stream
    filled, slots = [_Signal(builder) for _ in range(ahead)], _Slots(builder, dma, side, stream)
    if launches.kernel.upload:
        _Handoff(builder, stream, side, dma.stops)()

    def fill(part: int) -> None:
        slots.acquire(part)
        dma.enqueue(part)
        if part < dma.parts and side != stream and not dma.stops:
            filled[part % ahead].record(stream)

    for part in range(ahead):
        fill(part)
    builder.give_way()
    for part in range(dma.parts):
        launches.describe(side, (dma.leg, part))
        dma.settle()
        if side != stream and not dma.stops:
            filled[part % ahead].hold(side)
        launches.launch(side)
        slots.release(part)
        fill(part + ahead)
    _Handoff(builder, side, stream, dma.stops)()


def save(builder: ProgramBuilder, launches: Launches, dma: Dma) -> None:
    """DMA of one part out of staging while the next part is described and gathered.

    It gives way to another program when the first part is on its way.
    """
    stream = builder.route.stream
    side = builder.route.side_stream if dma.parts > 1 else stream
    filled, slots = _Handoff(builder, side, stream, dma.stops), _Slots(builder, dma, stream, side)
    _Handoff(builder, stream, side, dma.stops)()
    launches.describe(side, (dma.leg, 0))
    launches.launch(side)
    for part in range(dma.parts):
        filled()
        groups = dma.groups(part)
        next(groups)
        if part + 1 < dma.parts:
            launches.describe(side, (dma.leg, part + 1))
            slots.acquire(part + 1)
            launches.launch(side)
        for _ in groups:
            pass
        slots.release(part)
        if part == 0 and dma.parts > 1:
            builder.give_way()


def fused(builder: ProgramBuilder, launches: Launches, dma: tuple[Dma, Dma]) -> None:
    """Rounds of DMA in, one launch, and DMA out; a round's DMA out and the next one's DMA in are submitted in turn.

    DMA out has the route's stream to itself, in which the program ends: an end behind a kernel's stream would take one
    more switch of contexts.
    """
    inward, outward = dma
    stream, side = builder.route.stream, builder.route.side_stream
    stops = inward.stops or outward.stops
    gathered, slots = _Handoff(builder, side, stream, stops), _Slots(builder, outward, stream, side)
    _Handoff(builder, stream, side, stops)()
    inward.enqueue(0)
    for number in range(max(inward.parts, outward.parts)):
        launches.describe(side, (inward.leg, number), (outward.leg, number))
        slots.acquire(number)
        inward.settle()
        launches.launch(side)
        gathered()
        for _ in zip_longest(outward.groups(number), inward.groups(number + 1)):
            pass
        slots.release(number)
