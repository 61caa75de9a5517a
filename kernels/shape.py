"""The shape of a transfer: what a policy can know about it without looking at its ranges."""

from dataclasses import dataclass
from enum import StrEnum

from pega_tune.errors import UsageError

MAX_BYTES = 2**62  # far past any device, well inside SQLite's and PostgreSQL's signed 64-bit integers


class Direction(StrEnum):
    """Which way a transfer moves; `BOTH` is a load and a save of the same shape at once."""

    H2D = "h2d"
    D2H = "d2h"
    BOTH = "both"

    @property
    def legs(self) -> "tuple[Direction, ...]":
        """The single directions that make up this one."""
        return (Direction.H2D, Direction.D2H) if self is Direction.BOTH else (self,)


@dataclass(frozen=True, slots=True, order=True)
class TransferShape:
    """Counts of one transfer; for `Direction.BOTH` they are the counts of *each* direction.

    Attributes:
        merged_ranges: ranges left after joining those adjacent on both sides, at least 1.
        total_bytes: bytes per direction, at least one per range.
        direction: which way.
        host_runs: runs left after joining ranges adjacent on the host side alone; None if unknown.
        alignment: largest power of two, at most 16, dividing every address and size; None if unknown.
        pitch: device stride in bytes if the ranges are one arithmetic progression; None if not, or unknown.
    """

    merged_ranges: int
    total_bytes: int
    direction: Direction = Direction.BOTH
    host_runs: int | None = None
    alignment: int | None = None
    pitch: int | None = None

    def __post_init__(self) -> None:
        if self.merged_ranges < 1:
            raise UsageError(f"a transfer has at least 1 range, not {self.merged_ranges}")
        if not 1 <= self.total_bytes <= MAX_BYTES:
            raise UsageError(f"a transfer has between 1 and 2^62 bytes, not {self.total_bytes}")
        if self.total_bytes < self.merged_ranges:
            raise UsageError(f"{self.merged_ranges} ranges need at least as many bytes, not {self.total_bytes}")

    @property
    def average_range_bytes(self) -> int:
        """Average range size in bytes, rounded down (at least 1)."""
        return self.total_bytes // self.merged_ranges

    @property
    def moved_bytes(self) -> int:
        """Bytes moved in all directions together."""
        return self.total_bytes * len(self.direction.legs)
