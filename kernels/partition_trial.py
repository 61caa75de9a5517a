"""Whether copy kernels run in SM partitions here: one that has nothing to copy is launched in the smallest one."""

import ctypes
from typing import Any, Final

from pega_tune.errors import DeviceError
from pega_tune.kernels.context import Call, call
from pega_tune.kernels.driver import DriverCallError
from pega_tune.kernels.green_context import GreenContext, partition_sizes
from pega_tune.kernels.plan import WARP_THREADS
from pega_tune.kernels.stream import Stream
from pega_tune.kernels.stream_options import PartitionSupport

_NO_DESCRIPTORS: Final = (0, 0)  # their address, and how many
_PARAMETERS: Final = (_NO_DESCRIPTORS, (ctypes.c_int64, ctypes.c_int64))


def try_partitions(device: Any, function: int, through: Call = call) -> PartitionSupport:
    """Reads the sizes of partitions, and launches a copy kernel in the smallest.

    Args:
        device: as cuda.bindings has it; its primary context is current.
        function: CUfunction of a copy kernel.
        through: what calls the driver.

    Returns:
        The sizes, or the reason why there are none.

    Raises:
        DriverCallError: the context has been lost.
    """
    try:
        sizes = partition_sizes(device, through)
        with (
            GreenContext(device, sizes.least_sms, through) as partition,
            Stream(partition=partition, through=through) as stream,
        ):
            through("cuLaunchKernel", function, 1, 1, 1, WARP_THREADS, 1, 1, 0, stream.native, _PARAMETERS, 0)
            stream.synchronize()
    except DeviceError as error:
        if isinstance(error, DriverCallError) and error.is_sticky:
            raise
        return PartitionSupport.no(error.message)
    return PartitionSupport(sizes)
