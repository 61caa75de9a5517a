"""A copy engine: commands one after another, and the few bytes of a decode step in between."""

from collections import deque
from typing import Final, NamedTuple

from pega_tune.autotune.sim.events import Event, Process, Simulation
from pega_tune.autotune.sim.link import Flow, Link
from pega_tune.autotune.sim.stages import Copy


class Occupied(NamedTuple):
    """A while in which one command had the engine, in seconds."""

    begin_s: float
    end_s: float


class Work(NamedTuple):
    """What an engine is at.

    Attributes:
        copy: the commands.
        flow: their bytes.
        ended: happens when they have ended.
        idle: happens when nothing is queued behind them any more.
    """

    copy: Copy
    flow: Flow
    ended: Event
    idle: Event


class CopyEngine:
    """Takes commands in the order in which they come.

    Attributes:
        work: what it is at; None if it is idle.
        log: what it did, in order.
    """

    def __init__(self, simulation: Simulation, link: Link) -> None:
        self._simulation: Final = simulation
        self._link: Final = link
        self._queue: deque[tuple[Copy, Event]] = deque()
        self._interrupted = False
        self._began_s = 0.0
        self.work: Work | None = None
        self.log: Final[list[Occupied]] = []

    def submit(self, copy: Copy) -> Event:
        """Queues commands.

        Returns:
            Their end.
        """
        ended = Event(self._simulation)
        self._queue.append((copy, ended))
        self._go_on(Event(self._simulation))
        return ended

    def interrupt(self, duration_s: float) -> Process:
        """Takes a small copy of somebody else's at once; what it is at goes on afterwards."""
        self._interrupted = True
        held = self.work.flow if self.work else None
        if held:
            self._link.hold(held, True)
            self._note()
        self._began_s = self._simulation.now_s
        yield duration_s
        self._note()
        self._interrupted = False
        if held:
            self._link.hold(held, False)
        self._go_on(Event(self._simulation))

    def _go_on(self, idle: Event) -> None:
        if self._interrupted or self.work or not self._queue:
            return
        copy, ended = self._queue.popleft()
        flow = self._link.begin(copy.load)
        self._began_s = self._simulation.now_s
        self.work = Work(copy, flow, ended, idle)
        flow.done.then(self._end)

    def _end(self) -> None:
        assert self.work
        _, _, ended, idle = self.work
        self._note()
        self.work = None
        ended.fire()
        self._go_on(idle)
        if not self.work:
            idle.fire()

    def _note(self) -> None:
        now_s = self._simulation.now_s
        if now_s > self._began_s:
            self.log.append(Occupied(self._began_s, now_s))
        self._began_s = now_s
