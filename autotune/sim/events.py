"""The event core: a clock that jumps from event to event, processes that wait, and amounts that are worked off."""

from collections.abc import Callable, Generator
from heapq import heappop, heappush
from itertools import count
from typing import Final, TypeAlias, Union

Action: TypeAlias = Callable[[], None]
Process: TypeAlias = Generator[Union[float, "Event"], None, None]
"""Yields a delay in seconds, or an event to wait for."""


class Timer:
    """An action that is due; it can be called off."""

    __slots__ = ("action",)

    def __init__(self, action: Action) -> None:
        self.action: Action | None = action

    def cancel(self) -> None:
        """Calls it off; nothing happens if it has been done."""
        self.action = None


class Simulation:
    """Time, and what is due.

    What is due at the same time is done in the order in which it was asked for.

    Attributes:
        now_s: seconds since the beginning; never goes back.
    """

    def __init__(self) -> None:
        self.now_s = 0.0
        self._due: list[tuple[float, int, Timer]] = []
        self._order: Final = count()

    def after(self, delay_s: float, action: Action) -> Timer:
        """Does something a while later.

        Raises:
            ValueError: the delay is negative, or not a number.
        """
        if not delay_s >= 0:
            raise ValueError(f"nothing happens {delay_s} s from now")
        timer = Timer(action)
        heappush(self._due, (self.now_s + delay_s, next(self._order), timer))
        return timer

    def start(self, process: Process) -> "Event":
        """Runs a process up to its first wait, and on from there as time goes by.

        Returns:
            What happens when it has ended.
        """
        ended = Event(self)

        def resume() -> None:
            try:
                awaited = next(process)
            except StopIteration:
                ended.fire()
                return
            if isinstance(awaited, Event):
                awaited.then(resume)
            else:
                self.after(awaited, resume)

        resume()
        return ended

    def first(self, event: "Event", delay_s: float) -> "Event":
        """What happens when an event does, or after a while, whichever comes first."""
        either = Event(self)
        event.then(either.fire)
        self.after(delay_s, either.fire)
        return either

    def run(self, until: "Event") -> None:
        """Goes on until an event has happened.

        Raises:
            RuntimeError: nothing is left to be done, and it has not.
        """
        while not until.happened:
            if not self._due:
                raise RuntimeError("everything waits, and nothing is due")
            self.now_s, _, timer = heappop(self._due)
            if timer.action:
                timer.action()


class Event:
    """Something that happens once.

    Attributes:
        happened: whether it has.
    """

    __slots__ = ("_simulation", "_waiting", "happened")

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self._waiting: list[Action] = []
        self.happened = False

    def fire(self) -> None:
        """Lets it happen; a second time changes nothing."""
        if self.happened:
            return
        self.happened = True
        for action in self._waiting:
            self._simulation.after(0.0, action)

    def then(self, action: Action) -> None:
        """Does something when it happens, or now if it has."""
        if self.happened:
            self._simulation.after(0.0, action)
        else:
            self._waiting.append(action)


class Fluid:
    """An amount that is worked off at a rate which may change.

    Attributes:
        amount: in units of its own.
        done: happens when nothing is left.
    """

    __slots__ = ("_left", "_rate", "_simulation", "_since_s", "_timer", "amount", "done")

    def __init__(self, simulation: Simulation, amount: float) -> None:
        self._simulation = simulation
        self._left = amount
        self._rate = 0.0
        self._since_s = simulation.now_s
        self._timer: Timer | None = None
        self.amount: Final = amount
        self.done: Final = Event(simulation)

    @property
    def left(self) -> float:
        """What is still to be done."""
        return max(0.0, self._left - self._rate * (self._simulation.now_s - self._since_s))

    def set_rate(self, rate: float) -> None:
        """Goes on at so many units per second; 0 holds it."""
        if rate == self._rate or self.done.happened:
            return
        self._left, self._since_s, self._rate = self.left, self._simulation.now_s, rate
        if self._timer:
            self._timer.cancel()
        self._timer = self._simulation.after(self._left / rate, self._finish) if rate > 0 else None

    def _finish(self) -> None:
        self._left = self._rate = 0.0
        self.done.fire()
