"""Verification of a transfer: fresh data, poisoned destinations, every byte compared, inside and outside the ranges."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from pega_tune.autotune.cuda.comparing import Comparer
from pega_tune.autotune.cuda.layout import Layout
from pega_tune.kernels.shape import Direction


class Memories(Protocol):
    """Both sides of one direction."""

    @property
    def host(self) -> NDArray[np.uint8]:
        """The host slab itself."""

    def poison_device(self, value: int, nbytes: int) -> None:
        """Fills the beginning of the device slab with one byte value, and waits."""

    def upload(self, data: NDArray[np.uint8]) -> None:
        """Copies bytes to the beginning of the device slab, and waits."""

    def download(self, data: NDArray[np.uint8]) -> None:
        """Copies the beginning of the device slab to `data`, and waits."""


@dataclass(frozen=True, slots=True, eq=False)
class Leg:
    """One direction of a transfer to verify.

    Attributes:
        direction: which way; not both.
        memories: both sides.
        layout: the ranges in them.
    """

    direction: Direction
    memories: Memories
    layout: Layout


class Verifier:
    """Verifies transfers of one load, one save, or one of each."""

    def __init__(self, comparer: Comparer, poison: int) -> None:
        self._comparer = comparer
        self._poison = poison

    def verify(self, legs: Sequence[Leg], mirror: NDArray[np.uint8], seed: int, run: Callable[[], object]) -> str:
        """Runs a transfer between fresh data and poison.

        Args:
            legs: the directions, each at most once.
            mirror: host memory, at least as large as any layout; holds the device's side while it is compared.
            seed: of the data, below 2^63.
            run: runs the transfer of all legs and waits for its end.

        Returns:
            What is wrong, one line; empty if every byte is right.
        """
        for leg in legs:
            self._set_up(leg, mirror, seed)
        run()
        # The mirror holds what a save has read until that is compared; only then may it receive what a load wrote.
        for leg in sorted(legs, key=lambda leg: leg.direction is Direction.H2D):
            wrong = self._compare(leg, mirror)
            if wrong:
                return f"{leg.direction}: {wrong}"
        return ""

    def _set_up(self, leg: Leg, mirror: NDArray[np.uint8], seed: int) -> None:
        extent = leg.layout.extent_bytes
        host = leg.memories.host[:extent]
        if leg.direction is Direction.H2D:
            self._comparer.fill(host, 2 * seed)
            leg.memories.poison_device(self._poison, extent)
        else:
            self._comparer.fill(mirror[:extent], 2 * seed + 1)
            leg.memories.upload(mirror[:extent])
            self._comparer.poison(host)

    def _compare(self, leg: Leg, mirror: NDArray[np.uint8]) -> str:
        extent = leg.layout.extent_bytes
        host, device = leg.memories.host[:extent], mirror[:extent]
        if leg.direction is Direction.H2D:
            leg.memories.download(device)
        destination, gaps = (
            (device, leg.layout.device_gaps()) if leg.direction is Direction.H2D else (host, leg.layout.host_gaps())
        )
        return self._comparer.difference(host, device, leg.layout) or self._comparer.trespass(destination, gaps)
