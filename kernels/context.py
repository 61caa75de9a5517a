"""CUDA contexts, and the seam to cuda.bindings: one way to call the driver, one error for what it answers."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from cuda.bindings import driver

from pega_tune.kernels.closing import Closing
from pega_tune.kernels.driver import SUCCESS, DriverCallError, DriverMissingError

Call: TypeAlias = Callable[..., Any]
"""What calls driver functions by their name: `call`, or what a test puts in its place."""


def call(function: str, *arguments: Any) -> Any:
    """Calls a driver function by its name in `cuda.bindings.driver`.

    Returns:
        What it gives besides its CUresult: nothing, one value, or a tuple of several.

    Raises:
        DriverCallError: it failed.
        DriverMissingError: there is no driver.
    """
    try:
        status, *values = getattr(driver, function)(*arguments)
    except RuntimeError as error:  # what the bindings raise if they cannot load the driver or find a function in it
        raise DriverMissingError(f"{function} cannot be called: {error}", "install a newer NVIDIA driver") from error
    if int(status) != SUCCESS:
        raise DriverCallError(function, int(status), getattr(status, "name", ""))
    if not values:
        return None
    return values[0] if len(values) == 1 else tuple(values)


def release(function: str, *arguments: Any, through: Call = call) -> None:
    """Calls a driver function that gives something back; in a lost context there is nothing left to give back.

    Args:
        function: its name.
        arguments: its arguments.
        through: what calls it.

    Raises:
        DriverCallError: it failed in a context that still works.
    """
    try:
        through(function, *arguments)
    except DriverCallError as error:
        if not error.is_sticky:
            raise


@dataclass(frozen=True, slots=True)
class MemoryInfo:
    """Device memory in bytes.

    Attributes:
        free_bytes: what can be allocated now.
        total_bytes: all there is.
    """

    free_bytes: int
    total_bytes: int


class PrimaryContext(Closing):
    """The primary context of a device, current in the thread that makes this object; numba and torch share it.

    Attributes:
        ordinal: index of the device in CUDA's order.
    """

    def __init__(self, ordinal: int) -> None:
        """Initialises the driver and retains the context.

        Raises:
            DriverCallError: the device does not exist or is not usable.
            DriverMissingError: there is no driver.
        """
        self.ordinal: Final = ordinal
        call("cuInit", 0)
        self._device = call("cuDeviceGet", ordinal)
        self._context = call("cuDevicePrimaryCtxRetain", self._device)
        self._open = True
        self.enter()

    def close(self) -> None:
        """Lets the context go; what was allocated in it must have been freed.

        It stays current as long as somebody else holds it.
        """
        if self._open:
            self._open = False
            release("cuDevicePrimaryCtxRelease", self._device)
            if not self._is_active():
                release("cuCtxSetCurrent", driver.CUcontext())

    def enter(self) -> None:
        """Makes it current in the calling thread."""
        call("cuCtxSetCurrent", self._context)

    @property
    def device(self) -> Any:
        """The device as cuda.bindings has it."""
        return self._device

    def synchronize(self) -> None:
        """Waits for all work of the context.

        Raises:
            DriverCallError: some of it failed.
        """
        call("cuCtxSynchronize")

    def memory(self) -> MemoryInfo:
        """Device memory at this moment."""
        return MemoryInfo(*call("cuMemGetInfo"))

    def _is_active(self) -> bool:
        try:
            _flags, active = call("cuDevicePrimaryCtxGetState", self._device)
        except DriverCallError:  # a lost context answers nothing
            return False
        return bool(active)
