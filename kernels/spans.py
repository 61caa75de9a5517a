"""How long the CTAs of a transfer are on the device: its programs once more, with kernels that write that down.

The kernels that move the bytes of timed transfers have no such code in them. Where a program launches one, its timed
variant runs in its place, over the same descriptors and with the same grid; everything else is the program's own.
"""

import contextlib
import ctypes
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from pega_tune.kernels.commands import Op, address_of
from pega_tune.kernels.plan import CopyPlan
from pega_tune.kernels.program import Program

SPAN_BYTES: Final = 16
"""A span is two uint64, nanoseconds of the device's timer: when a CTA began, and when all its threads had ended."""

_ARGUMENTS: Final = 2  # of a copy kernel; its timed variant has one more
_WORD_BYTES: Final = 8
_NANOSECONDS: Final = 1e9


@dataclass(frozen=True, slots=True)
class Spans:
    """Time that the CTAs of a transfer spend on the device, by a clock that some devices step once in a microsecond.

    Attributes:
        sm_s: SM-seconds: for each launch the sum over its CTAs of their spans, over the CTAs that share an SM; summed
            over launches. An SM that holds one CTA of several that would fit counts in full, as it does for whoever
            else could use it.
        span_s: seconds from the first CTA's beginning to the last one's end, over all launches; what the host does
            between launches is in it.
    """

    sm_s: float
    span_s: float


NO_LAUNCH: Final = Spans(0.0, 0.0)
"""Of a transfer by copy engines alone."""


class TimedKernel(Protocol):
    """The timed variant of a copy kernel."""

    @property
    def handle(self) -> int:
        """CUfunction."""

    def resident_blocks(self, threads: int) -> int:
        """Most CTAs of so many threads that an SM holds at once."""


class SpanMemory(Protocol):
    """Device memory for spans."""

    def reserve(self, nbytes: int) -> int:
        """Address of so many bytes; what was reserved before is void."""

    def read(self, nbytes: int) -> NDArray[np.uint64]:
        """The first bytes of it, as words; whoever writes them must have ended."""


@dataclass(frozen=True, slots=True)
class TimedLaunch:
    """A launch whose CTAs write down their spans.

    Attributes:
        grid_blocks: CTAs.
        per_sm: mean number of them on an SM that holds any, while all SMs that they reach are as full as they get.
    """

    grid_blocks: int
    per_sm: float

    @classmethod
    def of(cls, grid_blocks: int, resident_blocks: int, sm_count: int) -> "TimedLaunch":
        """A launch of so many CTAs, of which an SM holds at most `resident_blocks`.

        CTAs go to the emptiest SM, so a grid smaller than the device has an SM for each of them. Of a CTA that no SM
        holds, the driver refuses the launch.
        """
        room = max(1, resident_blocks) * sm_count
        return cls(grid_blocks, min(grid_blocks, room) / min(grid_blocks, sm_count))


def copies_in_batches(programs: Iterable[Program]) -> bool:
    """Whether the driver is free to use SMs for the copies of some program, which nobody can write down."""
    return any(bool(np.isin(program.commands["op"], (Op.BATCH_V1, Op.BATCH_V2)).any()) for program in programs)


def spans_of(times_ns: NDArray[np.uint64], launches: Sequence[TimedLaunch]) -> Spans:
    """What the spans of all CTAs come to.

    Args:
        times_ns: (n, 2) beginning and end of each, launch after launch, in nanoseconds.
        launches: with n CTAs in all, at least one.
    """
    lengths_ns = (times_ns[:, 1] - times_ns[:, 0]).astype(np.float64)
    first, sm_ns = 0, 0.0
    for launch in launches:
        sm_ns += float(lengths_ns[first : first + launch.grid_blocks].sum()) / launch.per_sm
        first += launch.grid_blocks
    return Spans(sm_ns / _NANOSECONDS, int(times_ns[:, 1].max() - times_ns[:, 0].min()) / _NANOSECONDS)


