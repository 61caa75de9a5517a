"""Streams with a priority, and events."""

from typing import Any, Final

from pega_tune.kernels.closing import Closing
from pega_tune.kernels.context import Call, call, release
from pega_tune.kernels.driver import NOT_READY, DriverCallError
from pega_tune.kernels.green_context import GreenContext
from pega_tune.kernels.stream_options import PriorityRange

_NON_BLOCKING: Final = 0x1  # CU_STREAM_NON_BLOCKING: does not wait for the legacy default stream
_TIMING: Final = 0x0  # CU_EVENT_DEFAULT
_BLOCKING: Final = 0x1  # CU_EVENT_BLOCKING_SYNC: whoever waits sleeps
_NO_TIMING: Final = 0x2  # CU_EVENT_DISABLE_TIMING


def priority_range(through: Call = call) -> PriorityRange:
    """The range of the current context; (0, 0) if the device knows no priorities."""
    return PriorityRange(*through("cuCtxGetStreamPriorityRange"))


def effective_priorities(through: Call = call) -> tuple[int, ...]:
    """The distinct priorities that streams really get in the current context, weakest first."""
    bounds = priority_range(through)
    found = []
    for priority in range(bounds.weakest, bounds.strongest - 1, -1):
        with Stream(priority, through=through) as stream:
            found.append(stream.priority)
    return tuple(dict.fromkeys(found))


class Stream(Closing):
    """A stream that does not wait for the legacy default stream.

    Attributes:
        handle: CUstream, for native code.
        priority: the effective one, read back from the driver.
    """

    def __init__(self, priority: int = 0, partition: GreenContext | None = None, through: Call = call) -> None:
        """Creates the stream.

        Args:
            priority: wanted; the driver clamps it without a word.
            partition: where its kernels run; None leaves them all SMs. Close the stream before it.
            through: what calls the driver.

        Raises:
            DriverCallError: there is no such stream.
        """
        self._call = through
        if partition is None:
            self._stream = through("cuStreamCreateWithPriority", _NON_BLOCKING, priority)
        else:
            self._stream = through("cuGreenCtxStreamCreate", partition.native, _NON_BLOCKING, priority)
        self.handle = int(self._stream)
        try:
            self.priority = int(through("cuStreamGetPriority", self._stream))
        except DriverCallError:
            self.close()
            raise

    @property
    def native(self) -> Any:
        """The stream as cuda.bindings has it."""
        return self._stream

    def close(self) -> None:
        """Destroys the stream; work in it still ends."""
        if self.handle:
            self.handle = 0
            release("cuStreamDestroy", self._stream, through=self._call)

    def synchronize(self) -> None:
        """Waits for all work in the stream.

        Raises:
            DriverCallError: some of it failed.
        """
        self._call("cuStreamSynchronize", self._stream)

    def copy_to_device(self, destination: int, source: int, nbytes: int) -> None:
        """Enqueues one DMA command from a host address to a device address."""
        self._call("cuMemcpyHtoDAsync", destination, source, nbytes, self._stream)

    def copy_to_host(self, destination: int, source: int, nbytes: int) -> None:
        """Enqueues one DMA command from a device address to a host address."""
        self._call("cuMemcpyDtoHAsync", destination, source, nbytes, self._stream)

    def set_bytes(self, destination: int, value: int, nbytes: int) -> None:
        """Enqueues filling device memory with one byte value."""
        self._call("cuMemsetD8Async", destination, value, nbytes, self._stream)

    def record(self, event: "Event") -> None:
        """Lets `event` happen when the work enqueued so far is done."""
        self._call("cuEventRecord", event.native, self._stream)


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
