"""Loaded machine code and the functions in it."""

from dataclasses import dataclass
from typing import Final

from cuda.bindings import driver

from pega_tune.kernels.closing import Closing
from pega_tune.kernels.context import call, release

_MAX_THREADS_PER_BLOCK: Final = "CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK"
_SHARED_BYTES: Final = 0  # of dynamic shared memory, which the copy kernels do not use


@dataclass(frozen=True, slots=True)
class KernelFunction:
    """A kernel that can be launched.

    Attributes:
        handle: CUfunction, for native code; valid while its module is open.
        max_threads: most threads per CTA that its registers allow on this device.
    """

    handle: int
    max_threads: int

    def resident_blocks(self, threads: int) -> int:
        """Most CTAs of so many threads that an SM holds at once; 0 if such a CTA cannot be launched."""
        handle = driver.CUfunction(self.handle)
        return int(call("cuOccupancyMaxActiveBlocksPerMultiprocessor", handle, threads, _SHARED_BYTES))


class Module(Closing):
    """A cubin loaded into the current context."""

    def __init__(self, cubin: bytes) -> None:
        """Loads it.

        Raises:
            DriverCallError: it is not machine code for this device.
        """
        self._module = call("cuModuleLoadData", cubin)
        self._open = True

    def close(self) -> None:
        """Unloads it; its functions must not be launched any more."""
        if self._open:
            self._open = False
            release("cuModuleUnload", self._module)

    def function(self, name: str) -> KernelFunction:
        """A kernel by its entry point.

        Raises:
            DriverCallError: there is none of that name.
        """
        function = call("cuModuleGetFunction", self._module, name.encode())
        attribute = getattr(driver.CUfunction_attribute, _MAX_THREADS_PER_BLOCK)
        return KernelFunction(int(function), int(call("cuFuncGetAttribute", attribute, function)))
