"""Single values of a bundle: each of its one type and within its limits, or refused by name."""

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from pega_tune.profiles.bundle.errors import BundleError
from pega_tune.profiles.bundle.strict_json import MAX_INTEGER

LONGEST_TEXT = 2000

_ID = re.compile(r"[0-9A-Za-z_-]{1,64}", re.ASCII)
_SHA256 = re.compile(r"[0-9a-f]{64}", re.ASCII)


def mapping(what: str, value: Any, keys: Iterable[str]) -> Mapping[str, Any]:
    """An object with exactly these keys."""
    if not isinstance(value, dict):
        raise BundleError(f"{what} is no JSON object")
    wanted = set(keys)
    if missing := sorted(wanted - set(value)):
        raise BundleError(f"{what} lacks {', '.join(missing)}")
    if unknown := sorted(set(value) - wanted):
        raise BundleError(f"{what} has unknown {', '.join(repr(key[:40]) for key in unknown[:4])}")
    return value


def whole(what: str, value: Any, low: int, high: int = MAX_INTEGER) -> int:
    """A whole number between two, both included."""
    if type(value) is not int or not low <= value <= high:  # neither True nor 1.0
        raise BundleError(f"{what} is a whole number of {low} to {high}")
    return value


def text(what: str, value: Any, longest: int = LONGEST_TEXT) -> str:
    """Printable text: nothing in it steers a terminal, and every database takes it."""
    if not isinstance(value, str) or len(value) > longest or not value.isprintable():
        raise BundleError(f"{what} is printable text of at most {longest} characters")
    return value


def identifier(what: str, value: Any) -> str:
    """An id, safe wherever it is shown."""
    if not isinstance(value, str) or not _ID.fullmatch(value):
        raise BundleError(f"{what} is 1 to 64 letters, digits, - and _")
    return value


def sha256(what: str, value: Any) -> str:
    """A digest in lower-case hex."""
    if not isinstance(value, str) or not _SHA256.fullmatch(value):
        raise BundleError(f"{what} is 64 lower-case hex digits")
    return value


def moment(what: str, value: Any) -> datetime:
    """A time in UTC, spelt as `spell_moment` does."""
    try:
        read = datetime.fromisoformat(value).astimezone(UTC)
        if spell_moment(read) == value:
            return read
    except (TypeError, ValueError, OverflowError):
        pass
    raise BundleError(f"{what} is a time such as 2026-11-30T12:00:00.000000+00:00")


def spell_moment(value: datetime) -> str:
    """An aware time as ISO 8601, in UTC with microseconds."""
    return value.astimezone(UTC).isoformat(timespec="microseconds")
