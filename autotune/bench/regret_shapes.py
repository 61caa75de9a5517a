"""Shapes that a sweep has never seen, drawn from a seed, and how their ranges lie."""

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Final

from pega_tune.autotune.layouts import SHUFFLED, LayoutKind, NamedLayout
from pega_tune.kernels.shape import Direction, TransferShape

RANGE_OCTAVES: Final = (0, 16)  # 1 to 65,536 ranges
SIZE_OCTAVES: Final = (8, 22)  # 256 B to 4 MiB each
MOST_BYTES: Final = 512 << 20  # per direction
ALIGNMENT: Final = 16  # of every address and size: no element of a KV cache is smaller, times its head dimension
RANGES_PER_RUN: Final = 16


@dataclass(frozen=True, slots=True)
class HeldOut:
    """A shape, and how its ranges lie.

    Attributes:
        shape: with all that is known of them: host runs, pitch, alignment.
        layout: how they are laid out.
    """

    shape: TransferShape
    layout: NamedLayout

    @property
    def key(self) -> str:
        """`h2d/1234x43210/strided`: direction, ranges, bytes per direction, layout."""
        return f"{self.shape.direction}/{self.shape.merged_ranges}x{self.shape.total_bytes}/{self.layout}"

    @classmethod
    def laid_out(cls, shape: TransferShape, layout: NamedLayout) -> "HeldOut":
        """With what the layout tells.

        Raises:
            UsageError: the shape cannot have that layout.
        """
        return cls(layout.described(shape), layout)

    @classmethod
    def of_user(cls, shape: TransferShape) -> "HeldOut":
        """A shape that was asked for, in the layout that has what is known of it.

        Raises:
            UsageError: it has more host runs than ranges, or its ranges are strided, but not equal.
        """
        return cls.laid_out(shape, NamedLayout.fitting(shape))


def held_out(direction: Direction, seed: int) -> Iterator[HeldOut]:
    """Shapes without end, the same for the same seed.

    Ranges and their size are log-uniform over what `MOST_BYTES` admits; a point outside is drawn again. So is one that
    a sweep's lattice of powers of two may hold. The layout is one of four, alike probable, as far as the ranges are
    enough to tell them apart.
    """
    random = Random(f"held out/{direction}/{seed}")
    while True:
        ranges = round(2 ** random.uniform(*RANGE_OCTAVES))
        size = ALIGNMENT * round(2 ** random.uniform(*SIZE_OCTAVES) / ALIGNMENT)
        layout = random.choice(_layouts(ranges))
        if ranges * size <= MOST_BYTES and not (_is_power(ranges) and _is_power(size)):
            shape = TransferShape(ranges, ranges * size, direction, alignment=ALIGNMENT)
            yield HeldOut.laid_out(shape, layout)


def _layouts(ranges: int) -> tuple[NamedLayout, ...]:
    if ranges == 1:
        return (SHUFFLED,)
    plain = (SHUFFLED, NamedLayout(LayoutKind.HOST_ORDERED), NamedLayout(LayoutKind.STRIDED))
    runs = ranges // RANGES_PER_RUN
    return (*plain, NamedLayout(LayoutKind.HOST_RUNS, runs)) if runs > 1 else plain


def _is_power(number: int) -> bool:
    return number & (number - 1) == 0
