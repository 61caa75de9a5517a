"""Fakes of libcuda and libnvidia-ml with the C calling convention: functions as attributes, results by pointer."""

import ctypes
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

_INT_P = ctypes.POINTER(ctypes.c_int)
_UINT_P = ctypes.POINTER(ctypes.c_uint)
_SIZE_P = ctypes.POINTER(ctypes.c_size_t)
_U64_P = ctypes.POINTER(ctypes.c_ulonglong)
_VOID_PP = ctypes.POINTER(ctypes.c_void_p)
_BYTES_16_P = ctypes.POINTER(ctypes.c_ubyte * 16)
_TEXT = ctypes.POINTER(ctypes.c_char)

H200 = uuid.UUID("11111111-2222-3333-4444-555555555555")
SLICE = uuid.UUID("aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee")


def _c(*arguments: Any) -> Callable[[Callable[..., int]], Any]:
    return ctypes.CFUNCTYPE(ctypes.c_int, *arguments)


def _put_text(out: Any, text: str) -> None:
    ctypes.memmove(out, text.encode() + b"\0", len(text) + 1)


@dataclass
class FakeCuda:
    """One GPU, or none; `results` maps a function to the CUresult that it returns instead of succeeding."""

    count: int = 1
    name: str = "NVIDIA H200"
    parent: uuid.UUID = H200
    unit: uuid.UUID = H200
    bus_id: str = "0000:65:00.0"
    memory_bytes: int = 143_771 << 20
    attributes: Mapping[int, int] = field(default_factory=lambda: {13: 1_980_000, 16: 132, 40: 3, 75: 9, 76: 0})
    results: Mapping[str, int] = field(default_factory=dict)

    def load(self) -> "FakeCuda":
        return self

    def __getattr__(self, function: str) -> Any:
        if function not in _CUDA:
            raise AttributeError(function)
        prototype, body = _CUDA[function]
        failing = self.results.get(function, 0)
        return prototype(lambda *arguments: failing or body(self, *arguments))


def _cuda_error_name(_fake: FakeCuda, result: int, out: Any) -> int:
    names = {100: b"CUDA_ERROR_NO_DEVICE", 803: b"CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"}
    if result not in names:
        return 1
    out[0] = names[result]
    return 0


def _store(value: Callable[[FakeCuda], Any]) -> Callable[..., int]:
    def body(fake: FakeCuda, out: Any, *_arguments: Any) -> int:
        out[0] = value(fake)
        return 0

    return body


def _store_bytes(value: Callable[[FakeCuda], bytes]) -> Callable[..., int]:
    def body(fake: FakeCuda, out: Any, *_arguments: Any) -> int:
        ctypes.memmove(out, value(fake), 16)
        return 0

    return body


def _store_text(value: Callable[[FakeCuda], str]) -> Callable[..., int]:
    def body(fake: FakeCuda, out: Any, *_arguments: Any) -> int:
        _put_text(out, value(fake))
        return 0

    return body


def _cuda_attribute(fake: FakeCuda, out: Any, attribute: int, _device: int) -> int:
    out[0] = fake.attributes[attribute]
    return 0


_CUDA: dict[str, tuple[Any, Callable[..., int]]] = {
    "cuInit": (_c(ctypes.c_uint), lambda _fake, _flags: 0),
    "cuGetErrorName": (_c(ctypes.c_int, ctypes.POINTER(ctypes.c_char_p)), _cuda_error_name),
    "cuDriverGetVersion": (_c(_INT_P), _store(lambda _fake: 13_000)),
    "cuDeviceGetCount": (_c(_INT_P), _store(lambda fake: fake.count)),
    "cuDeviceGet": (_c(_INT_P, ctypes.c_int), _store(lambda _fake: 0)),
    "cuDeviceGetAttribute": (_c(_INT_P, ctypes.c_int, ctypes.c_int), _cuda_attribute),
    "cuDeviceTotalMem_v2": (_c(_SIZE_P, ctypes.c_int), _store(lambda fake: fake.memory_bytes)),
    "cuDeviceGetName": (_c(_TEXT, ctypes.c_int, ctypes.c_int), _store_text(lambda fake: fake.name)),
    "cuDeviceGetPCIBusId": (_c(_TEXT, ctypes.c_int, ctypes.c_int), _store_text(lambda fake: fake.bus_id.upper())),
    "cuDeviceGetUuid": (_c(_BYTES_16_P, ctypes.c_int), _store_bytes(lambda fake: fake.parent.bytes)),
    "cuDeviceGetUuid_v2": (_c(_BYTES_16_P, ctypes.c_int), _store_bytes(lambda fake: fake.unit.bytes)),
}


