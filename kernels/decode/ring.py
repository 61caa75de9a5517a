"""Where a decode probe leaves the ends of its steps: memory that its process may share with the one that reads it."""

from enum import IntEnum
from typing import Any, ClassVar, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pega_tune.errors import DeviceError, UsageError
from pega_tune.kernels.decode.words import observe, publish
from pega_tune.kernels.native import native

_WORD_BYTES: Final = 8
_LINE_BYTES: Final = 64  # of a processor's cache: what the reader writes and what the loop writes stay apart

RING_HEADER: Final = np.dtype(
    {
        "names": ["stop", "capacity", "warm", "state", "count", "status"],
        "formats": [np.uint64, np.uint64, np.uint64, np.uint64, np.uint64, np.int64],
        "offsets": [0, 8, 16, 24, _LINE_BYTES, _LINE_BYTES + 8],
        "itemsize": 2 * _LINE_BYTES,
    }
)
"""Begin of the memory; the ends of the steps follow, `capacity` uint64 nanoseconds of the monotonic clock.

- `stop`: anything but 0 ends the loop after the step under way.
- `capacity`: steps that are remembered; step n lies at place n modulo the capacity.
- `warm`: the count from which on steps are worth counting.
- `state`: a `RingState`.
- `count`: steps so far, written after the end of the step it counts.
- `status`: CUresult of the call that failed; 0 if none did.
"""


Memory: TypeAlias = memoryview | NDArray[Any]
"""Writable bytes at an address that is a multiple of 8, such as `SharedMemory.buf`."""


class RingState(IntEnum):
    """What the probe is doing."""

    IDLE = 0
    RUNNING = 1
    STOPPED = 2
    FAILED = 3


class StepsLostError(DeviceError):
    """Steps were asked for that newer ones have overwritten."""

    code: ClassVar[str] = "decode-steps-lost"


class StepRing:
    """One view of the memory. Any number of them may read, one probe writes, and both may do so at the same time.

    It exports the memory: shared memory cannot be closed before its rings are gone.

    Attributes:
        capacity: steps that are remembered.
        address: where the header begins.
        times_address: where the ends of the steps begin.
    """

    def __init__(self, memory: Memory) -> None:
        """Looks at memory that `create` has prepared, here or in another process.

        Raises:
            UsageError: it is no ring.
        """
        raw = np.frombuffer(memory, np.uint8)
        if len(raw) < RING_HEADER.itemsize or not raw.flags.writeable or raw.ctypes.data % 8:
            raise UsageError("a step ring is writable, aligned memory that begins with a header")
        self._header = raw[: RING_HEADER.itemsize].view(RING_HEADER)
        self.capacity: Final = int(self._header["capacity"][0])
        if not 0 < self.capacity <= (len(raw) - RING_HEADER.itemsize) // _WORD_BYTES:
            raise UsageError(f"a step ring of {self.capacity} steps does not fit in {len(raw)} bytes")
        self._times = raw[RING_HEADER.itemsize :][: _WORD_BYTES * self.capacity].view(np.uint64)
        self.address: Final = int(raw.ctypes.data)
        self.times_address: Final = self.address + RING_HEADER.itemsize
        self._count_address = np.uint64(self.address_of("count"))
        _observed(self._count_address)  # compiles, so that no reader holds up a probe in its process

    @staticmethod
    def nbytes(capacity: int) -> int:
        """Bytes of memory for so many steps."""
        return RING_HEADER.itemsize + _WORD_BYTES * capacity

    @classmethod
    def create(cls, memory: Memory) -> "StepRing":
        """Prepares memory for as many steps as fit, and looks at it.

        Raises:
            UsageError: not even one fits.
        """
        raw = np.frombuffer(memory, np.uint8)
        capacity = (len(raw) - RING_HEADER.itemsize) // _WORD_BYTES
        if capacity < 1:
            raise UsageError(f"{len(raw)} bytes are too few for a step ring; one step takes {cls.nbytes(1)}")
        header = raw[: RING_HEADER.itemsize].view(RING_HEADER)
        header[:] = 0
        header["capacity"] = capacity
        return cls(memory)

    @classmethod
    def private(cls, capacity: int) -> "StepRing":
        """A ring in memory of this process alone."""
        return cls.create(np.zeros(cls.nbytes(capacity) // _WORD_BYTES, np.uint64))

    @property
    def state(self) -> RingState:
        """What the probe is doing."""
        return RingState(self._word("state"))

    @property
    def status(self) -> int:
        """CUresult of the call that failed; 0 if none did."""
        return self._word("status")

    @property
    def count(self) -> int:
        """Steps that have ended since the ring was created."""
        return int(_observed(self._count_address))

    @property
    def is_warm(self) -> bool:
        """Whether the probe is running and past its first steps."""
        return self.state is RingState.RUNNING and self.count >= self._word("warm")

    @property
    def stopping(self) -> bool:
        """Whether the probe was asked to end."""
        return bool(self._word("stop"))

    def stop(self) -> None:
        """Asks the probe to end after the step under way."""
        self._header["stop"] = 1

    def ends_between(self, begin_s: float, end_s: float) -> NDArray[np.float64]:
        """(n,) ends, in seconds of the monotonic clock, of the steps that ended within an interval, edges included.

        Raises:
            StepsLostError: newer steps have, or may have, overwritten some of them.
        """
        count = self.count
        oldest = max(count - self.capacity, 0)
        ends_s = self._times[np.arange(oldest, count) % self.capacity] / 1e9
        # Steps have ended since, and the loop may be writing the next one already.
        intact = max(self.count + 1 - self.capacity, 0)
        ends_s = ends_s[max(intact - oldest, 0) :]
        if intact and not (ends_s[:1] <= begin_s).any():
            hint = "read them sooner, or give the ring more steps"
            raise StepsLostError(f"the ring remembers {self.capacity} steps, not all of the interval", hint)
        first, last = np.searchsorted(ends_s, begin_s, "left"), np.searchsorted(ends_s, end_s, "right")
        return ends_s[first:last]

    def begin(self, warm_steps: int) -> None:
        """Tells readers that the probe runs, and how many of its next steps are not to be counted."""
        self._header["status"] = 0
        self._header["warm"] = self.count + warm_steps
        self._header["state"] = RingState.RUNNING

    def end(self, state: RingState, status: int = 0) -> None:
        """Tells readers that the probe runs no more, and why."""
        self._header["status"] = status
        self._header["state"] = state

    def append(self, end_ns: int) -> None:
        """Adds the end of a step, as the native loop does by itself."""
        count = self.count
        self._times[count % self.capacity] = end_ns
        _published(self._count_address, np.uint64(count + 1))

    def address_of(self, name: str) -> int:
        """Address of a word of the header, for native code."""
        assert RING_HEADER.fields is not None
        return self.address + RING_HEADER.fields[name][1]

    def _word(self, name: str) -> int:
        return int(self._header[name][0])


@native
def _observed(address: Any) -> Any:
    return observe(address)


@native
def _published(address: Any, value: Any) -> None:
    publish(address, value)
