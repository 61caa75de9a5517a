"""Who has the SMs: processes without MPS take turns, contexts of one process do not."""

from collections.abc import Callable
from enum import StrEnum
from typing import Final, Protocol

from pega_tune.autotune.sim.events import Simulation, Timer

_IDLE_S: Final = 1e-6  # without kernels before the turn is given away: the next one of a stream follows sooner


class Side(StrEnum):
    """The two users of a device."""

    DECODE = "decode"
    TRANSFER = "transfer"

    @property
    def other(self) -> "Side":
        """The other one."""
        return Side.TRANSFER if self is Side.DECODE else Side.DECODE


class Turns(Protocol):
    """Who may run kernels."""

    def has(self, side: Side) -> bool:
        """Whether a side's kernels run now."""

    def want(self, side: Side) -> None:
        """A side that had no kernels has some."""

    def leave(self, side: Side) -> None:
        """A side has no kernels any more."""


class Together:
    """One context, or MPS: kernels of both sides run side by side."""

    def has(self, side: Side) -> bool:  # noqa: ARG002
        """As `Turns.has`: always."""
        return True

    def want(self, side: Side) -> None:
        """As `Turns.want`: nothing to do."""

    def leave(self, side: Side) -> None:
        """As `Turns.leave`: nothing to do."""


class TimeSlices:
    """Separate processes: one side has the whole device at a time.

    A side keeps it while the other has no kernels. If both have, the turn changes when a slice has ended, or at once
    when the side whose turn it is runs out of kernels. Slices are counted from the moment at which a side begins to
    run, after a switch or after having been idle, and go on one after another if nobody else wants the device.
    """

    def __init__(self, simulation: Simulation, slice_s: float, switch_s: float, changed: Callable[[], None]) -> None:
        """Begins with nobody's kernels.

        Args:
            simulation: the clock.
            slice_s: length of a slice.
            switch_s: how long nobody runs when the turn changes.
            changed: called when `has` may have changed.
        """
        self._simulation: Final = simulation
        self._slice_s: Final = slice_s
        self._switch_s: Final = switch_s
        self._changed: Final = changed
        self._wanting: set[Side] = set()
        self._turn: Side | None = None
        self._began_s = 0.0
        self._switching = False
        self._end: Timer | None = None

    def has(self, side: Side) -> bool:
        """As `Turns.has`."""
        return side is self._turn and not self._switching

    def want(self, side: Side) -> None:
        """As `Turns.want`."""
        self._wanting.add(side)
        if self._turn is None:
            self._turn = side
        if side is self._turn:
            self._began_s = self._simulation.now_s
        self._consider()

    def leave(self, side: Side) -> None:
        """As `Turns.leave`."""
        self._wanting.discard(side)
        self._simulation.after(_IDLE_S, self._consider)

    def _consider(self) -> None:
        """Switches if it is time to, or sets the alarm for when it will be."""
        if self._end:
            self._end.cancel()
            self._end = None
        if self._switching or self._turn is None or self._turn.other not in self._wanting:
            return
        elapsed_s = self._simulation.now_s - self._began_s
        if self._turn not in self._wanting:
            self._switch()
        else:
            self._end = self._simulation.after(self._slice_s - elapsed_s % self._slice_s, self._switch)

    def _switch(self) -> None:
        self._end = None
        self._switching = True
        self._changed()
        self._simulation.after(self._switch_s, self._arrive)

    def _arrive(self) -> None:
        assert self._turn
        self._switching = False
        self._turn = self._turn.other
        self._began_s = self._simulation.now_s
        self._changed()
        self._consider()
