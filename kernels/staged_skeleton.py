"""The program of a staged transfer, kept to be filled in again and again: an engine runs the same plan all day."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from pega_tune.kernels.chunks import CopyColumns
from pega_tune.kernels.commands import WORDS, Op
from pega_tune.kernels.program import Lease, Program, ProgramBuilder, Route
from pega_tune.kernels.ranges import Addresses, Ids
from pega_tune.kernels.staged_commands import Dma
from pega_tune.kernels.staged_launches import Launches
from pega_tune.kernels.staged_leg import StagedLeg

_EVENT: Final = 2  # word of the commands that have one
_EVENT_OPS: Final = (Op.RECORD, Op.AWAIT, Op.BARRIER)

Compiler = Callable[[ProgramBuilder], tuple[Launches, Sequence[Dma]]]
"""Gives a builder all commands; its launches, and the DMA of every leg."""


@dataclass(frozen=True, slots=True, eq=False)
class _Layout:
    """How the schedule of a leg must be for the commands to do.

    Attributes:
        slots: slots of the ring.
        groups: how many groups.
        buffers: of the schedule, which the commands refer to.
        part_groups: (p,) groups before the end of each part.
        rows: (g,) the command for each group.
    """

    slots: int
    groups: int
    buffers: CopyColumns
    part_groups: Ids
    rows: Ids

    @classmethod
    def of(cls, dma: Dma) -> "_Layout":
        """The layout of what has been enqueued."""
        schedule, rows = dma.leg.schedule, np.array(dma.rows, np.int64)
        return cls(dma.slots, len(rows), schedule.buffers, schedule.group_part_ends.copy(), rows)

    def arm(self, leg: StagedLeg, words: Addresses) -> bool:
        """Tells the commands what has been planned; False if it is laid out otherwise."""
        schedule = leg.schedule
        _, groups, parts = schedule.counts
        if groups != self.groups or parts != len(self.part_groups) or schedule.buffers is not self.buffers:
            return False
        return schedule.ring.slots == self.slots and leg.arm(words, self.rows, self.part_groups)


class StagedSkeleton:
    """The commands for one plan, one route, and one layout of groups and parts.

    All its programs share their commands: a new one overwrites those of the last one, whose lease has been revoked.
    """

    def __init__(self, plan: object, route: Route, compile_commands: Compiler) -> None:
        """Compiles once.

        Args:
            plan: a plan, or a pair of them.
            route: where the commands go.
            compile_commands: for the schedules that the legs have now.
        """
        self._plan: Final = plan
        self._route: Final = route
        builder = ProgramBuilder(route)
        launches, ways = compile_commands(builder)
        self._layouts: Final = [_Layout.of(dma) for dma in ways]
        program = builder.finish()
        launches.attach(program)
        self._commands: Final = program.commands
        self._words: Final = np.frombuffer(program.commands, np.uint64)
        self._keep: Final = (*program.keep, launches.pieces)
        self._streams: Final = program.streams
        self._end = program.end
        self._events = program.events
        self._unused = True
        self._uses: Final = _uses(self._words, program.events)

    def arm(self, plan: object, route: Route, legs: Sequence[StagedLeg]) -> bool:
        """Tells the commands what the legs have planned; False if they are not for that."""
        if not (_same(plan, self._plan) and _same(route, self._route)):
            return False
        return all(layout.arm(leg, self._words) for layout, leg in zip(self._layouts, legs, strict=True))

    def program(self, legs: Sequence[StagedLeg], lease: Lease) -> Program:
        """The program, armed before, with events of its own."""
        if self._unused:
            self._unused = False
        elif self._events:
            self._take_events()
        keep: tuple[Any, ...] = (self._keep, *(leg.keep for leg in legs))
        return Program(self._commands, self._end, keep, self._events, lease, self._streams)

    def _take_events(self) -> None:
        take = self._route.events.take
        # Which one serves for what does not matter; in this order they are mostly those of the last time.
        events = tuple(sorted([take() for _ in self._events]))
        if events == self._events:
            return
        for word, index in self._uses:
            self._words[word] = events[index]
        if self._route.end is None:
            self._end = events[self._events.index(self._end)]
        self._events = events


def _same(one: object, other: object) -> bool:
    """Whether two are equal; mostly they are one, which is found out in no time."""
    return one is other or one == other


def _uses(words: Addresses, events: Sequence[int]) -> list[tuple[int, int]]:
    """For every use of one of the events its word, and which event it is."""
    places = {event: index for index, event in enumerate(events)}
    rows = enumerate(words.reshape(-1, WORDS).tolist())
    return [
        (number * WORDS + _EVENT, places[row[_EVENT]])
        for number, row in rows
        if row[0] in _EVENT_OPS and row[_EVENT] in places
    ]
