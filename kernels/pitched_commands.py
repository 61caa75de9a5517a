"""The commands of 2-D copies, written by one native call into buffers that are used again and again.

Filling structured arrays field by field costs microseconds a field, and memory that is new costs a page fault every
4 KiB; both would be a large part of a preparation that otherwise takes tens of microseconds.
"""

from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pega_tune.kernels.commands import COMMAND, WORDS, Commands, Op, address_of
from pega_tune.kernels.native import native
from pega_tune.kernels.program import Route
from pega_tune.kernels.progression_chunks import Groups
from pega_tune.kernels.progression_search import Table
from pega_tune.kernels.ranges import Addresses
from pega_tune.kernels.shape import Direction

_SIDE: Final = (
    ("XInBytes", np.uint64),
    ("Y", np.uint64),
    ("MemoryType", np.uint32),
    ("Host", np.uint64),
    ("Device", np.uint64),
    ("Array", np.uint64),
    ("Pitch", np.uint64),
)
CUDA_MEMCPY2D: Final = np.dtype(
    [(f"{side}{name}", kind) for side in ("src", "dst") for name, kind in _SIDE]
    + [("WidthInBytes", np.uint64), ("Height", np.uint64)],
    align=True,
)
"""`CUDA_MEMCPY2D_v2` of cuda.h."""

# The same in words of 64 bits: the memory type is the low half of a word whose high half is padding.
_STRUCT_WORDS = CUDA_MEMCPY2D.itemsize // 8
_MEMORY_TYPE, _HOST_ADDRESS, _DEVICE_ADDRESS, _PITCH = 2, 3, 4, 6
_DESTINATION, _WIDTH, _HEIGHT = 7, 14, 15
_HOST, _DEVICE = 1, 2  # CU_MEMORYTYPE_HOST, CU_MEMORYTYPE_DEVICE

_COPY_2D, _RECORD, _BARRIER = int(Op.COPY_2D), int(Op.RECORD), int(Op.BARRIER)
_ONE_COPY: Final = {Direction.H2D: Op.COPY_TO_DEVICE, Direction.D2H: Op.COPY_TO_HOST}
_MANY_COPIES: Final = {Direction.H2D: Op.COPIES_TO_DEVICE, Direction.D2H: Op.COPIES_TO_HOST}

_STREAM, _START, _END, _TO_DEVICE, _COPY, _COPIES, _STRUCTS, _PLAIN, _FRAME_WORDS = range(9)
_COMMANDS_PER_GROUP = 3  # a record, a barrier, and one for all plain copies
_COMMANDS_AROUND = 2  # the start and the end
_LEAST = 64

_Buffers: TypeAlias = tuple[Addresses, Addresses, Addresses]  # (a, WORDS), (b, 16), (3, b)


class PitchedWriter:
    """Writes one program after another into the same memory, which grows with the largest. It is not thread-safe."""

    def __init__(self) -> None:
        self._frame = np.zeros(_FRAME_WORDS, np.uint64)
        self._route: Route | None = None
        self._direction: Direction | None = None
        self._copies = self._groups = 0
        self._make_room(_LEAST, 1)

    @property
    def owners(self) -> tuple[Any, ...]:
        """What the commands written last refer to."""
        return self._buffers

    def write(self, groups: Groups, direction: Direction, route: Route, events: Addresses) -> Commands:
        """Lists the copies of all groups between the start and the end of a route.

        In each group the 2-D copies come first: one keeps the copy engine busy while many plain ones are submitted.

        Args:
            groups: the copies.
            direction: which way; not both.
            route: where they go; it has an end.
            events: for the barriers between the groups, one less than groups; none at all for no barriers.

        Returns:
            (n,) commands; a view, valid until the next call.
        """
        copies = len(groups.copies)
        if copies > self._copies or len(groups) > self._groups:
            self._make_room(max(copies, self._copies), max(len(groups), self._groups))
        if route is not self._route or direction is not self._direction:
            self._set_frame(direction, route)
        count = _write(groups.copies.table, groups.bounds, events, self._frame, self._buffers)
        return self._commands[:count]

    def _make_room(self, copies: int, groups: int) -> None:
        self._copies, self._groups = copies, groups
        words = np.zeros((copies + _COMMANDS_PER_GROUP * groups + _COMMANDS_AROUND, WORDS), np.uint64)
        self._commands = words.view(COMMAND)[:, 0]
        structs, plain = np.zeros((copies, _STRUCT_WORDS), np.uint64), np.empty((3, copies), np.uint64)
        self._buffers: _Buffers = words, structs, plain
        self._frame[_STRUCTS], self._frame[_PLAIN] = address_of(structs), address_of(plain)

    def _set_frame(self, direction: Direction, route: Route) -> None:
        assert route.end is not None
        self._route, self._direction = route, direction
        self._frame[:_TO_DEVICE] = route.stream, route.start or 0, route.end
        self._frame[_TO_DEVICE] = direction is Direction.H2D
        self._frame[_COPY], self._frame[_COPIES] = _ONE_COPY[direction], _MANY_COPIES[direction]


