"""A modelled memory for the copy kernels' sources: counts writes, and refuses what a GPU would refuse."""

from collections.abc import Iterable

from pega_tune.kernels.copy_kernels import Accesses, Share
from pega_tune.kernels.ptx import Access


class ByteMemory:
    """Bytes from address 0, and how often each was written."""

    def __init__(self, content: bytes) -> None:
        self.content = bytearray(content)
        self.writes = [0] * len(content)

    def accesses(self) -> Accesses:
        by16, by8, by4, by1 = (self._access(width) for width in (16, 8, 4, 1))
        return Accesses(by16, by8, by4, by1, descriptor=self._words())

    def _access(self, width: int) -> Access:
        def load(address: int) -> bytes:
            return bytes(self.content[self._place(address, width)])

        def store(address: int, value: bytes) -> None:
            place = self._place(address, width)
            assert len(value) == width
            self.content[place] = value
            for index in range(place.start, place.stop):
                self.writes[index] += 1

        def load_if(address: int, condition: bool) -> bytes | None:
            return load(address) if condition else None

        def store_if(address: int, value: bytes | None, condition: bool) -> None:
            if condition:
                assert value is not None, "stores what was not loaded"
                store(address, value)

        return Access(width, load, store, load_if, store_if)

    def _words(self) -> Access:
        raw = self._access(8)

        def load_if(address: int, condition: bool) -> int:
            return int.from_bytes(raw.load(address), "little") if condition else -1

        return Access(8, raw.load, raw.store, load_if, raw.store_if)

    def _place(self, address: int, width: int) -> slice:
        assert address % width == 0, f"address {address} is not aligned to {width}"
        assert 0 <= address <= len(self.content) - width, f"address {address} is outside the memory"
        return slice(address, address + width)


def shares(teams: int, threads: int) -> Iterable[Share]:
    """The share of every thread of a launch."""
    return (Share(team, teams, rank, threads) for team in range(teams) for rank in range(threads))
