"""What a canary has found: the verdict on a profile, the shapes behind it, and why."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from pega_tune.autotune.verify.changes import ShapeChange, State
from pega_tune.kernels.facts import DeviceFacts
from pega_tune.kernels.plan import AnyPlan
from pega_tune.kernels.shape import TransferShape


class Verdict(StrEnum):
    """Whether a profile is still true. `INCONCLUSIVE`: nothing can be said, and the reasons say why."""

    HOLDS = "holds"
    DRIFTED = "drifted"
    INCONCLUSIVE = "inconclusive"


@dataclass(frozen=True, slots=True)
class CheckedCell:
    """One plan, or the contiguous copy, at one shape.

    Attributes:
        subject: what it counts for: a kind of plan, or `contiguous copy h2d` and the like.
        shape: what was moved.
        plan: how; None for the contiguous copy.
        change: of its time over the contiguous copy's; for that one, of its time in seconds. None if it could not be
            measured, now or then.
        state: what this shape alone says.
        detail: why it could not be measured, one line; empty if it was.
    """

    subject: str
    shape: TransferShape
    plan: AnyPlan | None
    change: ShapeChange | None
    state: State
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Verification:
    """The outcome of a canary.

    Attributes:
        profile_id: the profile.
        device: its device as it is now, with the link as it ran under load, if that was seen.
        stale: names of the staleness fields that have changed since the profile was measured.
        verdict: whether it is still true.
        reasons: why it is not, or why nothing can be said; what else is worth knowing.
        cells: what was compared.
        seconds: wall time of measuring.
        at: when it ended; aware, UTC.
    """

    profile_id: str
    device: DeviceFacts
    stale: tuple[str, ...]
    verdict: Verdict
    reasons: tuple[str, ...]
    cells: tuple[CheckedCell, ...]
    seconds: float
    at: datetime
