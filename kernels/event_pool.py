"""Events that programs take and give back."""

from collections.abc import Callable, Iterable
from typing import Protocol

from pega_tune.kernels.closing import Closing
from pega_tune.kernels.stream import Event


class PooledEvent(Protocol):
    """An event without timing."""

    @property
    def handle(self) -> int:
        """CUevent."""

    def close(self) -> None:
        """Destroys it."""


class EventPool(Closing):
    """Makes events when none are free, and destroys them only when it is closed. It is not thread-safe.

    See `EventSource`.
    """

    def __init__(self, create: Callable[[], PooledEvent] = Event) -> None:
        """Starts empty.

        Args:
            create: makes an event in the current context.
        """
        self._create = create
        self._all: list[PooledEvent] = []
        self._free: list[int] = []

    def __len__(self) -> int:
        """Events made so far."""
        return len(self._all)

    def take(self) -> int:
        """As `EventSource.take`."""
        if self._free:
            return self._free.pop()
        event = self._create()
        self._all.append(event)
        return event.handle

    def give_back(self, events: Iterable[int]) -> None:
        """As `EventSource.give_back`."""
        self._free += events

    def close(self) -> None:
        """Destroys all events, those taken too."""
        self._free.clear()
        while self._all:
            self._all.pop().close()
