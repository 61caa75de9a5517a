"""What `cuMemcpyBatchAsync` takes: its two signatures, its attributes, and how many copies one call should have."""

from enum import StrEnum
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from pega_tune.kernels.driver import DriverFunction, DriverTable

MAX_COPIES_PER_CALL: Final = 4096
"""Copies of one call, kept far below the 50,000 or so at which drivers have crashed, or hung when that was repeated."""

COPIES_PER_CALL: Final = 256
"""Copies of one call unless told otherwise: nothing moves before a call returns, which takes the better part of a
microsecond per copy, and each call has a price of its own. Of 16,384 ranges of 4 KiB to the device, calls of 64, 256,
1,024 and 16,384 took 25 to 31, 15 to 17, 14 and 28 to 31 ms; of both directions from a thread each, 17 to 28, 12 to 18,
12 to 22 and 25 to 28 (H200, 2026-12-01, four rounds by a script that was not kept, without contiguous DMA beside it:
`tests/data/h200/8a39189/batch-threads.log`; `tests/gpu/run.sh batches`, which times it in this package, has not run).
Of 1,024 ranges of 64 KiB each way from one thread, calls of 32, 64, 128 and 256 took 1.96, 1.87, 1.87 and 1.91 ms
beside 1.39 ms of contiguous DMA (H200, 2026-11-30, `tests/gpu/batch_calls.py`)."""

CU_MEMCPY_ATTRIBUTES: Final = np.dtype(
    [
        ("srcAccessOrder", np.uint32),
        ("srcLocHintType", np.uint32),
        ("srcLocHintId", np.int32),
        ("dstLocHintType", np.uint32),
        ("dstLocHintId", np.int32),
        ("flags", np.uint32),
    ]
)
"""`CUmemcpyAttributes_v1` of cuda.h; the hints count for managed and pageable memory only, and are 0."""

_ACCESS_ORDER_STREAM = 1  # CU_MEMCPY_SRC_ACCESS_ORDER_STREAM: sources are read in stream order, in both directions
_PREFER_OVERLAP_WITH_COMPUTE = 1  # CU_MEMCPY_FLAG_PREFER_OVERLAP_WITH_COMPUTE

# CU_STREAM_LEGACY is 1, and 0 is that too; the call refuses both. CU_STREAM_PER_THREAD, 2, it takes.
LEGACY_STREAMS: Final = frozenset({0, 1})


class BatchSignature(StrEnum):
    """Which prototype the driver's function has; calling it with the other one crashes."""

    V1 = "v1"  # CUDA 12.8: ..., numAttrs, failIdx, stream
    V2 = "v2"  # CUDA 13.0: ..., numAttrs, stream

    @property
    def function(self) -> DriverFunction:
        """Where it is in a driver table."""
        is_first = self is BatchSignature.V1
        return DriverFunction.MEMCPY_BATCH_ASYNC_V1 if is_first else DriverFunction.MEMCPY_BATCH_ASYNC_V2

    @classmethod
    def newest(cls, table: DriverTable) -> "BatchSignature | None":
        """The newest one that a driver has; None if it has none."""
        return next((signature for signature in (cls.V2, cls.V1) if table.has(signature.function)), None)


class BatchAttributes:
    """One set of attributes for all copies of a call, in memory that lives as long as this object."""

    def __init__(self, signature: BatchSignature, prefer_overlap: bool = False) -> None:
        """Lays it out.

        Args:
            signature: of the function that will read it.
            prefer_overlap: asks the driver to keep SMs out of it (a hint).
        """
        self._attributes: NDArray[Any] = np.zeros(1, CU_MEMCPY_ATTRIBUTES)
        self._attributes["srcAccessOrder"] = _ACCESS_ORDER_STREAM
        self._attributes["flags"] = _PREFER_OVERLAP_WITH_COMPUTE if prefer_overlap else 0
        self._first_copies = np.zeros(1, np.uint64)  # attrsIdxs: where each set of attributes begins to count
        self._failed = np.zeros(1, np.uint64)  # where the first signature writes an index that is rarely one
        arrays = (self._attributes, self._first_copies)
        tail = (self._failed.ctypes.data,) if signature is BatchSignature.V1 else ()
        self._arguments = (*(array.ctypes.data for array in arrays), 1, *tail)

    @property
    def arguments(self) -> tuple[int, ...]:
        """The arguments between the number of copies and the stream."""
        return self._arguments
