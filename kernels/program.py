"""Programs: what a backend makes of a batch; a list of driver calls that native code runs (see `executor`)."""

from array import array
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, Protocol

import numpy as np

from pega_tune.errors import UsageError
from pega_tune.kernels.commands import COMMAND, WORDS, Commands, Op, addresses_of
from pega_tune.kernels.ranges import Addresses
from pega_tune.kernels.shape import Direction

_OPERANDS: Final = WORDS - 2
_PARAMETERS: Final = 5  # word of a launch that has the address of its parameter array
_PADDING: Final = tuple((0,) * (_OPERANDS - given) for given in range(_OPERANDS + 1))


class StaleError(UsageError):
    """A program was to run after its buffers had been prepared anew."""

    code = "stale-preparation"


class Lease:
    """Says whether the buffers that a program uses are still its own.

    Attributes:
        revoked: they have been prepared anew, the program must not start any more.
    """

    __slots__ = ("revoked",)

    def __init__(self) -> None:
        self.revoked = False


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """Driver calls that move a batch, in order.

    Attributes:
        commands: (n,) of `COMMAND`.
        end: event that happens when all of it is done; the last command records it.
        keep: what owns the memory that the commands refer to; it must live until `end` has happened.
        events: what was taken from the route's source, `end` maybe among it; free again when `end` has happened.
        lease: whether it may still start; None if nothing can make it stale.
        streams: those that it gives commands to, each once, last the one in which it ends; more do no harm, but
            whoever waits for all of them waits for those too. Empty if that has to be found in the commands.
    """

    commands: Commands
    end: int
    keep: tuple[Any, ...] = ()
    events: tuple[int, ...] = ()
    lease: Lease | None = None
    streams: tuple[int, ...] = ()

    def __len__(self) -> int:
        return len(self.commands)


@dataclass(frozen=True, slots=True)
class Launch:
    """One launch of a kernel.

    Attributes:
        function: CUfunction handle.
        grid_blocks: CTAs.
        threads: threads per CTA.
        arguments: of the kernel, all of 64 bits.
    """

    function: int
    grid_blocks: int
    threads: int
    arguments: tuple[int, ...]


class EventSource(Protocol):
    """Events without timing."""

    def take(self) -> int:
        """A CUevent handle that nobody else has, until it is given back."""

    def give_back(self, events: Iterable[int]) -> None:
        """Makes events available again; they must have happened, or never have been recorded."""


@dataclass(frozen=True, slots=True)
class Route:
    """Where the commands of a program go.

    Attributes:
        stream: CUstream in which the program begins and ends.
        side_stream: a second one, for what overlaps inside the program.
        events: where its events come from.
        start: event recorded before everything else, for timing; None for none.
        end: event recorded last; None takes one from `events`.
    """

    stream: int
    side_stream: int
    events: EventSource
    start: int | None = None
    end: int | None = None


