"""Named layouts: how the ranges of a transfer lie to each other, in a word that fits on a command line."""

from dataclasses import dataclass, replace
from enum import StrEnum

from pega_tune.errors import UsageError
from pega_tune.kernels.shape import TransferShape

STRIDE_RANGES = 2
"""Device stride of a strided layout, in ranges, as in pegaflow's benchmark `transfer_h2d` (`strided_device`)."""

_HINT = "choose one of: contiguous, strided, shuffled, host-ordered, runs:N"


class LayoutKind(StrEnum):
    """What is known about the order of the ranges.

    `CONTIGUOUS`: side by side and in order on both sides, so that they merge into one. `STRIDED`: side by side on the
    host, every second slot on the device. `SHUFFLED`: in random order on both sides. `HOST_ORDERED`: in random order
    on the device, in one run and in order on the host. `HOST_RUNS`: in random order on the device, in a number of
    runs on the host, which come in random order.
    """

    CONTIGUOUS = "contiguous"
    STRIDED = "strided"
    SHUFFLED = "shuffled"
    HOST_ORDERED = "host-ordered"
    HOST_RUNS = "runs"


@dataclass(frozen=True, slots=True)
class NamedLayout:
    """A layout of equal ranges.

    Attributes:
        kind: their order.
        runs: number of host runs, of `HOST_RUNS` alone; None for the others.
    """

    kind: LayoutKind = LayoutKind.SHUFFLED
    runs: int | None = None

    def __post_init__(self) -> None:
        if (self.kind is LayoutKind.HOST_RUNS) != (self.runs is not None):
            raise UsageError("a number of runs belongs to the layout runs:N, and to it alone", _HINT)
        if self.runs is not None and self.runs < 1:
            raise UsageError(f"a layout has at least 1 host run, not {self.runs}")

    def __str__(self) -> str:
        return str(self.kind) if self.runs is None else f"{self.kind}:{self.runs}"

    @classmethod
    def parse(cls, text: str) -> "NamedLayout":
        """From `contiguous`, `strided`, `shuffled`, `host-ordered` or `runs:N`.

        Raises:
            UsageError: it is none of them.
        """
        word, colon, count = text.partition(":")
        if word not in tuple(LayoutKind) or (colon and not (count.isascii() and count.isdecimal())):
            raise UsageError(f"there is no layout {text!r}", _HINT)
        return cls(LayoutKind(word), int(count) if colon else None)

    @classmethod
    def fitting(cls, shape: TransferShape) -> "NamedLayout":
        """The layout that has what is known of a shape's host runs and pitch."""
        if shape.pitch is not None:
            return cls(LayoutKind.STRIDED)
        if shape.host_runs is None:
            return cls()
        return cls(LayoutKind.HOST_ORDERED) if shape.host_runs == 1 else cls(LayoutKind.HOST_RUNS, shape.host_runs)

    def described(self, shape: TransferShape) -> TransferShape:
        """The shape with what the layout tells about host runs and pitch, which is nothing if ranges are shuffled.

        Raises:
            UsageError: the shape has fewer ranges than the layout has runs, or ranges too unequal for a stride.
        """
        match self.kind:
            case LayoutKind.SHUFFLED:
                return replace(shape, host_runs=None, pitch=None)
            case LayoutKind.STRIDED:
                if shape.total_bytes % shape.merged_ranges:
                    raise UsageError("strided ranges are equal: give bytes that the number of ranges divides")
                return replace(shape, host_runs=1, pitch=STRIDE_RANGES * shape.average_range_bytes)
            case LayoutKind.HOST_RUNS if self.runs is not None and self.runs > shape.merged_ranges:
                raise UsageError(f"{shape.merged_ranges} ranges do not make {self.runs} host runs")
        return replace(shape, host_runs=self.runs or 1, pitch=None)

    def merged(self, shape: TransferShape) -> TransferShape:
        """As `described`, once ranges that are adjacent on both sides have been joined."""
        described = self.described(shape)
        return replace(described, merged_ranges=1, pitch=None) if self.kind is LayoutKind.CONTIGUOUS else described


SHUFFLED = NamedLayout()
HOST_ORDERED = NamedLayout(LayoutKind.HOST_ORDERED)
STRIDED = NamedLayout(LayoutKind.STRIDED)
