"""The copy kernels of an engine, compiled and loaded into its context."""

import contextlib
import gc
from typing import Final

from pega_tune.kernels.closing import Closing
from pega_tune.kernels.compile_cache import NO_CACHE, CompileCache
from pega_tune.kernels.compiling import (
    compile_ptx,
    compile_timed_ptx,
    kernel_name,
    link_cubin,
)
from pega_tune.kernels.module import KernelFunction, Module
from pega_tune.kernels.plan import Variant
from pega_tune.kernels.recipe import ComputeCapability


class CopyKernels(Closing):
    """The kernels, and their timed variants, which are compiled when the first one is asked for.

    Attributes:
        functions: the kernels.
    """

    def __init__(self, compute_capability: ComputeCapability, cache: CompileCache = NO_CACHE) -> None:
        """Compiles the kernels, or finds them in the cache.

        Raises:
            CompilerError: a part of the compiler is missing, or does not support the device.
        """
        self._capability = compute_capability
        self._cache = cache
        self._timed: dict[int, KernelFunction] = {}
        with contextlib.ExitStack() as stack:
            self._modules = stack
            ptx = {variant: compile_ptx(variant, compute_capability, cache) for variant in Variant}
            self.functions: Final = {variant: self._load(ptx[variant], kernel_name(variant)) for variant in Variant}
            self._modules = stack.pop_all()

    def close(self) -> None:
        """Unloads all of them."""
        self._modules.close()
        self._timed.clear()

    def timed(self, handle: int) -> KernelFunction:
        """The timed variant of a kernel, by the CUfunction handle of the latter."""
        if not self._timed:
            for variant, function in self.functions.items():
                ptx = compile_timed_ptx(variant, self._capability, self._cache)
                self._timed[function.handle] = self._load(ptx, kernel_name(variant, timed=True))
            forget_garbage()
        return self._timed[handle]

    def _load(self, ptx: str, name: str) -> KernelFunction:
        cubin = link_cubin(ptx, self._capability, self._cache)
        return self._modules.enter_context(Module(cubin)).function(name)


def forget_garbage() -> None:
    """Hides what compilers have left, which every full collection would walk for longer than a transfer takes."""
    gc.collect()
    gc.freeze()
