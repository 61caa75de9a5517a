"""Host memory that stands for device and pinned memory, and a count of what is allocated."""

import numpy as np
from numpy.typing import NDArray

from pega_tune.autotune.cuda.buffers import Allocators
from pega_tune.kernels.memory import OutOfPinnedMemoryError

ALIGNMENT = 256  # as CUDA aligns


class FakeMemory:
    def __init__(self, heap: "Heap", nbytes: int) -> None:
        whole = np.zeros(nbytes + ALIGNMENT, np.uint8)
        skip = -whole.ctypes.data % ALIGNMENT
        self._heap, self._bytes = heap, whole[skip : skip + nbytes]
        self.nbytes = nbytes
        self.address = self.alias = self._bytes.ctypes.data

    def view(self) -> NDArray[np.uint8]:
        return self._bytes

    def close(self) -> None:
        self._heap.open.remove(self)
        self.address = self.alias = 0


class Heap:
    """Counts what is allocated; host memory beyond `most` cannot be pinned.

    Attributes:
        failure: raised by the next allocations; None lets them pass.
    """

    def __init__(self, most: int = 1 << 40) -> None:
        self.open: list[FakeMemory] = []
        self.peak = 0
        self.allocations = 0
        self._most = most
        self.failure: Exception | None = None

    def allocators(self) -> Allocators:
        return Allocators(device=self.device, pinned=self.pinned)

    def device(self, nbytes: int) -> FakeMemory:
        if self.failure is not None:
            raise self.failure
        memory = FakeMemory(self, nbytes)
        self.open.append(memory)
        self.allocations += 1
        self.peak = max(self.peak, sum(m.nbytes for m in self.open))
        return memory

    def pinned(self, nbytes: int) -> FakeMemory:
        if nbytes > self._most:
            raise OutOfPinnedMemoryError("out of pinned host memory")
        return self.device(nbytes)