@native
def _write(copies: Table, bounds: NDArray[np.int64], events: Addresses, frame: Addresses, buffers: _Buffers) -> int:
    """Writes the commands, and what they refer to; how many commands."""
    words, structs, plain = buffers
    stream = frame[_STREAM]
    row = pitched = plains = 0
    if frame[_START]:
        row = _put(words, row, (_RECORD, stream, frame[_START]))
    for group in range(bounds.shape[0] - 1):
        if group and events.shape[0]:
            row = _put(words, row, (_RECORD, stream, events[group - 1]))
            row = _put(words, row, (_BARRIER, stream, events[group - 1]))
        first_plain = plains
        for i in range(bounds[group], bounds[group + 1]):
            if copies[5, i] == 1:
                destination, source = (0, 1) if frame[_TO_DEVICE] else (1, 0)
                plain[destination, plains], plain[source, plains] = copies[0, i], copies[1, i]
                plain[2, plains] = copies[2, i]
                plains += 1
            else:
                _fill(structs[pitched], copies[:, i], frame[_TO_DEVICE])
                row = _put(words, row, (_COPY_2D, stream, frame[_STRUCTS] + np.uint64(pitched * 8 * _STRUCT_WORDS)))
                pitched += 1
        if plains > first_plain:
            row = _put_plain(words, row, frame, (plain, first_plain, plains))
    return _put(words, row, (_RECORD, stream, frame[_END]))


@native
def _fill(struct: Addresses, copy: Addresses, to_device: np.uint64) -> None:
    """The parameters of one 2-D copy; what it does not use is 0 already, or not looked at."""
    device, host = (_DESTINATION, 0) if to_device else (0, _DESTINATION)
    struct[device + _MEMORY_TYPE], struct[host + _MEMORY_TYPE] = _DEVICE, _HOST
    struct[device + _DEVICE_ADDRESS], struct[host + _HOST_ADDRESS] = copy[0], copy[1]
    struct[device + _HOST_ADDRESS] = struct[host + _DEVICE_ADDRESS] = 0
    struct[device + _PITCH], struct[host + _PITCH] = copy[3], copy[4]
    struct[_WIDTH], struct[_HEIGHT] = copy[2], copy[5]


@native
def _put(words: Addresses, row: int, command: tuple[int, np.uint64, np.uint64]) -> int:
    """Writes a command (op, stream, a); the row behind it."""
    words[row, 0], words[row, 1], words[row, 2] = command
    words[row, 3:] = 0
    return row + 1


@native
def _put_plain(words: Addresses, row: int, frame: Addresses, chosen: tuple[Addresses, int, int]) -> int:
    """Writes one command for the plain copies (of all, first, end); the row behind it."""
    plain, first, end = chosen
    if end == first + 1:
        _put(words, row, (frame[_COPY], frame[_STREAM], plain[0, first]))
        words[row, 3], words[row, 4] = plain[1, first], plain[2, first]
        return row + 1
    _put(words, row, (frame[_COPIES], frame[_STREAM], frame[_PLAIN]))
    column_bytes = np.uint64(8 * plain.shape[1])
    words[row, 3], words[row, 4] = frame[_PLAIN] + column_bytes, frame[_PLAIN] + np.uint64(2) * column_bytes
    words[row, 5], words[row, 6] = first, end - first
    return row + 1
