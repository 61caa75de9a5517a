"""Which streams a program uses, and how to find out that all it has submitted to them is done."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np

from pega_tune.errors import UsageError
from pega_tune.kernels.commands import COMMAND, Commands, Op, address_of
from pega_tune.kernels.program import Program

_MAX_STREAMS: Final = 64  # a record holds a set of streams as the bits of one word
_REMEMBERED: Final = 1024  # streams and events are used again and again, so that there are far fewer closings


class StreamSets:
    """Sets of streams as the bits of a word; every stream has a bit of its own for good."""

    def __init__(self) -> None:
        self._bits: dict[int, int] = {}

    def bits_of(self, streams: tuple[int, ...]) -> int:
        """The set of these streams.

        Raises:
            UsageError: there have been more than 64.
        """
        found = 0
        for stream in streams:
            found |= self._bits.get(stream) or self._learn(stream, streams)
        return found

    def _learn(self, stream: int, streams: tuple[int, ...]) -> int:
        """Gives a stream its bit, if there is room for all of these."""
        if len(self._bits.keys() | set(streams)) > _MAX_STREAMS:
            raise UsageError(f"a worker knows at most {_MAX_STREAMS} streams", "use the same streams again")
        self._bits[stream] = bit = 1 << len(self._bits)
        return bit


@dataclass(frozen=True, slots=True, eq=False)
class Closing:
    """What follows a program, wherever it stopped.

    Attributes:
        commands: (n,), never written again; the last is a barrier on the end event, and is alone what follows a
            program that went through.
        address: where they lie.
    """

    commands: Commands
    address: int


def streams_of(program: Program) -> tuple[int, ...]:
    """The streams that a program gives commands to, or more, each once; last the one in which it ends."""
    return program.streams or _streams_of(program.commands)


def _streams_of(commands: Commands) -> tuple[int, ...]:
    last = int(commands["stream"][-1])
    submitting = commands["op"] != Op.BARRIER
    return *(int(s) for s in np.unique(commands["stream"][submitting]) if s != last), last


@lru_cache(maxsize=_REMEMBERED)
def closing_of(streams: tuple[int, ...], end: int) -> Closing:
    """The closing of a program with such streams (see `streams_of`) and such an end event.

    The event is recorded behind everything in all of its streams: each in turn is made to precede the last one. It
    serves for all of that, as a stream that waits for an event waits for what was recorded when it was told to.
    """
    *others, last = streams
    rows = [row for other in others for row in ((Op.RECORD, other), (Op.AWAIT, last))]
    rows += [(Op.RECORD, last), (Op.BARRIER, last)]
    commands = np.zeros(len(rows), COMMAND)
    commands["op"], commands["stream"] = zip(*rows, strict=True)
    commands["a"] = end
    commands.flags.writeable = False
    return Closing(commands, address_of(commands))
