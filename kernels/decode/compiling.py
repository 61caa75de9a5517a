"""The PTX of the step kernels; how a cubin is made of it is the same as for the copy kernels."""

import functools

from pega_tune.kernels.compile_cache import NO_CACHE, CompileCache
from pega_tune.kernels.compiling import kernel_ptx
from pega_tune.kernels.decode.geometry import CTAS_PER_SM
from pega_tune.kernels.decode.launches import StepKernel, threads_of
from pega_tune.kernels.recipe import ComputeCapability, DeviceFunction, Recipe


def ctas_per_sm(kernel: StepKernel) -> int:
    """`CTAS_PER_SM`, but one of a product of a decode step, whose loads in flight take most registers of an SM."""
    return 1 if kernel is StepKernel.MULTIPLY_VECTOR else CTAS_PER_SM


def step_kernel_name(kernel: StepKernel) -> str:
    """Name of the entry point of a kernel, in PTX and in the cubin."""
    return f"pega_step_{kernel}"


@functools.cache
def compile_step_kernel(
    kernel: StepKernel, compute_capability: ComputeCapability, cache: CompileCache = NO_CACHE
) -> str:
    """The PTX of one kernel; the registers are bounded to what lets so many CTAs run on an SM as `ctas_per_sm` says.

    Args:
        kernel: which.
        compute_capability: (major, minor) of the device, 7.5 and up.
        cache: where to look for it first, and to keep it.

    Raises:
        CompilerError: a part of the compiler is missing, or does not support the device.
    """

    def source() -> DeviceFunction:
        from pega_tune.kernels.decode.kernels import STEP_KERNELS

        return STEP_KERNELS[kernel]

    bounds = threads_of(kernel), ctas_per_sm(kernel)
    return kernel_ptx(source, Recipe(step_kernel_name(kernel), compute_capability, bounds), cache)
