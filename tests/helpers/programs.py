"""What programs are made with in tests."""

from collections.abc import Iterable

from pega_tune.kernels.driver import DriverTable
from pega_tune.kernels.executor import Execution, Progress
from pega_tune.kernels.program import Program, Route
from pega_tune.kernels.waiting import wait_all

STREAM, SIDE_STREAM = 2**63 + 99, 2**63 + 98
FIRST_EVENT = 2**63 + 1000


class CountedEvents:
    """Hands out event handles in order, and knows which are taken."""

    def __init__(self) -> None:
        self.made = 0
        self.taken: set[int] = set()
        self._free: list[int] = []

    def take(self) -> int:
        if self._free:
            event = self._free.pop()
        else:
            event = FIRST_EVENT + self.made
            self.made += 1
        self.taken.add(event)
        return event

    def give_back(self, events: Iterable[int]) -> None:
        for event in events:
            self.taken.remove(event)
            self._free.append(event)


def route(start: int | None = None, end: int | None = None) -> Route:
    """A route with events of its own."""
    return Route(STREAM, SIDE_STREAM, CountedEvents(), start, end)


def run(table: DriverTable, program: Program) -> None:
    """Runs a program to its end."""
    wait_all(table, [Execution(table, program)])


def submit(table: DriverTable, program: Program) -> Progress:
    """Submits a program up to its first barrier that is shut, or to where it first gives way."""
    return Execution(table, program).advance()
