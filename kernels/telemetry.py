"""Telemetry of one device: what NVML tells, or `None` with a reason; it never fails and never nags.

A question that NVML refuses is answered `None`. Once NVML fails as a whole it is not asked again: inside a container it
may stop working at any moment and stay so, while CUDA goes on.
"""

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeVar

from pega_tune.kernels import nvml
from pega_tune.kernels.facts import Link
from pega_tune.kernels.host import PciIds
from pega_tune.kernels.nvml import Handle, LibraryLoader, Nvml, NvmlError

T = TypeVar("T")

# nvmlClocksEventReasons: those that slow the device. Idle (0x1), clocks set by an application (0x2) and display
# clocks (0x100) do not.
_SLOWING: Final = {
    0x08: "hw-slowdown",
    0x10: "sync-boost",
    0x20: "sw-thermal-slowdown",
    0x40: "hw-thermal-slowdown",
    0x80: "hw-power-brake",
}
_IDLE: Final = 0x01
_POWER_CAP: Final = 0x04
# The power cap is reported whenever it is what bounds the clock, even a bin below the maximum; it slows transfers
# only if it takes a real part of the clock.
_POWER_CAP_SLOWS_BELOW: Final = 0.9


@dataclass(frozen=True, slots=True)
class TelemetrySample:
    """The device at one moment; `None` where NVML does not tell.

    Attributes:
        sm_clock_hz: SM clock.
        link: PCIe link.
        slowed_by: names of what slows the device; empty if nothing does, None if unknown.
        temperature_c: degrees Celsius.
    """

    sm_clock_hz: int | None = None
    link: Link | None = None
    slowed_by: tuple[str, ...] | None = None
    temperature_c: int | None = None


class Telemetry:
    """NVML's view of one device.

    Attributes:
        unknown: why NVML as a whole gives nothing, one line; empty while it works.
    """

    def __init__(self, bus_id: str, uuid: str = "", load: LibraryLoader = nvml.load) -> None:
        """Opens NVML.

        Args:
            bus_id: PCI bus id of the physical device.
            uuid: of the MIG slice, to count the processes of the slice alone; else leave it.
            load: opens the library.
        """
        self.unknown = ""
        self._nvml: Nvml | None = None
        self._device: Handle | None = None
        self._slice: Handle | None = None
        try:
            self._nvml = Nvml(load())
            self._device = self._nvml.by_bus_id(bus_id)
        except OSError as error:
            self._silence(f"NVML cannot be loaded ({error})")
        except NvmlError as error:
            self._silence(f"NVML does not work ({error})")
        if uuid.startswith("MIG-"):
            self._slice = self._ask(lambda library, _: library.by_uuid(uuid))
        self._max_sm_clock_hz = self.max_sm_clock_hz()

    def close(self) -> None:
        """Gives NVML back."""
        if self._nvml:
            with contextlib.suppress(NvmlError):
                self._nvml.close()
        self._silence(self.unknown or "telemetry is closed")

    def sample(self) -> TelemetrySample:
        """What changes under load, now."""
        clock_hz = self._ask(Nvml.sm_clock_hz)
        reasons = self._ask(Nvml.clock_event_reasons)
        return TelemetrySample(
            clock_hz,
            self._ask(Nvml.link),
            None if reasons is None else slowing_reasons(reasons, clock_hz, self._max_sm_clock_hz),
            self._ask(Nvml.temperature_c),
        )

    def compute_pids(self) -> tuple[int, ...] | None:
        """Processes with a context on the device or MIG slice, ours included, perhaps in another pid namespace."""
        return self._ask(lambda library, device: library.compute_pids(self._slice or device))

    def driver_version(self) -> str | None:
        """Driver version, `580.65.06`."""
        return self._ask(lambda library, _: library.driver_version())

    def pci_ids(self) -> PciIds | None:
        """PCI ids of chip and board."""
        return self._ask(Nvml.pci_ids)

    def max_link(self) -> Link | None:
        """The widest and fastest link that device and slot can train."""
        return self._ask(Nvml.max_link)

    def max_sm_clock_hz(self) -> int | None:
        """Highest SM clock, hertz."""
        return self._ask(Nvml.max_sm_clock_hz)

    def slice_name(self) -> str | None:
        """Product name of the MIG slice, its profile at the end; None without MIG."""
        part = self._slice
        return None if part is None else self._ask(lambda library, _: library.name(part))

    def confidential(self) -> bool | None:
        """Whether confidential computing is on."""
        return self._ask(lambda library, _: library.confidential())

    def _ask(self, question: Callable[[Nvml, Handle], T]) -> T | None:
        if self._nvml is None or self._device is None:
            return None
        try:
            return question(self._nvml, self._device)
        except NvmlError as error:
            if not error.refused:
                self._silence(f"NVML stopped working ({error})")
            return None

    def _silence(self, reason: str) -> None:
        self.unknown = reason
        self._nvml = self._device = None


def slowing_reasons(mask: int, clock_hz: int | None, max_clock_hz: int | None) -> tuple[str, ...]:
    """Names of the clock event reasons in `mask` that slow the device.

    Args:
        mask: as NVML gives it.
        clock_hz: SM clock at that moment; None if unknown.
        max_clock_hz: highest SM clock; None if unknown.
    """
    names = tuple(name for bit, name in _SLOWING.items() if mask & bit)
    if not mask & _POWER_CAP or mask & _IDLE:
        return names
    near_max = bool(clock_hz and max_clock_hz and clock_hz >= _POWER_CAP_SLOWS_BELOW * max_clock_hz)
    return names if near_max else ("sw-power-cap", *names)


def other_processes(
    listed: tuple[int, ...] | None, before: tuple[int, ...] | None, ours: int
) -> tuple[int, ...] | None:
    """Which of the processes on a device are not this one, which holds exactly one context there.

    In a container NVML may list nothing, or the ids of the host's pid namespace, where `ours` means nothing. Then our
    entry is the one that appeared with our context, or the only one.

    Args:
        listed: processes on the device now; None if unknown.
        before: the same just before our context was made; None if unknown.
        ours: our process id, in our namespace.

    Returns:
        Ascending ids; None if that cannot be told. If others are there but ours cannot be told from them, all.
    """
    if not listed:
        return None  # not even we are listed
    if ours in listed:
        return tuple(pid for pid in listed if pid != ours)
    appeared = set(listed) - set(before) if before is not None else set()
    if len(appeared) == 1:
        return tuple(pid for pid in listed if pid not in appeared)
    return () if len(listed) == 1 else listed