@dataclass
class FakeNvml:
    """The NVML of one GPU.

    `results` maps a function to the nvmlReturn_t that it returns instead of succeeding; `answers` is how many calls
    succeed before every one fails with `then` (None: all succeed); `missing` names absent functions.
    """

    results: Mapping[str, int] = field(default_factory=dict)
    missing: frozenset[str] = frozenset()
    answers: int | None = None
    then: int = 999
    calls: list[str] = field(default_factory=list)
    numbers: Mapping[str, int] = field(
        default_factory=lambda: {
            "nvmlDeviceGetMaxPcieLinkGeneration": 5,
            "nvmlDeviceGetMaxPcieLinkWidth": 16,
            "nvmlDeviceGetCurrPcieLinkGeneration": 5,
            "nvmlDeviceGetCurrPcieLinkWidth": 16,
            "nvmlDeviceGetClockInfo": 1830,
            "nvmlDeviceGetMaxClockInfo": 1980,
            "nvmlDeviceGetTemperature": 41,
        }
    )
    reasons: int = 0
    pids: tuple[int, ...] = ()
    slice_name: str = "NVIDIA H200 MIG 1g.18gb"
    confidential: int = 0
    pci_device: int = 0x233510DE
    pci_subsystem: int = 0x18BE10DE

    def load(self) -> "FakeNvml":
        return self

    def __getattr__(self, function: str) -> Any:
        if function in self.missing or function not in _NVML:
            raise AttributeError(function)
        prototype, body = _NVML[function]
        return prototype(lambda *arguments: self._result(function) or body(self, function, *arguments))

    def _result(self, function: str) -> int:
        self.calls.append(function)
        if self.answers is not None and len(self.calls) > self.answers:
            return self.then
        return self.results.get(function, 0)


def _nvml_text(value: Callable[[FakeNvml], str]) -> Callable[..., int]:
    def body(fake: FakeNvml, _function: str, *arguments: Any) -> int:
        _put_text(arguments[-2], value(fake))
        return 0

    return body


def _nvml_handle(_fake: FakeNvml, _function: str, _key: bytes, out: Any) -> int:
    out[0] = 0x1000
    return 0


def _nvml_number(fake: FakeNvml, function: str, *arguments: Any) -> int:
    arguments[-1][0] = fake.numbers[function]
    return 0


def _nvml_pci(fake: FakeNvml, _function: str, _device: int, out: Any) -> int:
    words = ctypes.cast(out, _UINT_P)
    words[7], words[8] = fake.pci_device, fake.pci_subsystem
    return 0


def _nvml_reasons(fake: FakeNvml, _function: str, _device: int, out: Any) -> int:
    out[0] = fake.reasons
    return 0


def _nvml_processes(fake: FakeNvml, _function: str, _device: int, count: Any, out: Any) -> int:
    room = count[0]
    count[0] = len(fake.pids)
    if room < len(fake.pids):
        return 7
    words = ctypes.cast(out, _UINT_P)
    for row, pid in enumerate(fake.pids):
        words[row * 6] = pid  # a process takes 24 bytes
    return 0


def _nvml_confidential(fake: FakeNvml, _function: str, out: Any) -> int:
    ctypes.cast(out, _UINT_P)[1] = fake.confidential
    return 0


_NUMBER = (_c(ctypes.c_void_p, _UINT_P), _nvml_number)
_NUMBER_OF_KIND = (_c(ctypes.c_void_p, ctypes.c_int, _UINT_P), _nvml_number)
_HANDLE = (_c(ctypes.c_char_p, _VOID_PP), _nvml_handle)
_MASK = (_c(ctypes.c_void_p, _U64_P), _nvml_reasons)
_PROCESSES = (_c(ctypes.c_void_p, _UINT_P, ctypes.c_void_p), _nvml_processes)

_NVML: dict[str, tuple[Any, Callable[..., int]]] = {
    "nvmlInit_v2": (_c(), lambda _fake, _function: 0),
    "nvmlShutdown": (_c(), lambda _fake, _function: 0),
    "nvmlSystemGetDriverVersion": (_c(_TEXT, ctypes.c_uint), _nvml_text(lambda _fake: "580.159.03")),
    "nvmlSystemGetConfComputeState": (_c(ctypes.c_void_p), _nvml_confidential),
    "nvmlDeviceGetHandleByPciBusId_v2": _HANDLE,
    "nvmlDeviceGetHandleByUUID": _HANDLE,
    "nvmlDeviceGetName": (_c(ctypes.c_void_p, _TEXT, ctypes.c_uint), _nvml_text(lambda fake: fake.slice_name)),
    "nvmlDeviceGetPciInfo_v3": (_c(ctypes.c_void_p, ctypes.c_void_p), _nvml_pci),
    "nvmlDeviceGetMaxPcieLinkGeneration": _NUMBER,
    "nvmlDeviceGetMaxPcieLinkWidth": _NUMBER,
    "nvmlDeviceGetCurrPcieLinkGeneration": _NUMBER,
    "nvmlDeviceGetCurrPcieLinkWidth": _NUMBER,
    "nvmlDeviceGetClockInfo": _NUMBER_OF_KIND,
    "nvmlDeviceGetMaxClockInfo": _NUMBER_OF_KIND,
    "nvmlDeviceGetTemperature": _NUMBER_OF_KIND,
    "nvmlDeviceGetCurrentClocksEventReasons": _MASK,
    "nvmlDeviceGetCurrentClocksThrottleReasons": _MASK,
    "nvmlDeviceGetComputeRunningProcesses_v3": _PROCESSES,
    "nvmlDeviceGetComputeRunningProcesses_v2": _PROCESSES,
}


def absent() -> Any:
    """A loader of a library that is not installed."""
    raise OSError("cannot open shared object file")
