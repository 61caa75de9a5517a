"""The step of the built-in probe: its kernels, its memory and its graph on the current device."""

from contextlib import ExitStack
from typing import Any, Final

import numpy as np
from cuda.bindings import driver

from pega_tune.kernels.closing import Closing
from pega_tune.kernels.compile_cache import NO_CACHE, CompileCache
from pega_tune.kernels.compiling import link_cubin
from pega_tune.kernels.context import call
from pega_tune.kernels.decode.compiling import compile_step_kernel, step_kernel_name
from pega_tune.kernels.decode.geometry import UNIT_BYTES, widest_blocks
from pega_tune.kernels.decode.graph import StepGraph
from pega_tune.kernels.decode.lane import StepLane
from pega_tune.kernels.decode.launches import Launch, StepKernel, kernels_of, shared_bytes_of, threads_of
from pega_tune.kernels.decode.loop import Step
from pega_tune.kernels.decode.models import DecodeModel, StepKind
from pega_tune.kernels.decode.sizes import StepAddresses, StepSizes
from pega_tune.kernels.decode.step import StepPlan
from pega_tune.kernels.memory import DeviceMemory
from pega_tune.kernels.module import KernelFunction, Module
from pega_tune.kernels.recipe import ComputeCapability
from pega_tune.kernels.stream import Stream

_DYNAMIC_BYTES: Final = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES


class StepKernels(Closing):
    """The kernels for the device of the current context.

    Attributes:
        sms: of the device.
    """

    def __init__(self, kind: StepKind, cache: CompileCache = NO_CACHE) -> None:
        """Compiles, or finds in the cache, and loads those that steps of a kind need.

        Raises:
            CompilerError: a part of the compiler is missing, or does not support the device.
        """
        device = call("cuCtxGetDevice")
        capability = (
            _attribute(device, "COMPUTE_CAPABILITY_MAJOR"),
            _attribute(device, "COMPUTE_CAPABILITY_MINOR"),
        )
        self.sms: Final = _attribute(device, "MULTIPROCESSOR_COUNT")
        self._most_shared_bytes = _attribute(device, "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN")
        self._has_clusters = _attribute(device, "CLUSTER_LAUNCH") > 0
        with ExitStack() as stack:
            self._functions: dict[StepKernel, KernelFunction] = {}
            for kernel in kernels_of(kind):
                module = stack.enter_context(Module(_cubin(kernel, capability, cache)))
                self._functions[kernel] = module.function(step_kernel_name(kernel))
                call("cuFuncSetAttribute", self._native(kernel), _DYNAMIC_BYTES, self.shared_bytes(kernel))
            self._stack = stack.pop_all()

    def shared_bytes(self, kernel: StepKernel) -> int:
        """Dynamic shared memory of a CTA of a kernel."""
        return shared_bytes_of(kernel, self._most_shared_bytes)

    def resident_blocks(self, kernel: StepKernel) -> int:
        """CTAs of a kernel that an SM holds at once."""
        sizes = threads_of(kernel), self.shared_bytes(kernel)
        return int(call("cuOccupancyMaxActiveBlocksPerMultiprocessor", self._native(kernel), *sizes))

    def launch(self, launch: Launch, stream: Stream) -> None:
        """Gives one launch to a stream."""
        values = np.array(launch.arguments, np.int64)
        places = values.ctypes.data + values.itemsize * np.arange(len(values), dtype=np.uint64)
        config = driver.CUlaunchConfig()
        config.gridDimX, config.gridDimY, config.gridDimZ = launch.blocks, launch.parts, 1
        config.blockDimX, config.blockDimY, config.blockDimZ = threads_of(launch.kernel), 1, 1
        config.sharedMemBytes, config.hStream = self.shared_bytes(launch.kernel), stream.native
        if launch.cluster > 1 and self._has_clusters:
            config.attrs, config.numAttrs = [_cluster(launch.cluster)], 1
        call("cuLaunchKernelEx", config, self._native(launch.kernel), places.ctypes.data, 0)

    def fill(self, memory: DeviceMemory, stream: Stream) -> None:
        """Gives a stream the work of filling memory with random words."""
        arguments = memory.address, memory.nbytes // UNIT_BYTES, memory.address
        self.launch(Launch(StepKernel.FILL, widest_blocks(self.sms), arguments), stream)

    def close(self) -> None:
        """Unloads them."""
        self._stack.close()

    def _native(self, kernel: StepKernel) -> Any:
        return driver.CUfunction(self._functions[kernel].handle)


class BuiltinStep(Closing):
    """A step of a model in the current context.

    Attributes:
        step: for the native loop.
        nodes: kernels in the graph.
    """

    def __init__(self, model: DecodeModel, stream_priority: int, cache: CompileCache = NO_CACHE) -> None:
        """Allocates, fills, compiles and captures.

        Raises:
            UsageError: the device has no such priority.
            OutOfDeviceMemoryError: the model does not fit.
            CompilerError: as `StepKernels`.
            DriverCallError: the device failed.
        """
        with ExitStack() as stack:
            kernels = stack.enter_context(StepKernels(model.kind, cache))
            sizes = StepSizes.of(model, kernels.sms)
            lane = stack.enter_context(StepLane(stream_priority, sizes.tokens))
            memory = [
                stack.enter_context(DeviceMemory(nbytes))
                for nbytes in (
                    sizes.weights,
                    sizes.caches,
                    sizes.activations,
                    sizes.activations,
                    sizes.residual,
                    sizes.factors,
                )
            ]
            tokens = stack.enter_context(DeviceMemory(sizes.tokens))
            for part in memory:
                kernels.fill(part, lane.stream)
            lane.stream.synchronize()
            weights, caches, *activations, residual, factors = (part.address for part in memory)
            passed = activations[0], activations[1]
            last = lane.inputs.address, tokens.address
            addresses = StepAddresses(weights, caches, passed, residual, factors, *last)
            launches = StepPlan(model, addresses, kernels.sms).launches()

            def submit() -> None:
                for launch in launches:
                    kernels.launch(launch, lane.stream)

            graph = stack.enter_context(StepGraph.capture(lane.stream, submit))
            self.nodes: Final = graph.nodes
            self.step: Final[Step] = lane.step(graph.handle, tokens.address)
            self._stack = stack.pop_all()

    def close(self) -> None:
        """Gives everything back; no step may be under way."""
        self._stack.close()


def _cluster(ctas: int) -> Any:
    """The launch attribute of clusters along the first dimension."""
    attribute = driver.CUlaunchAttribute()
    attribute.id = driver.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
    value = driver.CUlaunchAttributeValue()
    value.clusterDim.x, value.clusterDim.y, value.clusterDim.z = ctas, 1, 1
    attribute.value = value
    return attribute


def _attribute(device: Any, name: str) -> int:
    attribute = getattr(driver.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}")
    return int(call("cuDeviceGetAttribute", attribute, device))


def _cubin(kernel: StepKernel, capability: ComputeCapability, cache: CompileCache) -> bytes:
    return link_cubin(compile_step_kernel(kernel, capability, cache), capability, cache)
