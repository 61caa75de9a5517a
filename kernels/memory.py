"""Device memory and pinned, mapped host memory, each freed when it is closed."""

import ctypes
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from pega_tune.errors import DeviceError
from pega_tune.kernels.closing import Closing
from pega_tune.kernels.context import call, release
from pega_tune.kernels.driver import DriverCallError

_OUT_OF_MEMORY: Final = 2  # CUDA_ERROR_OUT_OF_MEMORY, of host and device memory alike
_PORTABLE: Final = 0x01  # CU_MEMHOSTALLOC_PORTABLE
_DEVICE_MAP: Final = 0x02  # CU_MEMHOSTALLOC_DEVICEMAP


class OutOfDeviceMemoryError(DeviceError):
    """The device has too little free memory."""

    code: ClassVar[str] = "out-of-device-memory"


class OutOfPinnedMemoryError(DeviceError):
    """The host cannot pin so much memory, whatever its free memory is."""

    code: ClassVar[str] = "out-of-pinned-memory"


class DeviceMemory(Closing):
    """One allocation of device memory; address and size are fixed while it is open.

    Attributes:
        address: where it begins.
        nbytes: its size in bytes.
    """

    def __init__(self, nbytes: int) -> None:
        """Allocates; the contents are undefined.

        Raises:
            OutOfDeviceMemoryError: there is not so much.
        """
        self._pointer = _allocate("cuMemAlloc", nbytes, error=OutOfDeviceMemoryError)
        self.address = int(self._pointer)
        self.nbytes = nbytes

    def close(self) -> None:
        """Frees it."""
        if self.address:
            self.address = 0
            release("cuMemFree", self._pointer)


class PinnedMemory(Closing):
    """One allocation of pinned host memory, mapped into the address space of every device.

    Attributes:
        address: where it begins, for the host and for DMA commands.
        alias: where it begins, for kernels.
        nbytes: its size in bytes.
    """

    def __init__(self, nbytes: int) -> None:
        """Allocates; the contents are undefined.

        Raises:
            OutOfPinnedMemoryError: so much cannot be pinned.
        """
        self._pointer = _allocate("cuMemHostAlloc", nbytes, _PORTABLE | _DEVICE_MAP, error=OutOfPinnedMemoryError)
        self.address = int(self._pointer)
        self.nbytes = nbytes
        self.alias = int(call("cuMemHostGetDevicePointer", self._pointer, 0))

    def close(self) -> None:
        """Frees it; views taken before must not be touched any more."""
        if self.address:
            self.address = self.alias = 0
            release("cuMemFreeHost", self._pointer)

    def view(self) -> NDArray[np.uint8]:
        """(nbytes,) bytes, without a copy; valid until the memory is closed."""
        if not self.address:
            raise ValueError("the memory is closed")
        return np.ctypeslib.as_array((ctypes.c_uint8 * self.nbytes).from_address(self.address))


def _allocate(function: str, nbytes: int, *flags: int, error: type[DeviceError]) -> Any:
    try:
        return call(function, nbytes, *flags)
    except DriverCallError as failure:
        if failure.status != _OUT_OF_MEMORY:
            raise
        kind, option = (
            ("device memory", "--max-device-memory")
            if error is OutOfDeviceMemoryError
            else ("pinned host memory", "--max-host-memory")
        )
        raise error(f"out of {kind}: {nbytes} bytes cannot be allocated", f"free some, or lower {option}") from failure
