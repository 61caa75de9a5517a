"""How measuring is going, on stderr: one line redrawn on a terminal, a plain line every few seconds elsewhere."""

import math
import time
from collections.abc import Callable

from pega_tune.autotune.cli.output import Output
from pega_tune.autotune.cli.units import format_duration
from pega_tune.autotune.sweep.events import (
    ROOM,
    BlockFinished,
    BlockSkipped,
    CellFailed,
    SweepEvent,
    SweepFinished,
    SweepStarted,
)

PLAIN_LINE_EVERY_S = 5.0
_BAR_WIDTH = 24


class Progress:
    """Prints the events of a sweep as they come."""

    def __init__(self, output: Output, clock: Callable[[], float] = time.monotonic) -> None:
        """Takes the printer, and a clock in seconds."""
        self._output = output
        self._clock = clock
        self._last_line_s = -PLAIN_LINE_EVERY_S
        self._line = _Line(output)

    def show(self, event: SweepEvent) -> None:
        """Tells of one event."""
        match event:
            case SweepStarted():
                self._say(_start(event))
            case BlockFinished():
                self._advance(event)
            case BlockSkipped():
                self._say(f"skipped {event.key}: {event.reason}")
            case CellFailed():
                self._say(f"{event.key}: {event.candidate}: {event.status}{event.detail and f' ({event.detail})'}")
            case SweepFinished():
                self.end()

    def end(self) -> None:
        """Leaves the terminal in order."""
        self._line.end()

    def _say(self, line: str) -> None:
        self.end()
        self._output.note(line)

    def _advance(self, event: BlockFinished) -> None:
        ratio = "" if event.ratio_to_ceiling is None else f", {event.ratio_to_ceiling:.2f} of one contiguous copy"
        best = f"{event.key}: {event.best}{ratio}" if event.best else f"{event.key}: nothing could be measured"
        if self._output.terminal:
            self._line.draw(f"{_bar(event.number, event.of)} {event.number}/{event.of}  {best}")
            return
        now_s = self._clock()
        if now_s - self._last_line_s >= PLAIN_LINE_EVERY_S or event.number == event.of:
            self._last_line_s = now_s
            self._output.note(f"block {event.number}/{event.of} after {format_duration(event.elapsed_s)}: {best}")


class StepProgress:
    """Counts steps; how many there are is told before the first one."""

    def __init__(self, output: Output, clock: Callable[[], float] = time.monotonic) -> None:
        """Takes the printer, and a clock in seconds."""
        self._output = output
        self._total = 0
        self._clock = clock
        self._done = 0
        self._begin_s = self._last_line_s = clock()
        self._line = _Line(output)

    def expect(self, total: int) -> None:
        """Sets the number of steps."""
        self._total = total

    def step(self, what: str) -> None:
        """Tells that one more is done; a step that had to be repeated does not count past the end."""
        self._done = min(self._done + 1, self._total)
        if self._output.terminal:
            self._line.draw(f"{_bar(self._done, self._total)} {self._done}/{self._total}  {what}")
            return
        now_s = self._clock()
        if now_s - self._last_line_s >= PLAIN_LINE_EVERY_S:
            self._last_line_s = now_s
            elapsed = format_duration(now_s - self._begin_s)
            self._output.note(f"step {self._done}/{self._total} after {elapsed}: {what}")

    def close(self) -> None:
        """Leaves the terminal in order."""
        self._line.end()


class _Line:
    """A line of the terminal that is drawn again and again."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self._drawn = 0

    def draw(self, line: str) -> None:
        # Blanks instead of an escape code wipe the old line on every kind of terminal.
        shown = line[: self._output.columns - 1]
        self._output.note("\r" + shown.ljust(self._drawn), end="")
        self._drawn = len(shown)

    def end(self) -> None:
        if self._drawn:
            self.draw("")
            self._output.note("\r", end="")


def _bar(done: int, total: int) -> str:
    width = _BAR_WIDTH * done // max(total, 1)
    return f"[{'#' * width}{'.' * (_BAR_WIDTH - width)}]"


def _start(event: SweepStarted) -> str:
    to_do = event.blocks - event.finished
    resumed = f" ({event.finished} are there already)" if event.finished else ""
    limit = f"begins nothing new after {format_duration(event.budget_s)}"
    if event.estimate_s > event.budget_s:
        limit += f", so that it will be partial (--budget {math.ceil(ROOM * event.estimate_s)}s would do)"
    about = f"about {format_duration(event.estimate_s)}, {limit}" if event.estimate_s else limit
    return f"sweep {event.sweep_id}: {to_do} of {event.blocks} blocks to measure{resumed}; {about}"
