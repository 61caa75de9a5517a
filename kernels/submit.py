"""Native loops that call the driver, and their Python face.

They run without the GIL. The submitting ones return as soon as the driver has the work; only `wait_event` waits.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import types

from pega_tune.kernels.descriptors import DESCRIPTOR_BYTES
from pega_tune.kernels.driver import NOT_READY, SUCCESS, DriverFunction, DriverTable
from pega_tune.kernels.native import foreign, native
from pega_tune.kernels.ranges import Addresses
from pega_tune.kernels.shape import Direction

_POLLS = 100_000  # a fraction of a second, after which the interpreter may see to its signals

_COPIES = {Direction.H2D: DriverFunction.MEMCPY_HTOD_ASYNC, Direction.D2H: DriverFunction.MEMCPY_DTOH_ASYNC}

# In cuda.h CUdeviceptr, CUfunction, CUstream, CUevent, pointers and size_t have 64 bits, unsigned int has 32.
_u32, _u64 = types.uint32, types.uint64
_memcpy_async = foreign(_u64, _u64, _u64, _u64)  # destination, source, bytes, stream
_launch_kernel = foreign(  # function, grid x y z, block x y z, shared bytes, stream, parameters, extra
    _u64, _u32, _u32, _u32, _u32, _u32, _u32, _u32, _u64, _u64, _u64
)
_event_query = foreign(_u64)  # event

_LAUNCH_RECORD = np.dtype(
    [
        ("upload", np.uint64),  # address of cuMemcpyHtoDAsync
        ("launch", np.uint64),  # address of cuLaunchKernel
        ("staging", np.uint64),
        ("descriptors", np.uint64),  # first argument of the kernel
        ("count", np.uint64),  # second argument
        ("arguments", np.uint64, (2,)),  # addresses of the two fields above, as cuLaunchKernel wants them
        ("arguments_address", np.uint64),
        ("upload_bytes", np.uint64),
        ("function", np.uint64),
        ("stream", np.uint64),
        ("grid_blocks", np.uint32),
        ("threads", np.uint32),
    ]
)
_UPLOADED, _LAUNCHED = 0, 1


@dataclass(frozen=True, slots=True, eq=False)
class CopyCommands:
    """DMA commands of one direction.

    Attributes:
        direction: which way; not both.
        destination: (n,) addresses.
        source: (n,) addresses.
        nbytes: (n,) sizes in bytes.
    """

    direction: Direction
    destination: Addresses
    source: Addresses
    nbytes: Addresses

    def __len__(self) -> int:
        return len(self.nbytes)


@dataclass(frozen=True, slots=True)
class KernelLaunch:
    """One launch of a copy kernel.

    Attributes:
        function: CUfunction handle.
        grid_blocks: CTAs.
        threads: threads per CTA.
        descriptors: how many descriptors to upload and to run.
    """

    function: int
    grid_blocks: int
    threads: int
    descriptors: int


def submit_copies(table: DriverTable, commands: CopyCommands, stream: int) -> None:
    """Enqueues one DMA command per range, in their order.

    Raises:
        DriverCallError: a call failed; its index is that of the range, and those before it are enqueued.
    """
    function = _COPIES[commands.direction]
    address = table.address(function)
    status, index = _copy_all(address, commands.destination, commands.source, commands.nbytes, np.uint64(stream))
    table.check(function, status, index)


class KernelSubmitter:
    """Enqueues copy kernels whose descriptors wait in pinned memory. It is not thread-safe."""

    def __init__(self, table: DriverTable, staging_address: int, device_address: int) -> None:
        """Lays out what every launch reads.

        Args:
            table: the driver.
            staging_address: pinned host memory that holds the descriptors when `submit` is called.
            device_address: device memory that they are uploaded to.
        """
        self._table = table
        self._block = np.zeros(1, _LAUNCH_RECORD)
        self._record = self._block[0]  # a view, which native code takes as a struct
        self._record["upload"] = table.address(DriverFunction.MEMCPY_HTOD_ASYNC)
        self._record["launch"] = table.address(DriverFunction.LAUNCH_KERNEL)
        self._record["staging"] = staging_address
        self._record["descriptors"] = device_address
        self._record["arguments"] = [self._address_of("descriptors"), self._address_of("count")]
        self._record["arguments_address"] = self._address_of("arguments")

    def submit(self, launch: KernelLaunch, stream: int) -> None:
        """Enqueues the upload of the descriptors, then the kernel, on one stream.

        Raises:
            DriverCallError: one of the two calls failed.
        """
        record = self._record
        record["count"] = launch.descriptors
        record["upload_bytes"] = launch.descriptors * DESCRIPTOR_BYTES
        record["function"] = launch.function
        record["grid_blocks"] = launch.grid_blocks
        record["threads"] = launch.threads
        record["stream"] = stream
        status, step = _upload_and_launch(record)
        self._table.check(DriverFunction.LAUNCH_KERNEL if step else DriverFunction.MEMCPY_HTOD_ASYNC, status)

    def _address_of(self, field: str) -> int:
        return self._block[field].ctypes.data


def wait_event(table: DriverTable, event: int) -> None:
    """Polls until everything before an event has completed.

    Raises:
        DriverCallError: the work before the event, or the query, failed.
    """
    query = table.address(DriverFunction.EVENT_QUERY)
    status = NOT_READY
    while status == NOT_READY:
        status = _poll(query, np.uint64(event), _POLLS)
    table.check(DriverFunction.EVENT_QUERY, status)


@native
def _copy_all(
    copy: np.uint64, destination: Addresses, source: Addresses, nbytes: Addresses, stream: np.uint64
) -> tuple[int, int]:
    """The status and index of the first call that fails; the last of (n,) if none does."""
    status = SUCCESS
    for i in range(nbytes.shape[0]):
        status = _memcpy_async(copy, (destination[i], source[i], nbytes[i], stream))
        if status != SUCCESS:
            return status, i
    return status, nbytes.shape[0] - 1


@native
def _upload_and_launch(r: Any) -> tuple[int, int]:
    """The status of the last call made, and whether that was the launch."""
    status = _memcpy_async(r.upload, (r.descriptors, r.staging, r.upload_bytes, r.stream))
    if status != SUCCESS:
        return status, _UPLOADED
    grid, threads = (r.grid_blocks, 1, 1), (r.threads, 1, 1)
    return _launch_kernel(r.launch, (r.function, *grid, *threads, 0, r.stream, r.arguments_address, 0)), _LAUNCHED


@native
def _poll(query: np.uint64, event: np.uint64, polls: int) -> int:
    """The status of an event: of the first query that does not say "not ready", or of the last one."""
    status = NOT_READY
    for _ in range(polls):
        status = _event_query(query, (event,))
        if status != NOT_READY:
            break
    return status
