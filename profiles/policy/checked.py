"""Takes values out of a JSON document, and refuses those of another kind in one line.

Every function raises `PolicyFormatError`.
"""

from collections.abc import Callable, Iterable, Mapping
from reprlib import repr as shorten
from typing import Any, TypeVar

from pega_tune.errors import UsageError
from pega_tune.profiles.policy.errors import PolicyFormatError

T = TypeVar("T")


def check_keys(what: str, content: Mapping[str, Any], wanted: set[str] | frozenset[str]) -> None:
    """Refuses an object that lacks a key, or has one that nobody knows."""
    if missing := sorted(wanted - set(content)):
        raise PolicyFormatError(f"{what} lacks {', '.join(missing)}")
    if unknown := sorted(set(content) - wanted):
        raise PolicyFormatError(f"{what} has unknown {', '.join(map(shorten, unknown))}")


def each(what: str, entries: object, parse: Callable[[Any], T]) -> tuple[T, ...]:
    """Parses a list; an entry of the wrong type or value is named by its position."""
    parsed = []
    for index, entry in enumerate(list_of(f"{what}s", entries)):
        try:
            parsed.append(parse(entry))
        except (UsageError, PolicyFormatError) as error:
            raise PolicyFormatError(f"{what} {index}: {error.message}") from None
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise PolicyFormatError(f"{what} {index} is malformed: {error}") from None
    return tuple(parsed)


def select(what: str, indices: Iterable[Any], items: tuple[T, ...]) -> tuple[T, ...]:
    """The items at some indices."""
    return tuple([item(what, index, items) for index in indices])


def item(what: str, index: Any, items: tuple[T, ...]) -> T:
    """The item at an index, which is not negative."""
    if type(index) is int and 0 <= index < len(items):
        return items[index]
    raise PolicyFormatError(f"there is no {what} {whole(index)}")


def list_of(what: str, value: Any) -> list[Any]:
    """A list, as it is."""
    if not isinstance(value, list):
        raise PolicyFormatError(f"the {what} are not a list")
    return value


def whole(value: Any) -> int:
    """A whole number."""
    if type(value) is not int:  # neither True nor 1.0
        raise PolicyFormatError(f"{shorten(value)} is no whole number")
    return value


def text(value: Any) -> str:
    """A text."""
    if not isinstance(value, str):
        raise PolicyFormatError(f"{shorten(value)} is no text")
    return value


def number(value: Any) -> float:
    """A number, as a float."""
    if type(value) not in (int, float):
        raise PolicyFormatError(f"{shorten(value)} is no number")
    return float(value)
