"""The CUDA compiler: a kernel's source to PTX, PTX to a loadable cubin. Needs the toolkit's libraries, but no GPU.

The cubin is linked here and never by the driver, which refuses the PTX of a toolkit newer than itself. To import this
takes a while, for which reason `compiling` does so only when something has to be compiled.
"""

import inspect
import re

from cuda.bindings.nvjitlink import nvJitLinkError
from cuda.bindings.nvvm import nvvmError
from cuda.core import Linker, LinkerOptions, ObjectCode
from cuda.pathfinder import DynamicLibNotFoundError, load_nvidia_dynamic_lib
from numba import cuda
from numba.cuda import types
from numba.cuda.cudadrv.error import CCSupportError, NvvmError, NvvmSupportError

from pega_tune.errors import DeviceError
from pega_tune.kernels.recipe import ComputeCapability, DeviceFunction, Recipe

_INSTALL = "install the compiler that fits the driver: pega-tune[cu13], or pega-tune[cu12] for a CUDA 12 driver"
_ALIGN = "nvidia-nvvm and nvidia-nvjitlink must be of one release that knows the GPU; " + _INSTALL

_LINK_FAILURES = (DynamicLibNotFoundError, nvJitLinkError)
_COMPILE_FAILURES = (DynamicLibNotFoundError, NvvmSupportError, CCSupportError, NvvmError, nvvmError)

_ENTRY = re.compile(r"\.visible \.entry (\w+)\(")


class CompilerError(DeviceError):
    """The CUDA compiler libraries are missing, or cannot compile for the device."""

    code = "compiler"


def compile_source(source: DeviceFunction, recipe: Recipe) -> str:
    """The PTX of a kernel: code alone, the same in every process and checkout.

    Args:
        source: of the kernel; every argument is an int64.
        recipe: what to make of it.

    Raises:
        CompilerError: a part of the compiler is missing, or does not support the device.
    """
    signature = types.void(*[types.int64] * len(inspect.signature(source).parameters))
    # Spelt out where numba's environment variables set the default.
    options = {"device": False, "abi": "numba", "launch_bounds": recipe.launch_bounds, "debug": False, "opt": True}
    try:
        ptx, _ = cuda.compile(source, signature, cc=recipe.compute_capability, **options)
    except _COMPILE_FAILURES as error:
        raise compiler_error(error, recipe.compute_capability) from error
    return _canonical(ptx, recipe.name)


def link(ptx: str, compute_capability: ComputeCapability) -> bytes:
    """Machine code for the device, as an ELF image that `cuModuleLoadData` and `cuLibraryLoadData` take.

    Raises:
        CompilerError: nvJitLink is missing, or does not know the PTX version or the device.
    """
    major, minor = compute_capability
    options = LinkerOptions(arch=f"sm_{major}{minor}")
    try:
        # Without the library the linker would fall back on the driver.
        load_nvidia_dynamic_lib("nvJitLink")
        return bytes(Linker(ObjectCode.from_ptx(ptx.encode()), options=options).link("cubin").code)
    except _LINK_FAILURES as error:
        raise compiler_error(error, compute_capability) from error


def compiler_error(error: Exception, compute_capability: ComputeCapability) -> CompilerError:
    """What to tell the user about a failure of the toolchain: one line, and what to install."""
    if isinstance(error, DynamicLibNotFoundError):
        library = re.search(r'"([^" ]+)', str(error))
        return CompilerError(f"{library[1] if library else 'a CUDA library'} is missing", _INSTALL)
    if isinstance(error, NvvmSupportError):
        return CompilerError("libnvvm is missing", _INSTALL)
    major, minor = compute_capability
    words = " ".join(str(error).replace("\0", "").split())
    stage = "nvJitLink" if isinstance(error, nvJitLinkError) else "NVVM"
    return CompilerError(f"{stage} cannot compile for compute capability {major}.{minor}: {words}", _ALIGN)


def _canonical(ptx: str, name: str) -> str:
    """PTX without comments, blank lines and numba's unused environment variable, and with a name of our own.

    The names that numba makes hold the module and a count of what was compiled before in the process.
    """
    entry = _ENTRY.search(ptx)
    if entry is None:
        raise AssertionError("the compiled kernel has no entry point")
    lines = (line.split("//")[0].strip() for line in ptx.splitlines())
    code = "\n".join(line for line in lines if line and "NumbaEnv" not in line)
    return code.replace(entry[1], name) + "\n"
