"""The only place that prints: the answer on stdout, everything else on stderr."""

import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, TextIO

from pega_tune.autotune.cli.advice import on_database
from pega_tune.autotune.cli.errors import Failure
from pega_tune.errors import DataError
from pega_tune.profiles.policy.urls import without_passwords


class StdoutClosedError(Exception):
    """Whoever read our answer has left."""


class Output:
    """Where answers, notes and errors go.

    Attributes:
        json: the answer, or the error, is one JSON document.
        terminal: somebody watches stderr, so that a line may be redrawn.
        columns: width of that terminal.
    """

    def __init__(self, *, json: bool, database: str | None = None) -> None:
        """Prints for a program that was called with `--json`, or not, and with `--db`, or None."""
        self.json = json
        self._database = database
        self._stdout_lost = sys.stdout is None
        self.terminal = sys.stderr is not None and sys.stderr.isatty()
        self.columns = os.get_terminal_size(sys.stderr.fileno()).columns or 80 if self.terminal else 80

    def answer(self, document: Mapping[str, Any], lines: Iterable[str]) -> None:
        """Prints the document in JSON mode, else the lines.

        Raises:
            StdoutClosedError: nobody reads it.
            DataError: it cannot be written.
        """
        text = json.dumps(document, indent=2, allow_nan=False) if self.json else "\n".join(lines)
        with self._reaching_stdout():
            print(text, flush=True)

    def write(self, content: bytes) -> None:
        """Writes what is no text; raises as `answer`."""
        with self._reaching_stdout():
            sys.stdout.buffer.write(content)
            sys.stdout.flush()

    @contextmanager
    def _reaching_stdout(self) -> Iterator[None]:
        try:
            yield
        except BrokenPipeError:
            self._give_up_stdout()
            raise StdoutClosedError from None
        except OSError as error:
            self._give_up_stdout()
            raise DataError(f"the answer cannot be written: {error.strerror}") from error

    def note(self, line: str, *, end: str = "\n") -> None:
        """Prints a line on stderr, if there is one; passwords in URLs are blotted out, and advice as `advised`."""
        with suppress(OSError):
            print(without_passwords(self.advised(line)), end=end, file=sys.stderr, flush=True)

    def advised(self, line: str) -> str:
        """The line with `--db` in the commands that it advises, if it was given: they work when pasted."""
        return on_database(line, self._database)

    def warn(self, line: str) -> None:
        """Prints a warning on stderr."""
        self.note(f"warning: {line}")

    def fail(self, failure: Failure) -> None:
        """Prints an error: a document on stdout in JSON mode, else, or if stdout takes nothing, one line on stderr."""
        if self.json and not self._stdout_lost:
            told = {"message": self.advised(failure.message), "hint": self.advised(failure.hint)}
            error = {"code": failure.code, **told}
            with suppress(StdoutClosedError, DataError):
                self.answer({"error": error}, ())
                return
        self.note("error: " + "; ".join(filter(None, (failure.message, failure.hint))))

    def _give_up_stdout(self) -> None:
        self._stdout_lost = True
        # The interpreter flushes stdout once more at exit and would complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def claim_stdout() -> None:
    """Keeps stdout for answers: what native code or a child process writes to descriptor 1 goes to stderr."""
    try:
        own = os.dup(1)
        os.dup2(2, 1)
    except OSError:  # stdout or stderr is closed: there is nothing to keep apart
        return
    sys.stdout = _text(own)


def _text(descriptor: int) -> TextIO:
    # An unprintable path or device name must not turn an answer into a traceback.
    return os.fdopen(descriptor, "w", encoding=sys.stdout.encoding, errors="backslashreplace")


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Lines of a table; nothing is wrapped or cut, so that an id can be copied or piped whole."""
    grid = [tuple(headings), *(tuple(row) for row in rows)]
    widths = [max(len(row[column]) for row in grid) for column in range(len(headings))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in grid]


def fields(pairs: Iterable[tuple[str, str]]) -> list[str]:
    """Lines of `name: value`, the values aligned; empty values are left out."""
    kept = [(name, value) for name, value in pairs if value]
    width = max((len(name) for name, _ in kept), default=0) + 1
    return [f"{name + ':':<{width}} {value}" for name, value in kept]
