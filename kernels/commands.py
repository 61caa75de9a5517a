"""Commands: the driver calls of a program, in the words that native code reads (see `executor`)."""

from enum import IntEnum
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pega_tune.kernels.native import native
from pega_tune.kernels.ranges import Addresses

COMMAND: Final = np.dtype([(name, np.uint64) for name in ("op", "stream", *"abcdefgh")])
"""One command: what to do, the CUstream it goes to, and its operands as `Op` gives them."""

WORDS: Final = len(COMMAND.names or ())

Commands: TypeAlias = NDArray[Any]
"""(n,) of `COMMAND`."""


class Op(IntEnum):
    """What a command does. Addresses are of host memory unless they are what is copied."""

    COPY_TO_DEVICE = 0  # cuMemcpyHtoDAsync: a = destination, b = source, c = bytes
    COPY_TO_HOST = 1  # cuMemcpyDtoHAsync: likewise
    COPIES_TO_DEVICE = 2  # many of them: a, b, c = addresses of uint64 arrays of these, d = first, e = how many
    COPIES_TO_HOST = 3  # likewise
    COPY_2D = 4  # cuMemcpy2DAsync: a = address of a CUDA_MEMCPY2D
    BATCH_V1 = 5  # cuMemcpyBatchAsync of CUDA 12.8: a to h = its arguments up to the stream
    BATCH_V2 = 6  # cuMemcpyBatchAsync of CUDA 13.0: a to g = its arguments up to the stream
    LAUNCH = 7  # cuLaunchKernel: a = function, b = CTAs, c = threads per CTA, d = address of its parameter array
    RECORD = 8  # cuEventRecord: a = event
    AWAIT = 9  # cuStreamWaitEvent: the stream goes on only when event a has happened
    BARRIER = 10  # the program goes on only when event a has happened; the host does not wait either
    CALL = 11  # host work in between: a = address of `int32 f(uint64)`, b = its argument; 0 lets the program go on
    YIELD = 12  # the program stops here, once, so that others can submit; it goes on when it is run again


_SINGLE_COPIES: Final = (Op.COPY_TO_DEVICE, Op.COPY_TO_HOST, Op.COPY_2D)
_MANY_COPIES: Final = ((Op.COPIES_TO_DEVICE, "e"), (Op.COPIES_TO_HOST, "e"), (Op.BATCH_V1, "d"), (Op.BATCH_V2, "d"))


def copies_in(commands: Commands) -> int:
    """Copies that these commands ask the driver for, one by one or in batches; finding out takes microseconds."""
    ops = commands["op"]
    many = sum(int(commands[operand][ops == op].sum()) for op, operand in _MANY_COPIES)
    return many + int(np.isin(ops, _SINGLE_COPIES).sum())


def address_of(values: NDArray[Any]) -> int:
    """Where an array lies; its owner must be kept alive."""
    address: int = values.ctypes.data  # `__array_interface__` would describe every field of a command
    return address


@native
def addresses_of(columns: tuple[Addresses, Addresses, Addresses]) -> tuple[int, int, int]:
    """Where three arrays lie; asking numpy for that takes a microsecond each."""
    return columns[0].ctypes.data, columns[1].ctypes.data, columns[2].ctypes.data
