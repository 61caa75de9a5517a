"""How to make an engine in another process."""

from dataclasses import dataclass

from pega_tune.autotune.engine import Engine


@dataclass(frozen=True, slots=True)
class CudaEngineFactory:
    """Makes the engine of one GPU in the process that calls it; picklable, and light until called.

    Attributes:
        uuid: the device, as `pega_tune.kernels.probe.list_devices` names it.
        max_device_bytes: most device memory that the engine may hold; None leaves it to what is free.
        max_host_bytes: most pinned host memory that the engine may hold; None leaves it to what is free.
    """

    uuid: str
    max_device_bytes: int | None = None
    max_host_bytes: int | None = None

    def __call__(self) -> Engine:
        """The engine.

        Raises:
            DeviceError: the device is gone, or there is no compiler for its kernels.
        """
        # Late, because the process that only hands the factory on must not load numba and CUDA.
        from pega_tune.autotune.cuda.compile_cache import user_compile_cache
        from pega_tune.autotune.cuda.engine import CudaEngine

        return CudaEngine(self.uuid, self.max_device_bytes, self.max_host_bytes, user_compile_cache())
