"""What a running sweep reports: plain data, in the order it happens."""

from dataclasses import dataclass
from typing import Final, TypeAlias

from pega_tune.profiles.policy.terms import ProfileState

ROOM: Final = 1.1
"""Of the time that blocks should take, what they are given: estimates are rough."""


@dataclass(frozen=True, slots=True)
class SweepStarted:
    """The plan is made and stored; measuring begins.

    Attributes:
        sweep_id: names the sweep from now on.
        blocks: blocks of the whole sweep.
        finished: those of them that an earlier run has stored.
        estimate_s: time that the others should take, in seconds.
        budget_s: time after which no block is started, in seconds.
    """

    sweep_id: str
    blocks: int
    finished: int
    estimate_s: float
    budget_s: float


@dataclass(frozen=True, slots=True)
class CellFailed:
    """A candidate of the block that has just ended could not be measured.

    Attributes:
        key: of the block.
        candidate: its name.
        status: `mismatch`, `unsupported`, `crashed`, `timed-out` or `invalid`.
        detail: why, one line.
    """

    key: str
    candidate: str
    status: str
    detail: str


@dataclass(frozen=True, slots=True)
class BlockFinished:
    """A block is stored.

    Attributes:
        number: of this block, from 1, those of earlier runs counted.
        of: blocks of the whole sweep.
        key: of the block.
        best: name of the candidate with the least median transfer time, or beside decode the least median stall; None
            if none could be measured.
        ratio_to_ceiling: its speed over that of one contiguous copy per direction; None without a ceiling, as beside
            decode.
        elapsed_s: since this run began, in seconds.
    """

    number: int
    of: int
    key: str
    best: str | None
    ratio_to_ceiling: float | None
    elapsed_s: float


@dataclass(frozen=True, slots=True)
class BlockSkipped:
    """A block could not be measured; the sweep goes on without it.

    Attributes:
        key: of the block.
        reason: why, one line.
    """

    key: str
    reason: str


@dataclass(frozen=True, slots=True)
class SweepFinished:
    """Everything is stored; nothing follows.

    Attributes:
        sweep_id: the sweep.
        profile_id: what it learnt; None if that is too little for a single table.
        state: whether `Auto` may use it.
        reasons: why it is not published; if it is, what it knows nothing of.
        blocks: blocks stored, all runs of the sweep together.
        cells: candidates in them.
        seconds: wall time, all runs of the sweep together.
        lost: what could not be measured of blocks that were: a line each, as `sweep.losses` makes them.
    """

    sweep_id: str
    profile_id: str | None
    state: ProfileState
    reasons: tuple[str, ...]
    blocks: int
    cells: int
    seconds: float
    lost: tuple[str, ...] = ()


SweepEvent: TypeAlias = SweepStarted | CellFailed | BlockFinished | BlockSkipped | SweepFinished
