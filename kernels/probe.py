"""The facts of the GPUs in this host, through the driver and without a context: standard library and ctypes alone.

Identity comes from the CUDA driver, so that it holds for a MIG slice and where NVML is missing; NVML and sysfs add what
CUDA does not tell. `CUDA_VISIBLE_DEVICES` is the driver's business: it is quoted here, never parsed.
"""

import ctypes
import os
import re
import socket
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

from pega_tune.errors import DeviceError
from pega_tune.kernels import nvml
from pega_tune.kernels.facts import DeviceFacts, Identity, Link, Provenance, Staleness
from pega_tune.kernels.host import Host, PciIds
from pega_tune.kernels.nvml import LibraryLoader
from pega_tune.kernels.telemetry import Telemetry

LIBRARY: Final = "libcuda.so.1"
_SIMULATE = "`--device sim:h200` needs no GPU"

# CUresult: the driver is a stub, there is no device, and devices are hidden or gone.
_NO_DEVICE_RESULTS: Final = frozenset({34, 100})
# CUdevice_attribute
_CLOCK_RATE_KHZ: Final = 13
_SM_COUNT: Final = 16
_COPY_ENGINES: Final = 40
_CAPABILITY_MAJOR: Final = 75
_CAPABILITY_MINOR: Final = 76


class NoDeviceError(DeviceError):
    """There is no driver, or it sees no GPU; nothing is broken."""

    code: ClassVar[str] = "no-device"


class DriverError(DeviceError):
    """There is a driver, but it does not work."""

    code: ClassVar[str] = "driver"


def load_driver() -> Any:
    """Opens the CUDA driver's library.

    Raises:
        OSError: it is not installed.
    """
    return ctypes.CDLL(LIBRARY)


@dataclass(frozen=True, slots=True)
class Sources:
    """Where facts come from; tests put fakes in.

    Attributes:
        driver: opens the CUDA driver.
        nvml: opens NVML.
        host: reads `/proc` and `/sys`.
    """

    driver: LibraryLoader = load_driver
    nvml: LibraryLoader = nvml.load
    host: Host = field(default_factory=Host)


@dataclass(frozen=True, slots=True)
class CudaDevice:
    """A device as the CUDA driver tells it.

    Attributes:
        uuid: with its prefix, `GPU-` or `MIG-`.
        name: product name.
        bus_id: PCI bus id as sysfs writes it; of a MIG slice, that of its parent.
        compute_capability: (major, minor).
        sm_count: SMs.
        copy_engines: asynchronous copy engines.
        memory_bytes: device memory.
        max_sm_clock_hz: highest SM clock; None if the driver does not tell.
    """

    uuid: str
    name: str
    bus_id: str
    compute_capability: tuple[int, int]
    sm_count: int
    copy_engines: int
    memory_bytes: int
    max_sm_clock_hz: int | None


def list_devices(visible_devices: str | None = None, sources: Sources | None = None) -> tuple[DeviceFacts, ...]:
    """The GPUs that CUDA sees, in its order; no context is made.

    The driver is initialised in this process: a child *forked* from it afterwards cannot use CUDA, a spawned one can.

    Args:
        visible_devices: the value of `CUDA_VISIBLE_DEVICES` if it is set, to quote when no device is seen.
        sources: where facts come from; the real ones if None.

    Raises:
        NoDeviceError: no driver is installed, or it sees no GPU.
        DriverError: the driver does not work.
    """
    sources = sources or Sources()
    driver = _Driver(sources.driver, visible_devices)
    return tuple(_facts(device, driver.cuda_version(), sources) for device in driver.devices())


def list_cuda_devices(load: LibraryLoader = load_driver) -> tuple[CudaDevice, ...]:
    """What the CUDA driver alone tells, in its order; raises as `list_devices`."""
    return _Driver(load, None).devices()


