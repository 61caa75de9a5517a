"""Programs: what a backend makes of a batch; a list of driver calls that native code runs (see `executor`)."""

from array import array
from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pega_tune.errors import UsageError
from pega_tune.kernels.ranges import Addresses
from pega_tune.kernels.shape import Direction

COMMAND: Final = np.dtype([(name, np.uint64) for name in ("op", "stream", *"abcdefgh")])
"""One command: what to do, the CUstream it goes to, and its operands as `Op` gives them."""

WORDS: Final = len(COMMAND.names or ())
_OPERANDS: Final = WORDS - 2
_PARAMETERS: Final = 5  # word of a launch that has the address of its parameter array
_PADDING: Final = tuple((0,) * (_OPERANDS - given) for given in range(_OPERANDS + 1))

Commands: TypeAlias = NDArray[Any]
"""(n,) of `COMMAND`."""


class Op(IntEnum):
    """What a command does. Addresses are of host memory unless they are what is copied."""

    COPY_TO_DEVICE = 0  # cuMemcpyHtoDAsync: a = destination, b = source, c = bytes
    COPY_TO_HOST = 1  # cuMemcpyDtoHAsync: likewise
    COPIES_TO_DEVICE = 2  # many of them: a, b, c = addresses of uint64 arrays of these, d = first, e = how many
    COPIES_TO_HOST = 3  # likewise
    COPY_2D = 4  # cuMemcpy2DAsync: a = address of a CUDA_MEMCPY2D
    BATCH_V1 = 5  # cuMemcpyBatchAsync of CUDA 12.8: a to h = its arguments up to the stream
    BATCH_V2 = 6  # cuMemcpyBatchAsync of CUDA 13.0: a to g = its arguments up to the stream
    LAUNCH = 7  # cuLaunchKernel: a = function, b = CTAs, c = threads per CTA, d = address of its parameter array
    RECORD = 8  # cuEventRecord: a = event
    AWAIT = 9  # cuStreamWaitEvent: the stream goes on only when event a has happened
    BARRIER = 10  # the program goes on only when event a has happened; the host does not wait either


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
    """

    commands: Commands
    end: int
    keep: tuple[Any, ...] = ()
    events: tuple[int, ...] = ()
    lease: Lease | None = None

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
        self._add(op, stream, *map(address_of, columns), first, count)
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

    def complete_first(self, stream: int | None = None) -> None:
        """Holds the program up until what the stream has been given so far is done (completion backpressure)."""
        self.barrier(self.take_and_record(stream))

    def extend(self, commands: Commands) -> None:
        """Commands made elsewhere; (n,) of `COMMAND`."""
        self._words.frombytes(commands.tobytes())

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
        return Program(commands, end, tuple(self._keep), tuple(self._events), lease)

    def __len__(self) -> int:
        """Commands so far."""
        return len(self._words) // WORDS

    def _add(self, op: Op, stream: int | None, *operands: int) -> None:
        self._words.extend((op, self.route.stream if stream is None else stream, *operands, *_PADDING[len(operands)]))

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


def address_of(values: NDArray[Any]) -> int:
    """Where an array lies; its owner must be kept alive."""
    address: int = values.ctypes.data  # `__array_interface__` would describe every field of a command
    return address


def _to_device(direction: Direction) -> bool:
    if direction is Direction.BOTH:
        raise UsageError("a copy goes one way")
    return direction is Direction.H2D
