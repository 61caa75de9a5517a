"""The driver functions that native code calls, as addresses, and what their failures mean."""

import ctypes
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pega_tune.errors import DeviceError, UsageError

SUCCESS = 0
NOT_READY = 600

_LIBRARY = "libcuda.so.1"
_CUDA_VERSION = 12_000  # what the driver must at least support
_LEGACY_STREAM = 0  # flags of cuGetProcAddress: not the variants with a default stream per thread

# Those of which cuda.h says that the process or the context is of no use afterwards: uncorrectable memory and link
# errors, contained errors, everything a kernel can die of, a destroyed context, an ended MPS client, a lost device.
_STICKY = frozenset({4, 214, 220, 226, 700, 702, 709, 710, 714, 715, 716, 717, 718, 719, 721, 810, 911})


def _load() -> ctypes.CDLL:
    return ctypes.CDLL(_LIBRARY)


class DriverFunction(IntEnum):
    """Index of a function in a `DriverTable`."""

    MEMCPY_HTOD_ASYNC = 0
    MEMCPY_DTOH_ASYNC = 1
    LAUNCH_KERNEL = 2
    EVENT_RECORD = 3
    EVENT_QUERY = 4
    STREAM_SYNCHRONIZE = 5
    STREAM_WAIT_EVENT = 6
    EVENT_SYNCHRONIZE = 7
    MEMCPY_2D_ASYNC = 8
    MEMCPY_BATCH_ASYNC_V1 = 9
    MEMCPY_BATCH_ASYNC_V2 = 10
    GRAPH_LAUNCH = 11

    @property
    def symbol(self) -> str:
        """Name in the driver API, without the suffix of its version."""
        return _ENTRIES[self].symbol

    @property
    def is_optional(self) -> bool:
        """Whether a usable driver may lack it."""
        return _ENTRIES[self].cuda_version > _CUDA_VERSION


class _Entry(NamedTuple):
    """How `cuGetProcAddress` finds a function; the version selects its ABI, whatever the driver is."""

    symbol: str
    cuda_version: int = _CUDA_VERSION


_ENTRIES = (
    _Entry("cuMemcpyHtoDAsync"),
    _Entry("cuMemcpyDtoHAsync"),
    _Entry("cuLaunchKernel"),
    _Entry("cuEventRecord"),
    _Entry("cuEventQuery"),
    _Entry("cuStreamSynchronize"),
    _Entry("cuStreamWaitEvent"),
    _Entry("cuEventSynchronize"),
    _Entry("cuMemcpy2DAsync"),
    _Entry("cuMemcpyBatchAsync", 12_080),
    _Entry("cuMemcpyBatchAsync", 13_000),
    _Entry("cuGraphLaunch"),
)


class DriverMissingError(DeviceError):
    """There is no driver, or it is too old."""

    code = "driver-missing"


class DriverCallError(DeviceError):
    """A driver function failed.

    Attributes:
        function: name of the function.
        status: its CUresult.
        name: name of the CUresult, or the number if there is nobody to ask.
        index: position of the failed call in its loop; None for a single call.
    """

    code = "driver-call"

    def __init__(self, function: str, status: int, name: str = "", index: int | None = None) -> None:
        self.function = function
        self.status = status
        self.name = name or str(status)
        self.index = index
        place = "" if index is None else f" at index {index}"
        hint = "the context is lost; go on in a new process" if self.is_sticky else ""
        super().__init__(f"{function} failed{place} with {self.name}", hint)

    def __reduce__(self) -> tuple[type["DriverCallError"], tuple[str, int, str, int | None]]:
        """Lets the error cross to another process whole."""
        return type(self), (self.function, self.status, self.name, self.index)

    @property
    def is_sticky(self) -> bool:
        """Whether every later call in this context, or process, fails too."""
        return self.status in _STICKY


@dataclass(frozen=True, slots=True, eq=False)
class DriverTable:
    """Addresses of driver functions.

    Attributes:
        addresses: (len(DriverFunction),) addresses, indexed by `DriverFunction`.
        name_of: the name of a CUresult.
    """

    addresses: NDArray[np.uint64]
    name_of: Callable[[int], str] = str

    @classmethod
    def of(cls, addresses: Mapping[DriverFunction, int], name_of: Callable[[int], str] = str) -> "DriverTable":
        """A table of the functions given; optional ones may be missing or null.

        Raises:
            UsageError: others are.
        """
        wrong = [f.symbol for f in DriverFunction if not (addresses.get(f) or f.is_optional)]
        if wrong:
            raise UsageError(f"a driver table needs {', '.join(wrong)}")
        return cls(np.array([addresses.get(function, 0) for function in DriverFunction], np.uint64), name_of)

    @classmethod
    def resolve(cls, load: Callable[[], Any] = _load) -> "DriverTable":
        """The functions of the installed driver; it is loaded, not initialised.

        Args:
            load: loads the driver's library, or raises OSError.

        Raises:
            DriverMissingError: there is no driver, or it lacks a function that is not optional.
        """
        try:
            library = load()
        except OSError as error:
            hint = "install the NVIDIA driver, or give the container access to it"
            raise DriverMissingError(f"there is no NVIDIA driver: {error}", hint) from error
        return cls.of({function: _find(library, function) for function in DriverFunction}, _Names(library))

    def has(self, function: DriverFunction) -> bool:
        """Whether a function is there; calling one that is not would crash."""
        return bool(self.addresses[function])

    def address(self, function: DriverFunction) -> np.uint64:
        """Where a function is."""
        return np.uint64(self.addresses[function])

    def check(self, function: DriverFunction, status: int, index: int | None = None) -> None:
        """Raises `DriverCallError` unless a call ended well."""
        if status != SUCCESS:
            raise DriverCallError(function.symbol, status, self.name_of(status), index)


class _Names:
    """Names of CUresults, from the driver."""

    def __init__(self, library: Any) -> None:
        self._lookup = library.cuGetErrorName
        self._lookup.argtypes = (ctypes.c_int, ctypes.POINTER(ctypes.c_char_p))
        self._lookup.restype = ctypes.c_int

    def __call__(self, status: int) -> str:
        name = ctypes.c_char_p()
        if self._lookup(status, ctypes.byref(name)) != SUCCESS or name.value is None:
            return str(status)
        return name.value.decode()


def _find(library: Any, function: DriverFunction) -> int:
    """The address of a function; 0 if it is optional and not there."""
    hint = "CUDA 12.0 needs driver 525 or newer"
    try:
        get_address = library.cuGetProcAddress_v2
    except AttributeError as error:
        raise DriverMissingError("the NVIDIA driver is older than CUDA 12.0", hint) from error
    found = ctypes.c_void_p()
    get_address.argtypes = (ctypes.c_char_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_uint64, ctypes.c_void_p)
    get_address.restype = ctypes.c_int
    entry = _ENTRIES[function]
    status = get_address(entry.symbol.encode(), ctypes.byref(found), entry.cuda_version, _LEGACY_STREAM, None)
    if status == SUCCESS and found.value:
        return found.value
    if function.is_optional:
        return 0
    raise DriverMissingError(f"the NVIDIA driver has no {entry.symbol} of CUDA 12.0 (result {status})", hint)
