"""JSON with one meaning, for what may come from anywhere."""

import json
from collections.abc import Callable
from itertools import pairwise
from typing import Any


def load(
    text: str,
    *,
    parse_int: Callable[[str], int] | None = None,
    parse_float: Callable[[str], float] | None = None,
    parse_constant: Callable[[str], float] | None = None,
) -> Any:
    """The value of a JSON text in which no object has a key twice.

    Args:
        text: how much it holds is bounded by the caller, before it is read.
        parse_int: as in `json.loads`.
        parse_float: likewise.
        parse_constant: likewise; without it, NaN and infinities are refused.

    Raises:
        ValueError: not JSON, or a key twice; or whatever the functions given raise.
        RecursionError: nested too deeply.
    """
    return json.loads(
        text,
        object_pairs_hook=_object,
        parse_int=parse_int,
        parse_float=parse_float,
        parse_constant=parse_constant or _refuse_constant,
    )


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) != len(pairs):
        names = sorted(name for name, _ in pairs)
        twice = next(name for name, after in pairwise(names) if name == after)
        raise ValueError(f"it has the key {twice[:40]!r} twice")
    return content


def _refuse_constant(word: str) -> float:
    raise ValueError(f"{word} is no number")
