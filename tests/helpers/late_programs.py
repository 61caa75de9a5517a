"""Programs for a late driver, with buffers of their own."""

import weakref
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pega_tune.kernels.program import Launch, Program, ProgramBuilder, Route
from pega_tune.kernels.shape import Direction
from tests.helpers.late_driver import EVENTS

RANGE_BYTES = 16


class Events:
    """Numbers events from 1 up, those given back first."""

    def __init__(self) -> None:
        self._next = 1
        self._free: list[int] = []
        self.out: set[int] = set()

    def take(self) -> int:
        """An event that nobody has."""
        if self._free:
            event = self._free.pop()
        else:
            event, self._next = self._next, self._next + 1
            assert event < EVENTS
        self.out.add(event)
        return event

    def give_back(self, events: Iterable[int]) -> None:
        """Takes events back, none twice."""
        for event in events:
            self.out.remove(event)
            self._free.append(event)


@dataclass(frozen=True)
class Work:
    """What a program is to do.

    Attributes:
        stream: where it begins and ends.
        side_stream: where every other chunk goes; None for no second stream.
        way: `copy` (one command per range), `copies` (one per chunk) or `launch`.
        chunks: how many, of three ranges each.
        backpressure: whether a barrier stands between chunks.
        direction: which way.
        gives_way: whether it does so between chunks, before the barrier if there is one.
    """

    stream: int
    side_stream: int | None = None
    way: str = "copy"
    chunks: int = 1
    backpressure: bool = True
    direction: Direction = Direction.H2D
    gives_way: bool = False

    @property
    def nbytes(self) -> int:
        """Bytes that it moves."""
        return self.chunks * 3 * RANGE_BYTES


class Buffers:
    """Source and destination of one program: rows that the copies swap about, and what the program reads."""

    def __init__(self, work: Work, seed: int) -> None:
        ranges = work.chunks * 3
        self.source = np.random.default_rng(seed).integers(1, 256, (ranges, RANGE_BYTES), np.uint8)
        self.destination = np.zeros_like(self.source)
        order = np.random.default_rng(seed).permutation(ranges).astype(np.uint64)
        self.columns = (
            self.destination.ctypes.data + order * np.uint64(RANGE_BYTES),
            self.source.ctypes.data + order * np.uint64(RANGE_BYTES),
            np.full(ranges, RANGE_BYTES, np.uint64),
        )
        self.descriptors = np.stack(self.columns, axis=1)

    def ranges_moved(self) -> int:
        """Ranges that have arrived; all others must be untouched."""
        arrived = (self.destination == self.source).all(axis=1)
        assert not self.destination[~arrived].any()
        return int(arrived.sum())


def build(work: Work, events: Events, buffers: Buffers) -> Program:
    """The program; it keeps what its commands refer to, but not both sides of the copies."""
    builder = ProgramBuilder(Route(work.stream, work.side_stream or 0, events))
    last = None
    for chunk in range(work.chunks):
        on_side = work.side_stream is not None and chunk % 2 == 1
        stream = work.side_stream if on_side else work.stream
        _put_chunk(builder, work, buffers, (chunk, stream))
        if on_side:
            last = builder.take_and_record(stream)
        if work.gives_way and chunk + 1 < work.chunks:
            builder.give_way()
        if work.backpressure and chunk + 1 < work.chunks:
            builder.complete_first(stream)
    if last is not None:
        builder.await_event(last)
    return builder.finish()


def _put_chunk(builder: ProgramBuilder, work: Work, buffers: Buffers, place: tuple[int, int | None]) -> None:
    chunk, stream = place
    first = 3 * chunk
    if work.way == "copies":
        builder.copies(work.direction, buffers.columns, (first, 3), stream)
    elif work.way == "launch":
        address = int(buffers.descriptors.ctypes.data) + 24 * first
        builder.launch(Launch(7, 1, 32, (address, 3)), stream)
        builder.keep(buffers.descriptors)
    else:
        for i in range(first, first + 3):
            destination, source, nbytes = (int(column[i]) for column in buffers.columns)
            builder.copy(work.direction, (destination, source), nbytes, stream)


def watch(buffers: Buffers) -> "weakref.ReferenceType[NDArray[np.uint64]]":
    """Dies with the descriptors."""
    return weakref.ref(buffers.descriptors)