class ProgramBuilder:
    """Puts a program together, command by command; what goes to a stream goes to the route's unless told otherwise."""

    def __init__(self, route: Route) -> None:
        self.route: Final = route
        self._words = array("Q")
        self._arguments = array("Q")
        self._launches: list[tuple[int, int]] = []  # row, first argument
        self._keep: list[Any] = []
        self._events: list[int] = []
        self._streams: set[int] = set()  # that were named
        if route.start is not None:
            self.record(route.start)

    def copy(self, direction: Direction, sides: tuple[int, int], nbytes: int, stream: int | None = None) -> None:
        """One DMA command, from the second to the first of `sides`."""
        op = Op.COPY_TO_DEVICE if _to_device(direction) else Op.COPY_TO_HOST
        self._add(op, stream, *sides, nbytes)

    def copies(
        self,
        direction: Direction,
        columns: tuple[Addresses, Addresses, Addresses],
        part: tuple[int, int] | None = None,
        stream: int | None = None,
    ) -> None:
        """Many DMA commands, made by one command of the program.

        Args:
            direction: which way; not both.
            columns: destinations, sources and sizes, each (n,) contiguous; they are kept alive, and must not change.
            part: index of the first range and how many; None for all.
            stream: another stream.
        """
        first, count = part or (0, len(columns[2]))
        op = Op.COPIES_TO_DEVICE if _to_device(direction) else Op.COPIES_TO_HOST
        self._add(op, stream, *addresses_of(columns), first, count)
        self._keep.append(columns)

    def copy_2d(self, parameters: int, stream: int | None = None) -> None:
        """One 2-D copy, by the address of its CUDA_MEMCPY2D, whose owner `keep` takes."""
        self._add(Op.COPY_2D, stream, parameters)

    def batch(self, op: Op, arguments: tuple[int, ...], stream: int | None = None) -> None:
        """One `Op.BATCH_V1` or `Op.BATCH_V2` with its arguments up to the stream; `keep` takes the owners of arrays."""
        self._add(op, stream, *arguments)

    def launch(self, launch: Launch, stream: int | None = None) -> None:
        """One kernel launch."""
        self._launches.append((len(self), len(self._arguments)))
        self._arguments.extend(launch.arguments)
        self._add(Op.LAUNCH, stream, launch.function, launch.grid_blocks, launch.threads)

    def record(self, event: int, stream: int | None = None) -> None:
        """Lets an event happen when the stream has come here."""
        self._add(Op.RECORD, stream, event)

    def take_and_record(self, stream: int | None = None) -> int:
        """Records an event of the source's, and returns it."""
        event = self.route.events.take()
        self._events.append(event)
        self.record(event, stream)
        return event

    def await_event(self, event: int, stream: int | None = None) -> None:
        """Lets the stream wait for an event that has been recorded before."""
        self._add(Op.AWAIT, stream, event)

    def barrier(self, event: int) -> None:
        """Holds the program up until an event has happened that has been recorded before."""
        self._add(Op.BARRIER, None, event)

    def call(self, function: int, argument: int) -> None:
        """Runs native code on the host when the program comes here; `keep` takes the owners of what it touches.

        It may write memory that later commands read, the operands of later commands among them. It must not wait, and
        not answer `NOT_READY`: what goes wrong in the middle of a program is better excluded before.

        Args:
            function: address of `int32 f(uint64)`; it answers 0, or a CUresult that ends the program.
            argument: what it gets.
        """
        self._add(Op.CALL, None, function, argument)

    def give_way(self) -> None:
        """Lets other programs of the same thread submit before this one goes on.

        A program of many long calls would otherwise keep the other direction of a transfer from beginning.
        """
        self._add(Op.YIELD, None)

    def complete_first(self, stream: int | None = None) -> None:
        """Holds the program up until what the stream has been given so far is done (completion backpressure)."""
        self.barrier(self.take_and_record(stream))

    def extend(self, commands: Commands, stream: int | None = None) -> None:
        """Commands made elsewhere.

        Args:
            commands: (n,) of `COMMAND`.
            stream: the stream of all of them; None if that has to be found in them, which takes long.
        """
        self._words.frombytes(commands.view(np.uint8).data)
        self._streams.update(commands["stream"].tolist() if stream is None else (stream,))

    def keep(self, *owners: Any) -> None:
        """Keeps what owns memory alive with the program."""
        self._keep += owners

    def finish(self, lease: Lease | None = None) -> Program:
        """Records the end on the route's stream, and gives the program; the builder is not used again."""
        end = self.route.end
        if end is None:
            end = self.take_and_record()
        else:
            self.record(end)
        if self._launches:
            self._place_arguments()
        commands = np.frombuffer(self._words, COMMAND)
        streams = *sorted(self._streams - {self.route.stream}), self.route.stream
        return Program(commands, end, tuple(self._keep), tuple(self._events), lease, streams)

    def __len__(self) -> int:
        """Commands so far."""
        return len(self._words) // WORDS

    def _add(self, op: Op, stream: int | None, *operands: int) -> None:
        if stream is None:
            stream = self.route.stream
        else:
            self._streams.add(stream)
        self._words.extend((op, stream, *operands, *_PADDING[len(operands)]))

    def _place_arguments(self) -> None:
        """Puts addresses of the arguments, which is what cuLaunchKernel takes, behind the arguments of all launches."""
        block = self._arguments
        count = len(block)
        block.extend([0] * count)
        base, _ = block.buffer_info()
        for i in range(count):
            block[count + i] = base + 8 * i
        for row, first in self._launches:
            self._words[row * WORDS + _PARAMETERS] = base + 8 * (count + first)
        self._keep.append(block)


def _to_device(direction: Direction) -> bool:
    if direction is Direction.BOTH:
        raise UsageError("a copy goes one way")
    return direction is Direction.H2D
