"""Keys and seeds of the blocks of a sweep: equal for equal work, so that a resumed sweep knows what it has."""

import hashlib
from typing import Final

from pega_tune.autotune.layouts import SHUFFLED, NamedLayout
from pega_tune.kernels.shape import TransferShape
from pega_tune.profiles.policy.terms import Colocation

_PROCESS: Final = "/process-"


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


def block_seed(seed: int, key: str) -> int:
    """Seed of a block, 0 to 2^31 - 1, from the seed of the sweep."""
    digest = hashlib.sha256(f"{seed}/{key}".encode()).digest()
    return int.from_bytes(digest[:4], "big") >> 1
