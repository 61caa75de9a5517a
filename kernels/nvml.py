"""NVML through ctypes: typed calls, units of our own (hertz, bytes), one error class; no meaning added.

Function and field names follow the NVML API reference; the library comes with the driver and may be absent.
"""

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from pega_tune.kernels.facts import Link
from pega_tune.kernels.host import PciIds

LIBRARY: Final = "libnvidia-ml.so.1"

LibraryLoader: TypeAlias = Callable[[], Any]
"""Opens a shared library; raises OSError if it cannot. The result gives the functions as attributes."""

# nvmlReturn_t
_SUCCESS: Final = 0
_INSUFFICIENT_SIZE: Final = 7
_REFUSALS: Final = {
    2: "invalid argument",
    3: "not supported",
    4: "no permission",
    6: "not found",
    13: "no such function",
}
_FAILURES: Final = {
    1: "not initialised",
    9: "the kernel driver is not loaded",
    12: "its library was not found",
    15: "the GPU is lost",
    16: "the GPU needs a reset",
    17: "the operating system blocked it",
    18: "its version disagrees with the kernel driver",
    999: "unknown error",
}
_CLOCK_SM: Final = 1  # nvmlClockType_t
_TEMPERATURE_GPU: Final = 0  # nvmlTemperatureSensors_t
_NOT_AVAILABLE: Final = (1 << 32) - 1  # what drivers write into a 32-bit field they do not know
_TEXT_BYTES: Final = 96


class NvmlError(Exception):
    """A call failed.

    Attributes:
        refused: only this question is unanswered; if not, NVML as a whole is unusable.
    """

    def __init__(self, function: str, status: int) -> None:
        self.refused = status in _REFUSALS
        reason = _REFUSALS.get(status) or _FAILURES.get(status) or f"error {status}"
        super().__init__(f"{function}: {reason}")


class _PciInfo(ctypes.Structure):
    """nvmlPciInfo_t."""

    _fields_ = (
        ("busIdLegacy", ctypes.c_char * 16),
        ("domain", ctypes.c_uint),
        ("bus", ctypes.c_uint),
        ("device", ctypes.c_uint),
        ("pciDeviceId", ctypes.c_uint),
        ("pciSubSystemId", ctypes.c_uint),
        ("busId", ctypes.c_char * 32),
    )


class _ProcessInfo(ctypes.Structure):
    """nvmlProcessInfo_t, as the second and third version of the function fill it."""

    _fields_ = (
        ("pid", ctypes.c_uint),
        ("usedGpuMemory", ctypes.c_ulonglong),
        ("gpuInstanceId", ctypes.c_uint),
        ("computeInstanceId", ctypes.c_uint),
    )


class _ConfidentialState(ctypes.Structure):
    """nvmlConfComputeSystemState_t."""

    _fields_ = (("environment", ctypes.c_uint), ("ccFeature", ctypes.c_uint), ("devToolsMode", ctypes.c_uint))


@dataclass(frozen=True, slots=True)
class Handle:
    """A device as NVML knows it."""

    value: int


def load() -> Any:
    """Opens the library of the installed driver."""
    return ctypes.CDLL(LIBRARY)


