"""Streams with a priority, and events."""

from dataclasses import dataclass
from typing import Any, Final

from pega_tune.errors import UsageError
from pega_tune.kernels.closing import Closing
from pega_tune.kernels.context import call, release
from pega_tune.kernels.driver import NOT_READY, DriverCallError

_NON_BLOCKING: Final = 0x1  # CU_STREAM_NON_BLOCKING: does not wait for the legacy default stream
_TIMING: Final = 0x0  # CU_EVENT_DEFAULT
_BLOCKING: Final = 0x1  # CU_EVENT_BLOCKING_SYNC: whoever waits sleeps
_NO_TIMING: Final = 0x2  # CU_EVENT_DISABLE_TIMING


@dataclass(frozen=True, slots=True)
class PriorityRange:
    """The stream priorities of the current context; lower numbers are stronger.

    Attributes:
        weakest: numerically largest, usually 0.
        strongest: numerically smallest.
    """

    weakest: int
    strongest: int

    def require(self, priority: int) -> None:
        """Refuses what the driver would clamp without a word.

        Raises:
            UsageError: the priority is out of range.
        """
        if not self.strongest <= priority <= self.weakest:
            raise UsageError(
                f"stream priority {priority} is outside the device's range of {self.weakest} (weakest) "
                f"to {self.strongest} (strongest)"
            )


def priority_range() -> PriorityRange:
    """The range of the current context; (0, 0) if the device knows no priorities."""
    return PriorityRange(*call("cuCtxGetStreamPriorityRange"))


def effective_priorities() -> tuple[int, ...]:
    """The distinct priorities that streams really get in the current context, weakest first."""
    bounds = priority_range()
    found = []
    for priority in range(bounds.weakest, bounds.strongest - 1, -1):
        with Stream(priority) as stream:
            found.append(stream.priority)
    return tuple(dict.fromkeys(found))


class Stream(Closing):
    """A stream that does not wait for the legacy default stream.

    Attributes:
        handle: CUstream, for native code.
        priority: the effective one, read back from the driver.
    """

    def __init__(self, priority: int = 0) -> None:
        self._stream = call("cuStreamCreateWithPriority", _NON_BLOCKING, priority)
        self.handle = int(self._stream)
        self.priority = int(call("cuStreamGetPriority", self._stream))

    def close(self) -> None:
        """Destroys the stream; work in it still ends."""
        if self.handle:
            self.handle = 0
            release("cuStreamDestroy", self._stream)

    def synchronize(self) -> None:
        """Waits for all work in the stream.

        Raises:
            DriverCallError: some of it failed.
        """
        call("cuStreamSynchronize", self._stream)

    def copy_to_device(self, destination: int, source: int, nbytes: int) -> None:
        """Enqueues one DMA command from a host address to a device address."""
        call("cuMemcpyHtoDAsync", destination, source, nbytes, self._stream)

    def copy_to_host(self, destination: int, source: int, nbytes: int) -> None:
        """Enqueues one DMA command from a device address to a host address."""
        call("cuMemcpyDtoHAsync", destination, source, nbytes, self._stream)

    def set_bytes(self, destination: int, value: int, nbytes: int) -> None:
        """Enqueues filling device memory with one byte value."""
        call("cuMemsetD8Async", destination, value, nbytes, self._stream)

    def record(self, event: "Event") -> None:
        """Lets `event` happen when the work enqueued so far is done."""
        call("cuEventRecord", event.native, self._stream)


class Event(Closing):
    """Something that happens in a stream.

    Attributes:
        handle: CUevent, for native code.
    """

    def __init__(self, timing: bool = False, blocking: bool = False) -> None:
        """Creates the event.

        Args:
            timing: whether `elapsed_s` may use it; an event without timing is cheaper.
            blocking: whether who waits for it sleeps until the device interrupts, instead of spinning.
        """
        self._event = call("cuEventCreate", (_TIMING if timing else _NO_TIMING) | (_BLOCKING if blocking else 0))
        self.handle = int(self._event)

    @property
    def native(self) -> Any:
        """The event as cuda.bindings has it."""
        return self._event

    def close(self) -> None:
        """Destroys the event."""
        if self.handle:
            self.handle = 0
            release("cuEventDestroy", self._event)

    def happened(self) -> bool:
        """Whether everything before its last record is done; never waits.

        Raises:
            DriverCallError: some of it failed.
        """
        try:
            call("cuEventQuery", self._event)
        except DriverCallError as error:
            if error.status != NOT_READY:
                raise
            return False
        return True

    def synchronize(self) -> None:
        """Waits until it has happened.

        Raises:
            DriverCallError: the work before it failed.
        """
        call("cuEventSynchronize", self._event)


def elapsed_s(start: Event, end: Event) -> float:
    """Seconds between two events with timing that have both happened; the driver resolves about half a microsecond.

    Raises:
        DriverCallError: an event has no timing or has not happened.
    """
    milliseconds: float = call("cuEventElapsedTime", start.native, end.native)
    return milliseconds / 1000
