"""What the operating system tells about the host around a device; `None` stands for "it does not tell"."""

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from pega_tune.kernels.facts import Link

# Transfer rate per lane, in GT/s, of each PCIe generation (PCI Express Base Specification 6.0, section 1.2).
_GENERATION_OF_RATE = {
    "2.5": 1,
    "5": 2,
    "5.0": 2,
    "8": 3,
    "8.0": 3,
    "16": 4,
    "16.0": 4,
    "32": 5,
    "32.0": 5,
    "64": 6,
    "64.0": 6,
}
# A cgroup without a limit reports its page-rounded maximum: near 2^63 in version 1, the word `max` in version 2.
_UNLIMITED_BYTES = 2**60


@dataclass(frozen=True, slots=True)
class PciIds:
    """Who made a PCI device; each is `vendor:device` in lower-case hex.

    Attributes:
        device: of the chip.
        subsystem: of the board; None if unknown.
    """

    device: str
    subsystem: str | None


@dataclass(frozen=True, slots=True)
class Host:
    """A reader of `/proc` and `/sys` under `root`.

    PCI functions are named by their bus id as in sysfs, `0000:65:00.0`.
    """

    root: Path = Path("/")

    def cpu_model(self) -> str | None:
        """CPU model name; on Arm, where there is none, implementer and part."""
        text = self._text("proc/cpuinfo") or ""
        model = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
        if model:
            return model[1].strip()
        implementer = re.search(r"^CPU implementer\s*:\s*(\S+)", text, re.MULTILINE)
        part = re.search(r"^CPU part\s*:\s*(\S+)", text, re.MULTILINE)
        return f"Arm {implementer[1]}/{part[1]}" if implementer and part else None

    def nvidia_driver(self) -> str | None:
        """Version of the loaded NVIDIA kernel module, as `580.65.06`."""
        text = self._text("proc/driver/nvidia/version") or ""
        version = re.search(r"Kernel Module.*?\s(\d+\.\d+(?:\.\d+)?)\s", text)
        return version[1] if version else None

    def pci_ids(self, bus_id: str) -> PciIds | None:
        """Vendor and device ids of a PCI function and its board."""
        vendor, device = self._hex(bus_id, "vendor"), self._hex(bus_id, "device")
        if not vendor or not device:
            return None
        maker, board = self._hex(bus_id, "subsystem_vendor"), self._hex(bus_id, "subsystem_device")
        return PciIds(f"{vendor}:{device}", f"{maker}:{board}" if maker and board else None)

    def max_link(self, bus_id: str) -> Link | None:
        """The widest and fastest link that both the device and the port above it can train."""
        device = self._pci(bus_id)
        links = [link for link in (self._link(device), self._link(self._port_above(device))) if link]
        if not links:
            return None
        return Link(min(link.generation for link in links), min(link.width for link in links))

    def numa_distance(self, bus_id: str, cpus: Iterable[int] | None = None) -> int | None:
        """Distance from the nearest of `cpus` (those this process may run on) to the device's node; 10 is local."""
        node = self.numa_node(bus_id)
        distances = (self._text(f"sys/devices/system/node/node{node}/distance") or "").split()
        if node is None or not distances:
            return None
        ours = self.process_nodes(cpus)
        near = [int(d) for other, d in zip(self._nodes(), distances, strict=False) if other in ours]
        return min(near, default=None)

    def numa_node(self, bus_id: str) -> int | None:
        """The NUMA node that a PCI function is attached to."""
        node = self._number(self._pci(bus_id) / "numa_node")
        return None if node is None or node < 0 else node

    def process_nodes(self, cpus: Iterable[int] | None = None) -> tuple[int, ...]:
        """The NUMA nodes of `cpus` (those this process may run on), ascending; empty if the host does not tell."""
        allowed = set(os.sched_getaffinity(0) if cpus is None else cpus)
        lists = {node: self._text(f"sys/devices/system/node/node{node}/cpulist") or "" for node in self._nodes()}
        return tuple(node for node, listed in lists.items() if allowed & _cpu_list(listed))

    def iommu(self, bus_id: str) -> bool | None:
        """Whether transfers of the device pass an IOMMU that translates."""
        device = self._pci(bus_id)
        if not device.is_dir():
            return None
        kind = self._read(device / "iommu_group" / "type")
        return kind is not None and kind.strip() != "identity"

    def available_bytes(self) -> int | None:
        """Memory that can be had without swapping (`MemAvailable`), in bytes."""
        amount = re.search(r"^MemAvailable:\s*(\d+) kB", self._text("proc/meminfo") or "", re.MULTILINE)
        return int(amount[1]) * 1024 if amount else None

    def cgroup_headroom_bytes(self) -> int | None:
        """Bytes left below the tightest memory limit of our control groups; None without a limit."""
        left = [room for folder in self._cgroups() if (room := self._headroom(folder)) is not None]
        return min(left, default=None)

    def cgroup_limit_bytes(self) -> int | None:
        """The tightest memory limit of our control groups in bytes; None without one."""
        files = (folder / name for folder in self._cgroups() for name in ("memory.max", "memory.limit_in_bytes"))
        limits = (limit for file in files if (limit := self._number(file)) is not None)
        return min((limit for limit in limits if limit < _UNLIMITED_BYTES), default=None)

    def _cgroups(self) -> list[Path]:
        """Our control group and all above it; inside a container its own path is often mounted as the root."""
        folders: set[Path] = set()
        for line in (self._text("proc/self/cgroup") or "").splitlines():
            _, controllers, path = line.split(":", 2)
            if controllers and "memory" not in controllers.split(","):
                continue
            top = self.root / "sys/fs/cgroup" / ("memory" if controllers else "")
            inner = top / path.lstrip("/")
            folders |= {top, *(folder for folder in (inner, *inner.parents) if folder.is_relative_to(top))}
        return sorted(folders)

    def _headroom(self, folder: Path) -> int | None:
        for limit_name, usage_name in (
            ("memory.max", "memory.current"),
            ("memory.limit_in_bytes", "memory.usage_in_bytes"),
        ):
            limit, usage = self._number(folder / limit_name), self._number(folder / usage_name)
            if limit is not None and usage is not None and limit < _UNLIMITED_BYTES:
                cache = re.search(
                    r"^(?:total_)?inactive_file (\d+)$", self._read(folder / "memory.stat") or "", re.MULTILINE
                )
                # Page cache counts as used and is given back before anything is killed.
                return max(limit - usage + (int(cache[1]) if cache else 0), 0)
        return None

    def _nodes(self) -> list[int]:
        folders = (self.root / "sys/devices/system/node").glob("node[0-9]*")
        return sorted(int(folder.name.removeprefix("node")) for folder in folders)

    def _pci(self, bus_id: str) -> Path:
        return self.root / "sys/bus/pci/devices" / bus_id.lower()

    def _port_above(self, device: Path) -> Path:
        return device.resolve().parent

    def _link(self, folder: Path) -> Link | None:
        rate = re.match(r"([\d.]+) GT/s", self._read(folder / "max_link_speed") or "")
        width = self._number(folder / "max_link_width")
        generation = _GENERATION_OF_RATE.get(rate[1]) if rate else None
        # Emulated bridges report a width of 0 or 255.
        return Link(generation, width) if generation and width and 1 <= width <= 32 else None

    def _hex(self, bus_id: str, name: str) -> str | None:
        text = (self._read(self._pci(bus_id) / name) or "").strip().lower().removeprefix("0x")
        return text.zfill(4) if re.fullmatch(r"[0-9a-f]{1,4}", text) else None

    def _number(self, path: Path) -> int | None:
        text = (self._read(path) or "").strip()
        return int(text) if re.fullmatch(r"-?\d+", text) else None

    def _text(self, path: str) -> str | None:
        return self._read(self.root / path)

    def _read(self, path: Path) -> str | None:
        try:
            return path.read_text(errors="replace")
        except OSError:
            return None


def _cpu_list(text: str) -> set[int]:
    """`0-3,8` as a set."""
    cpus: set[int] = set()
    for part in filter(None, text.strip().split(",")):
        first, _, last = part.partition("-")
        cpus |= set(range(int(first), int(last or first) + 1))
    return cpus
