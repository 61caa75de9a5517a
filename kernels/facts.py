"""What is known about a device, in three classes: what it *is*, what may drift, and what is only recorded."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from enum import StrEnum
from typing import Any

SIMULATED_PREFIX = "sim:"
REPLAYED_PREFIX = "replay:"


class Match(StrEnum):
    """How well a stored identity fits the device in front of us."""

    SAME = "same"
    SUSPECT = "suspect"
    MISS = "miss"


@dataclass(frozen=True, slots=True)
class Link:
    """A PCIe link.

    Attributes:
        generation: PCIe generation, 1 and up.
        width: lanes.
    """

    generation: int
    width: int


@dataclass(frozen=True, slots=True)
class Identity:
    """What decides whether a profile fits: its hash is the device class.

    `None` means that this host does not tell. The link takes no part in the hash: an unknown link makes a match
    suspect, not a miss, while two known and different links are a miss. Confidential mode counts as off where NVML,
    which alone tells it, is missing: the class of a device must not change when NVML does.

    Attributes:
        compute_capability: (major, minor).
        sm_count: SMs that CUDA sees (of the slice, on MIG).
        memory_gib: device memory, rounded to GiB.
        copy_engines: asynchronous copy engines.
        mig_slice: MIG profile or slice name, empty without MIG.
        pci_device_id: `vendor:device`, lower-case hex.
        pci_subsystem_id: `vendor:device` of the board maker, lower-case hex.
        max_link: the widest and fastest link that device and slot can train.
        host_cpu: CPU model name.
        numa_distance: distance from the CPUs we may run on to the device's node.
        iommu: whether transfers pass an IOMMU that translates.
        confidential: whether confidential computing is on.
    """

    compute_capability: tuple[int, int]
    sm_count: int
    memory_gib: int
    copy_engines: int
    mig_slice: str = ""
    pci_device_id: str | None = None
    pci_subsystem_id: str | None = None
    max_link: Link | None = None
    host_cpu: str | None = None
    numa_distance: int | None = None
    iommu: bool | None = None
    confidential: bool | None = None

    @property
    def class_id(self) -> str:
        """Hash of everything but the link: 16 hex digits."""
        content = {name: value for name, value in asdict(self).items() if name != "max_link"}
        content["confidential"] = bool(self.confidential)
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]

    @property
    def family_id(self) -> str:
        """Same silicon, whatever host it sits in: PCI device id and compute capability."""
        major, minor = self.compute_capability
        return f"{self.pci_device_id or 'unknown'}@{major}.{minor}"

    def match(self, other: "Identity") -> Match:
        """Whether a profile measured on `self` fits `other`."""
        if self.class_id != other.class_id:
            return Match.MISS
        if self.max_link is None or other.max_link is None:
            return Match.SUSPECT
        return Match.SAME if self.max_link == other.max_link else Match.MISS


@dataclass(frozen=True, slots=True)
class Staleness:
    """What may change under a profile; a difference makes it suspect.

    Attributes:
        driver: driver version, as the vendor writes it.
        cuda: CUDA version the driver supports, `13.0`.
        host_kernel: operating system release.
        trained_link: the link as it ran *under load*; None if never sampled so.
    """

    driver: str | None = None
    cuda: str | None = None
    host_kernel: str | None = None
    trained_link: Link | None = None


@dataclass(frozen=True, slots=True)
class Provenance:
    """Recorded, never matched.

    Attributes:
        name: marketing name.
        host: host name.
        max_sm_clock_hz: highest SM clock.
    """

    name: str
    host: str = ""
    max_sm_clock_hz: int | None = None


@dataclass(frozen=True, slots=True)
class DeviceFacts:
    """One device on one host.

    Attributes:
        uuid: as CUDA reports it, `GPU-...` or `MIG-...`; `sim:NAME` for a simulated device; `replay:` and the UUID for
            one whose recording is replayed.
        identity: what it is.
        staleness: what may drift.
        provenance: what is only recorded.
    """

    uuid: str
    identity: Identity
    staleness: Staleness
    provenance: Provenance

    @property
    def simulated(self) -> bool:
        """Whether no such device exists."""
        return self.uuid.startswith(SIMULATED_PREFIX)

    @property
    def replayed(self) -> bool:
        """Whether a recording answers in place of the device, which exists, but is not here."""
        return self.uuid.startswith(REPLAYED_PREFIX)

    @property
    def class_id(self) -> str:
        """The device class; that of a simulated or replayed device can equal no real one's."""
        return self._unreal + self.identity.class_id

    @property
    def family_id(self) -> str:
        """The device family; that of a simulated or replayed device can equal no real one's."""
        return self._unreal + self.identity.family_id

    @property
    def _unreal(self) -> str:
        return "sim-" if self.simulated else "replay-" if self.replayed else ""

    def to_json(self) -> dict[str, Any]:
        """The facts as nested JSON objects."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "DeviceFacts":
        """Inverse of `to_json`; unknown keys are refused, missing optional ones take their defaults.

        Raises:
            KeyError, TypeError: the object does not hold device facts.
        """
        identity = dict(data["identity"])
        identity["compute_capability"] = tuple(identity["compute_capability"])
        identity["max_link"] = _link(identity.get("max_link"))
        staleness = staleness_from_json(data["staleness"])
        return cls(data["uuid"], Identity(**identity), staleness, Provenance(**data["provenance"]))


def staleness_from_json(data: Mapping[str, Any]) -> Staleness:
    """From what `dataclasses.asdict` makes of one.

    Raises:
        TypeError: the object holds something else.
    """
    content = dict(data)
    return Staleness(**(content | {"trained_link": _link(content.get("trained_link"))}))


def _link(data: Mapping[str, int] | None) -> Link | None:
    return None if data is None else Link(**data)


def stale_fields(profile: Staleness, now: Staleness) -> tuple[str, ...]:
    """Names of the fields that both sides know and that differ."""
    pairs = ((f.name, getattr(profile, f.name), getattr(now, f.name)) for f in fields(Staleness))
    return tuple(name for name, old, new in pairs if old is not None and new is not None and old != new)
