"""Keys and seeds of the blocks of a sweep: equal for equal work, so that a resumed sweep knows what it has."""

import hashlib
from typing import Final

from pega_tune.autotune.layouts import SHUFFLED, NamedLayout
from pega_tune.errors import UsageError
from pega_tune.kernels.shape import Direction, TransferShape
from pega_tune.profiles.policy.terms import Colocation, Hint

_PROCESS: Final = "/process-"
_CONFIRM: Final = "confirm/"


def block_key(shape: TransferShape, colocation: Colocation, layout: NamedLayout = SHUFFLED) -> str:
    """Names a block within its sweep: `idle/h2d/16384x67108864`, merged ranges x bytes per direction.

    A layout in which ranges are not shuffled on both sides comes behind: `time-sliced/both/16384x67108864/strided`.
    """
    key = f"{colocation}/{shape.direction}/{shape.merged_ranges}x{shape.total_bytes}"
    return key if layout == SHUFFLED else f"{key}/{layout}"


def final_key(survey: str, process: int) -> str:
    """Names the block of a survey's finalists in a process of their own, from 1."""
    return f"{survey}{_PROCESS}{process}"


def survey_key(key: str) -> str:
    """The survey that a serving block belongs to: itself, or that of its finalists."""
    return key.partition(_PROCESS)[0]


def is_final(key: str) -> bool:
    """Whether a block holds the finalists of a survey."""
    return _PROCESS in key


def confirm_key(direction: Direction, number: int, hint: Hint = Hint.NONE) -> str:
    """Names a block of the second pass, from 1: which shape it is of follows from the blocks of the first one."""
    return f"{_CONFIRM}{direction}/{number}" if hint is Hint.NONE else f"{_CONFIRM}{direction}/{hint}/{number}"


def confirms(key: str) -> bool:
    """Whether a block belongs to the second pass: nothing is learnt from it but whether the first one holds."""
    return key.startswith(_CONFIRM)


def layout_of(key: str) -> NamedLayout:
    """How the ranges lie in the idle block of this key.

    Raises:
        UsageError: the key names no layout that there is.
    """
    parts = key.split("/")
    return NamedLayout.parse(parts[3]) if len(parts) > 3 else SHUFFLED


def is_idle(key: str) -> bool:
    """Whether a block of the first pass measured transfers alone."""
    return key.startswith(f"{Colocation.IDLE}/")


def shape_of(key: str) -> TransferShape:
    """What an idle block of this key moved, with what its layout tells.

    Raises:
        UsageError: the key is none of an idle block.
    """
    try:
        _, direction, counts = key.split("/")[:3]
        ranges, total_bytes = map(int, counts.split("x"))
        plain = TransferShape(ranges, total_bytes, Direction(direction))
    except ValueError:
        raise UsageError(f"{key!r} names no block of transfers alone") from None
    return layout_of(key).described(plain)


def block_seed(seed: int, key: str) -> int:
    """Seed of a block, 0 to 2^31 - 1, from the seed of the sweep."""
    digest = hashlib.sha256(f"{seed}/{key}".encode()).digest()
    return int.from_bytes(digest[:4], "big") >> 1
