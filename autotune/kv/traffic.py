"""How often a run makes transfers of which shape."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from pega_tune.errors import UsageError
from pega_tune.kernels.shape import TransferShape


@dataclass(frozen=True, slots=True)
class CountedShape:
    """A shape, and how many transfers had it.

    Attributes:
        shape: of each of them.
        count: at least 1.

    Raises:
        UsageError: there are none.
    """

    shape: TransferShape
    count: int = 1

    def __post_init__(self) -> None:
        if self.count < 1:
            raise UsageError(f"a shape that was recorded was seen at least once, not {self.count} times")


def merged(recorded: Iterable[CountedShape]) -> tuple[CountedShape, ...]:
    """Each shape once with the sum of its counts, the most frequent first, else in their order."""
    counts: Counter[TransferShape] = Counter()
    for each in recorded:
        counts[each.shape] += each.count
    return tuple(CountedShape(shape, count) for shape, count in counts.most_common())
