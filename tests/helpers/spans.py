"""Timed kernels and span memory for a fake driver."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pega_tune.kernels.spans import SpanRecorder
from tests.helpers.fake_driver import TIMED

SMS = 4
RESIDENT_BLOCKS = 3


@dataclass(frozen=True)
class FakeTimed:
    """The timed variant of the function with this handle, less one bit."""

    handle: int

    def resident_blocks(self, threads: int) -> int:
        assert threads > 0
        return RESIDENT_BLOCKS


class HostSpans:
    """Spans in memory of this process."""

    def __init__(self) -> None:
        self._words = np.zeros(0, np.uint64)
        self.reserved = 0

    def reserve(self, nbytes: int) -> int:
        self.reserved = nbytes
        self._words = np.zeros(nbytes // 8, np.uint64)
        return self._words.ctypes.data

    def read(self, nbytes: int) -> NDArray[np.uint64]:
        assert nbytes == self.reserved
        return self._words


def recorder(memory: HostSpans | None = None) -> SpanRecorder:
    """A recorder for a device of few SMs."""
    return SpanRecorder(lambda handle: FakeTimed(handle | TIMED), SMS, memory or HostSpans())