class Nvml:
    """An initialised NVML; every method raises `NvmlError`."""

    def __init__(self, library: Any) -> None:
        self._library = library
        self._call("nvmlInit_v2")

    def close(self) -> None:
        """Gives NVML back; it counts initialisations itself."""
        self._call("nvmlShutdown")

    def driver_version(self) -> str:
        """As the vendor writes it, `580.65.06`."""
        text = ctypes.create_string_buffer(_TEXT_BYTES)
        self._call("nvmlSystemGetDriverVersion", text, ctypes.c_uint(_TEXT_BYTES))
        return text.value.decode(errors="replace")

    def confidential(self) -> bool:
        """Whether confidential computing is on for the GPUs of this system."""
        state = _ConfidentialState()
        self._call("nvmlSystemGetConfComputeState", ctypes.byref(state))
        return bool(state.ccFeature)

    def by_bus_id(self, bus_id: str) -> Handle:
        """The physical device at a PCI bus id; of a MIG slice, its parent."""
        return self._handle("nvmlDeviceGetHandleByPciBusId_v2", bus_id)

    def by_uuid(self, uuid: str) -> Handle:
        """The device or MIG slice of a UUID, prefix included."""
        return self._handle("nvmlDeviceGetHandleByUUID", uuid)

    def name(self, device: Handle) -> str:
        """Product name; of a MIG slice with its profile, `NVIDIA H200 MIG 1g.18gb`."""
        text = ctypes.create_string_buffer(_TEXT_BYTES)
        self._call("nvmlDeviceGetName", ctypes.c_void_p(device.value), text, ctypes.c_uint(_TEXT_BYTES))
        return text.value.decode(errors="replace")

    def pci_ids(self, device: Handle) -> PciIds:
        """PCI ids; NVML packs them as device in the upper and vendor in the lower 16 bits."""
        info = _PciInfo()
        self._call("nvmlDeviceGetPciInfo_v3", ctypes.c_void_p(device.value), ctypes.byref(info))
        if info.pciDeviceId in (0, _NOT_AVAILABLE):
            raise NvmlError("nvmlDeviceGetPciInfo_v3", 3)
        subsystem = None if info.pciSubSystemId in (0, _NOT_AVAILABLE) else _packed(info.pciSubSystemId)
        return PciIds(_packed(info.pciDeviceId), subsystem)

    def max_link(self, device: Handle) -> Link:
        """The widest and fastest link that device and slot can train."""
        return Link(
            self._number("nvmlDeviceGetMaxPcieLinkGeneration", device),
            self._number("nvmlDeviceGetMaxPcieLinkWidth", device),
        )

    def link(self, device: Handle) -> Link:
        """The link as it runs at this moment; idle devices train down."""
        return Link(
            self._number("nvmlDeviceGetCurrPcieLinkGeneration", device),
            self._number("nvmlDeviceGetCurrPcieLinkWidth", device),
        )

    def sm_clock_hz(self, device: Handle) -> int:
        """SM clock at this moment, hertz."""
        return self._number("nvmlDeviceGetClockInfo", device, _CLOCK_SM) * 1_000_000

    def max_sm_clock_hz(self, device: Handle) -> int:
        """Highest SM clock, hertz."""
        return self._number("nvmlDeviceGetMaxClockInfo", device, _CLOCK_SM) * 1_000_000

    def temperature_c(self, device: Handle) -> int:
        """Temperature of the chip, degrees Celsius."""
        return self._number("nvmlDeviceGetTemperature", device, _TEMPERATURE_GPU)

    def clock_event_reasons(self, device: Handle) -> int:
        """Bit mask of why the clocks are what they are; older drivers call the reasons those of throttling."""
        mask = ctypes.c_ulonglong()
        names = ("nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons")
        name = names[0] if hasattr(self._library, names[0]) else names[1]
        self._call(name, ctypes.c_void_p(device.value), ctypes.byref(mask))
        return mask.value

    def compute_pids(self, device: Handle) -> tuple[int, ...]:
        """Processes with a compute context, ascending; ids may be those of another pid namespace."""
        names = ("nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses_v2")
        name = names[0] if hasattr(self._library, names[0]) else names[1]
        capacity = 64
        while True:
            count = ctypes.c_uint(capacity)
            processes = (_ProcessInfo * capacity)()
            status = self._status(name, ctypes.c_void_p(device.value), ctypes.byref(count), processes)
            if status == _SUCCESS:
                return tuple(sorted(processes[i].pid for i in range(count.value)))
            if status != _INSUFFICIENT_SIZE or capacity > 1 << 16:
                raise NvmlError(name, status)
            capacity *= 4

    def _handle(self, function: str, key: str) -> Handle:
        handle = ctypes.c_void_p()
        self._call(function, ctypes.c_char_p(key.encode()), ctypes.byref(handle))
        if handle.value is None:
            raise NvmlError(function, 6)
        return Handle(handle.value)

    def _number(self, function: str, device: Handle, *kind: int) -> int:
        value = ctypes.c_uint()
        self._call(function, ctypes.c_void_p(device.value), *map(ctypes.c_int, kind), ctypes.byref(value))
        if value.value == _NOT_AVAILABLE or (value.value == 0 and function != "nvmlDeviceGetTemperature"):
            raise NvmlError(function, 3)  # a clock or a link of 0 is a driver that does not know
        return value.value

    def _call(self, function: str, *arguments: Any) -> None:
        status = self._status(function, *arguments)
        if status != _SUCCESS:
            raise NvmlError(function, status)

    def _status(self, function: str, *arguments: Any) -> int:
        entry = getattr(self._library, function, None)
        return 13 if entry is None else int(entry(*arguments))


def _packed(number: int) -> str:
    return f"{number & 0xFFFF:04x}:{number >> 16:04x}"
