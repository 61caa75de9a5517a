"""Device memory for the spans of CTAs."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from pega_tune.kernels.closing import Closing
from pega_tune.kernels.commands import address_of
from pega_tune.kernels.memory import DeviceMemory
from pega_tune.kernels.stream import Stream

_WORD_BYTES: Final = 8


class DeviceSpans(Closing):
    """Spans in device memory, which grows when more is needed. See `SpanMemory`."""

    def __init__(self) -> None:
        self._stream = Stream()
        self._memory: DeviceMemory | None = None

    def close(self) -> None:
        """Frees everything."""
        self._free()
        self._stream.close()

    def reserve(self, nbytes: int) -> int:
        """As `SpanMemory.reserve`; the bytes are zero, as not every one is written to before all are read.

        Raises:
            OutOfDeviceMemoryError: there is not so much.
        """
        if self._memory is None or self._memory.nbytes < nbytes:
            self._free()
            self._memory = DeviceMemory(1 << (nbytes - 1).bit_length())
        self._stream.set_bytes(self._memory.address, 0, nbytes)
        self._stream.synchronize()
        return self._memory.address

    def read(self, nbytes: int) -> NDArray[np.uint64]:
        """As `SpanMemory.read`."""
        assert self._memory is not None
        words = np.zeros(nbytes // _WORD_BYTES, np.uint64)
        self._stream.copy_to_host(address_of(words), self._memory.address, nbytes)
        self._stream.synchronize()
        return words

    def _free(self) -> None:
        if self._memory is not None:
            self._memory.close()
            self._memory = None
