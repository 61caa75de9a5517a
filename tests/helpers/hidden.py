"""Looks for the password of the tests' server wherever it should not be."""

import traceback
from collections.abc import Iterator
from pathlib import Path

from tests.helpers.places import Place
from tests.helpers.postgresql import Server

SECRET = "s3ntinel"
"""The part of the password that no encoding changes."""

_DEPTH = 4


def assert_hidden(folder: Path | None, server: Server, url: str) -> None:
    """The password is in no file of the user's, not in the server's log and in no row of the database."""
    for file in (path for path in folder.rglob("*") if path.is_file()) if folder else ():
        assert SECRET.encode() not in file.read_bytes(), file
    assert SECRET not in server.log.read_text(errors="replace")
    place = Place(url)
    for table in place.counts():
        assert SECRET not in repr(place.rows(f'SELECT * FROM "{table}"')), table


def assert_silent(error: BaseException) -> None:
    """An exception tells nobody: neither what is printed of it, nor what a debugger or a collector of errors sees."""
    assert SECRET not in "".join(traceback.format_exception(error))
    for what in _within(error, _DEPTH, set()):
        assert SECRET not in repr(what), f"{type(error).__name__} leads to a {type(what).__name__} with the password"


def _within(value: object, depth: int, seen: set[int]) -> Iterator[object]:
    """The object, and what can be reached from it by attributes; of exceptions also those that led to it."""
    if id(value) in seen or not depth:
        return
    seen.add(id(value))
    yield value
    inner = [*vars(value).values()] if hasattr(value, "__dict__") and not isinstance(value, type) else []
    if isinstance(value, BaseException):
        inner += [value.__cause__, value.__context__, *value.args]
    for each in inner:
        # A chain may be long, and each link of it counts as the first.
        yield from _within(each, _DEPTH if isinstance(each, BaseException) else depth - 1, seen)
