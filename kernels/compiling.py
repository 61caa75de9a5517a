"""The copy kernels as PTX and as loadable cubins: out of a cache, or compiled, which needs no GPU.

Neither the kernels' sources nor the compiler are imported before something has to be compiled.
"""

import functools
import hashlib
from collections.abc import Callable

from pega_tune.kernels.compile_cache import NO_CACHE, CompileCache
from pega_tune.kernels.compile_key import key_of, sources_digest
from pega_tune.kernels.plan import Variant
from pega_tune.kernels.recipe import ComputeCapability, DeviceFunction, Recipe


def kernel_name(variant: Variant, *, timed: bool = False) -> str:
    """Name of the entry point of a kernel, or of its timed variant, in PTX and in the cubin."""
    return f"pega_copy_{variant}_timed" if timed else f"pega_copy_{variant}"


@functools.cache
def compile_ptx(variant: Variant, compute_capability: ComputeCapability, cache: CompileCache = NO_CACHE) -> str:
    """The PTX of one kernel: code alone, the same in every process and checkout.

    The kernel takes two 64-bit arguments (address of the descriptors, number of descriptors) and is bounded to the 64
    registers that let a CTA of 1024 threads launch.

    Args:
        variant: which kernel.
        compute_capability: (major, minor) of the device, 7.5 and up.
        cache: where to look for it first, and to keep it.

    Raises:
        CompilerError: a part of the compiler is missing, or does not support the device.
    """

    def source() -> DeviceFunction:
        from pega_tune.kernels.copy_kernels import KERNELS

        return KERNELS[variant]

    return kernel_ptx(source, Recipe(kernel_name(variant), compute_capability), cache)


@functools.cache
def compile_timed_ptx(variant: Variant, compute_capability: ComputeCapability, cache: CompileCache = NO_CACHE) -> str:
    """The PTX of the variant of a kernel that writes down the spans of its CTAs, at the address in a third argument.

    It is no part of the digest. Otherwise as `compile_ptx`.
    """

    def source() -> DeviceFunction:
        from pega_tune.kernels.copy_kernels import TIMED_KERNELS

        return TIMED_KERNELS[variant]

    return kernel_ptx(source, Recipe(kernel_name(variant, timed=True), compute_capability), cache)


@functools.cache
def kernel_digest(compute_capability: ComputeCapability, cache: CompileCache = NO_CACHE) -> str:
    """SHA-256 of the PTX of all kernels but their timed variants: what a measurement depends on.

    Raises as `compile_ptx`.
    """
    texts = (compile_ptx(variant, compute_capability, cache) for variant in Variant)
    return hashlib.sha256("".join(texts).encode()).hexdigest()


def kernel_ptx(source: Callable[[], DeviceFunction], recipe: Recipe, cache: CompileCache = NO_CACHE) -> str:
    """The PTX of a kernel.

    Args:
        source: imports its source, a function of a module of this package, every argument of which is an int64.
        recipe: what to make of it.
        cache: where to look for it first, and to keep it.

    Raises:
        CompilerError: a part of the compiler is missing, or does not support the device.
    """

    def name() -> str:
        bounds = recipe.name, recipe.compute_capability, recipe.launch_bounds
        return key_of(sources_digest(), cache.variables, bounds) + ".ptx"

    def make() -> bytes:
        from pega_tune.kernels.compiler import compile_source

        return compile_source(source(), recipe).encode()

    return cache.kept(name, make).decode()


def link_cubin(ptx: str, compute_capability: ComputeCapability, cache: CompileCache = NO_CACHE) -> bytes:
    """Machine code for the device, as an ELF image that `cuModuleLoadData` and `cuLibraryLoadData` take.

    Raises:
        CompilerError: nvJitLink is missing, or does not know the PTX version or the device.
    """

    def name() -> str:
        return key_of(sources_digest(), cache.variables, ptx, compute_capability) + ".cubin"

    def make() -> bytes:
        from pega_tune.kernels.compiler import link

        return link(ptx, compute_capability)

    return cache.kept(name, make)
