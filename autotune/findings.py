"""What the doctor says of one part."""

from dataclasses import dataclass
from enum import StrEnum


class Status(StrEnum):
    """How a part is; a sweep on a GPU needs that none has failed."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Finding:
    """What was found out about one part.

    Attributes:
        part: its name.
        status: how it is.
        detail: one line.
        hint: what to do; empty if nothing is to be done.
    """

    part: str
    status: Status
    detail: str
    hint: str = ""