@dataclass(frozen=True, slots=True)
class LaunchBounds:
    """What bounds the launches of a program.

    Attributes:
        sms: SMs that they can reach; None for all.
        blocks: most CTAs of each.
    """

    sms: int | None = None
    blocks: int = 0

    @classmethod
    def of(cls, plan: CopyPlan) -> "LaunchBounds":
        """Those of a plan."""
        return cls(plan.sm_partition, plan.options.max_grid_blocks if plan.options else 0)


class SpanRecorder:
    """Lets programs run once with timed kernels, and reads what these have written down."""

    def __init__(self, timed: Callable[[int], TimedKernel], sm_count: int, memory: SpanMemory) -> None:
        """Starts with nothing.

        Args:
            timed: the timed variant of a copy kernel, by the CUfunction handle of the latter.
            sm_count: SMs of the device.
            memory: for this recorder alone.
        """
        self._timed = timed
        self._sm_count = sm_count
        self._memory = memory

    def record(self, programs: Sequence[Program], bounds: Sequence[LaunchBounds], run: Callable[[], object]) -> Spans:
        """Runs the programs of one transfer with timed kernels in place of their own.

        Args:
            programs: at least one; they are as they were when this returns.
            bounds: of the launches of each.
            run: runs them all to their end. It is not called if none of them launches anything.

        Raises:
            OutOfDeviceMemoryError: the spans do not fit.
        """
        launches = [
            launch for program, bound in zip(programs, bounds, strict=True) for launch in _launches(program, bound)
        ]
        if not launches:
            return NO_LAUNCH
        room = sum(launch.room for launch in launches)
        address = self._memory.reserve(room * SPAN_BYTES)
        with contextlib.ExitStack() as stack:
            for launch in launches:
                stack.callback(launch.restore)
                launch.time(self._timed(launch.function), address)
                address += launch.room * SPAN_BYTES
            run()
            timed = [self._timed_launch(launch) for launch in launches]
        times_ns = self._memory.read(room * SPAN_BYTES).reshape(room, 2)
        ends = accumulate(launch.room for launch in launches)
        written = [times_ns[end - one.room :][: one.blocks] for end, one in zip(ends, launches, strict=True)]
        return spans_of(np.concatenate(written), timed)

    def _timed_launch(self, launch: "_Launch") -> TimedLaunch:
        """What a launch was, after it."""
        resident = self._timed(launch.function).resident_blocks(launch.threads)
        return TimedLaunch.of(launch.blocks, resident, launch.bound.sms or self._sm_count)


class _Launch:
    """A launch of a program.

    It is changed where it lies, and its arguments stay where they are: the program may itself write both when it comes
    there. Therefore its CTAs are known only afterwards.

    Attributes:
        bound: what bounds it.
        function: CUfunction handle of its kernel.
        threads: threads per CTA.
        room: CTAs that it has at most.
    """

    def __init__(self, program: Program, row: int, bound: LaunchBounds, written_later: bool) -> None:
        self._command = program.commands[row]  # a view
        self._before = self._command.copy()
        self._words = np.zeros(0, np.uint64)
        self.bound: Final = bound
        self.function: Final = int(self._command["a"])
        self.threads: Final = int(self._command["c"])
        self.room: Final = bound.blocks if written_later else self.blocks

    @property
    def blocks(self) -> int:
        """CTAs, as they are now."""
        return int(self._command["b"])

    def time(self, kernel: TimedKernel, address: int) -> None:
        """Launches the timed variant instead, with spans from an address on."""
        arguments = (_ARGUMENTS * ctypes.c_uint64).from_address(int(self._command["d"]))
        # The third argument, then where all three are, which is what cuLaunchKernel takes.
        words = self._words = np.zeros(1 + _ARGUMENTS + 1, np.uint64)
        words[:] = address, *arguments, address_of(words)
        self._command["a"], self._command["d"] = kernel.handle, address_of(words) + _WORD_BYTES

    def restore(self) -> None:
        """Makes it what it was."""
        self._command["a"], self._command["d"] = self._before["a"], self._before["d"]


def _launches(program: Program, bound: LaunchBounds) -> list[_Launch]:
    ops = program.commands["op"]
    written_later = bool((ops == Op.CALL).any())
    return [_Launch(program, row, bound, written_later) for row in np.flatnonzero(ops == Op.LAUNCH).tolist()]
