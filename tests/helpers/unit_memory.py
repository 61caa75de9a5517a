"""Memory of units of 16 bytes, for kernels' loops that run as plain Python."""

from collections import Counter

from pega_tune.kernels.ptx import Access


class UnitMemory:
    """Units with values of their own, pairs of whole numbers; counts how often each is read.

    Attributes:
        reads: by index of the unit.
    """

    def __init__(self, base: int, count: int) -> None:
        self.reads: Counter[int] = Counter()
        self._base = base
        self._count = count

    def value(self, index: int) -> tuple[int, int]:
        """That of one unit."""
        return 3 * index + 1, index * index

    def access(self) -> Access:
        """Loads; what a conditional one gives in vain would spoil any sum."""

        def load(address: int) -> tuple[int, int]:
            index, odd = divmod(address - self._base, 16)
            assert odd == 0
            assert 0 <= index < self._count
            self.reads[index] += 1
            return self.value(index)

        def load_if(address: int, condition: bool) -> tuple[int, int]:
            return load(address) if condition else (987_654_321, 123_456_789)

        def refuse(*_: object) -> None:
            raise AssertionError("this memory is only read")

        return Access(16, load, refuse, load_if, refuse)