class _Driver:
    """The few driver calls that need no context, over any object with the driver's functions as attributes."""

    def __init__(self, load: LibraryLoader, visible_devices: str | None) -> None:
        self._hint = f"install the NVIDIA driver; {_SIMULATE}"
        self._unseen = "the driver sees no GPU"
        if visible_devices is not None:
            self._unseen += f": CUDA_VISIBLE_DEVICES is '{visible_devices}'"
        try:
            self._library = load()
        except OSError as error:
            raise NoDeviceError(f"no GPU: the CUDA driver cannot be loaded ({error})", self._hint) from error
        result = int(self._library.cuInit(ctypes.c_uint(0)))
        if result in _NO_DEVICE_RESULTS:
            raise NoDeviceError(f"no GPU: {self._unseen} (cuInit: {self._name(result)})", self._visibility_hint())
        if result:
            raise DriverError(
                f"the CUDA driver does not start: cuInit: {self._name(result)}", "run `nvidia-smi`; " + self._hint
            )

    def devices(self) -> tuple[CudaDevice, ...]:
        """The devices seen, at least 1."""
        count = self._int("cuDeviceGetCount")
        if not count:
            raise NoDeviceError(f"no GPU: {self._unseen}", self._visibility_hint())
        return tuple(self._device(ordinal) for ordinal in range(count))

    def cuda_version(self) -> str | None:
        """The newest CUDA that the driver supports, `13.0`."""
        version = self._int("cuDriverGetVersion")
        return f"{version // 1000}.{version % 1000 // 10}" if version else None

    def _device(self, ordinal: int) -> CudaDevice:
        device = ctypes.c_int(self._int("cuDeviceGet", ctypes.c_int(ordinal)))
        memory = ctypes.c_size_t()
        self._call("cuDeviceTotalMem_v2", ctypes.byref(memory), device)
        return CudaDevice(
            uuid=self._uuid(device),
            name=self._text("cuDeviceGetName", device),
            bus_id=self._text("cuDeviceGetPCIBusId", device).lower(),
            compute_capability=(self._attribute(_CAPABILITY_MAJOR, device), self._attribute(_CAPABILITY_MINOR, device)),
            sm_count=self._attribute(_SM_COUNT, device),
            copy_engines=self._attribute(_COPY_ENGINES, device),
            memory_bytes=memory.value,
            max_sm_clock_hz=self._attribute(_CLOCK_RATE_KHZ, device) * 1000 or None,
        )

    def _uuid(self, device: ctypes.c_int) -> str:
        """The second version of the call gives a MIG slice's own UUID where the first gives its parent's."""
        first, second = (ctypes.c_ubyte * 16)(), (ctypes.c_ubyte * 16)()
        self._call("cuDeviceGetUuid", ctypes.byref(first), device)
        try:
            self._call("cuDeviceGetUuid_v2", ctypes.byref(second), device)
        except (AttributeError, DriverError):  # drivers before CUDA 11.4
            second = first
        digits = bytes(second).hex()
        parts = (digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:])
        return ("GPU-" if bytes(first) == bytes(second) else "MIG-") + "-".join(parts)

    def _attribute(self, attribute: int, device: ctypes.c_int) -> int:
        return self._int("cuDeviceGetAttribute", ctypes.c_int(attribute), device)

    def _int(self, function: str, *arguments: Any) -> int:
        value = ctypes.c_int()
        self._call(function, ctypes.byref(value), *arguments)
        return value.value

    def _text(self, function: str, device: ctypes.c_int) -> str:
        text = ctypes.create_string_buffer(256)
        self._call(function, text, ctypes.c_int(len(text)), device)
        return text.value.decode(errors="replace")

    def _call(self, function: str, *arguments: Any) -> None:
        result = int(getattr(self._library, function)(*arguments))
        if result:
            raise DriverError(f"the CUDA driver fails: {function}: {self._name(result)}", "run `nvidia-smi`")

    def _name(self, result: int) -> str:
        name = ctypes.c_char_p()
        known = self._library.cuGetErrorName(ctypes.c_int(result), ctypes.byref(name)) == 0
        return f"{name.value.decode()} ({result})" if known and name.value else f"error {result}"

    def _visibility_hint(self) -> str:
        return f"check CUDA_VISIBLE_DEVICES and `nvidia-smi`; {_SIMULATE}"


def _facts(device: CudaDevice, cuda_version: str | None, sources: Sources) -> DeviceFacts:
    telemetry = Telemetry(device.bus_id, device.uuid, sources.nvml)
    try:
        return DeviceFacts(
            uuid=device.uuid,
            identity=_identity(device, telemetry, sources.host),
            staleness=Staleness(
                driver=telemetry.driver_version() or sources.host.nvidia_driver(),
                cuda=cuda_version,
                host_kernel=os.uname().release,
            ),
            provenance=Provenance(device.name, socket.gethostname(), device.max_sm_clock_hz),
        )
    finally:
        telemetry.close()


def _identity(device: CudaDevice, telemetry: Telemetry, host: Host) -> Identity:
    ids: PciIds | None = telemetry.pci_ids() or host.pci_ids(device.bus_id)
    link: Link | None = telemetry.max_link() or host.max_link(device.bus_id)
    return Identity(
        compute_capability=device.compute_capability,
        sm_count=device.sm_count,
        memory_gib=round(device.memory_bytes / 2**30),
        copy_engines=device.copy_engines,
        mig_slice=_slice(device, telemetry),
        pci_device_id=ids.device if ids else None,
        pci_subsystem_id=ids.subsystem if ids else None,
        max_link=link,
        host_cpu=host.cpu_model(),
        numa_distance=host.numa_distance(device.bus_id),
        iommu=host.iommu(device.bus_id),
        confidential=telemetry.confidential(),
    )


def _slice(device: CudaDevice, telemetry: Telemetry) -> str:
    """MIG profile, `1g.18gb`; `unnamed` if neither CUDA nor NVML names it."""
    if not device.uuid.startswith("MIG-"):
        return ""
    profile = re.search(r"\bMIG (\S+)", f"{device.name} | {telemetry.slice_name() or ''}")
    return profile[1] if profile else "unnamed"
