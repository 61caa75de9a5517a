"""Device facts out of a bundle, every field of its type and within what hardware can be."""

from typing import Any

from pega_tune.kernels.facts import DeviceFacts
from pega_tune.profiles.bundle.checks import mapping, text, whole
from pega_tune.profiles.bundle.errors import BundleError

# Generous bounds: what exists is far inside, what could only be damage or malice is outside.
_COUNTS = {
    "sm_count": (1, 1 << 16),
    "memory_gib": (0, 1 << 20),
    "copy_engines": (0, 1 << 10),
}
_TEXTS = ("pci_device_id", "pci_subsystem_id", "host_cpu")
_FLAGS = ("iommu", "confidential")
_MAX_NUMA_DISTANCE = 1 << 16
_LONGEST_WORD = 200


def parse_facts(value: Any) -> DeviceFacts:
    """Facts from the form that `DeviceFacts.to_json` gives them, with every key there.

    Raises:
        BundleError: a key is missing or unknown, or a value is not of its type or out of its range.
    """
    parts = mapping("the device", value, ("uuid", "identity", "staleness", "provenance"))
    if not _word("the uuid", parts["uuid"]):
        raise BundleError("the uuid is empty")
    _check_identity(parts["identity"])
    _check_staleness(parts["staleness"])
    _check_provenance(parts["provenance"])
    return DeviceFacts.from_json(value)


def _check_identity(value: Any) -> None:
    names = ("compute_capability", *_COUNTS, "mig_slice", *_TEXTS, "max_link", "numa_distance", *_FLAGS)
    identity = mapping("the identity", value, names)
    capability = identity["compute_capability"]
    if not isinstance(capability, list) or len(capability) != 2:
        raise BundleError("compute_capability is two whole numbers")
    for part in capability:
        whole("a part of compute_capability", part, 0, 99)
    for name, (low, high) in _COUNTS.items():
        whole(name, identity[name], low, high)
    _word("mig_slice", identity["mig_slice"])
    for name in _TEXTS:
        _optional_word(name, identity[name])
    for name in _FLAGS:
        if identity[name] is not None and type(identity[name]) is not bool:
            raise BundleError(f"{name} is true, false or null")
    if identity["numa_distance"] is not None:
        whole("numa_distance", identity["numa_distance"], 0, _MAX_NUMA_DISTANCE)
    _check_link("max_link", identity["max_link"])


def _check_staleness(value: Any) -> None:
    staleness = mapping("the staleness", value, ("driver", "cuda", "host_kernel", "trained_link"))
    for name in ("driver", "cuda", "host_kernel"):
        _optional_word(name, staleness[name])
    _check_link("trained_link", staleness["trained_link"])


def _check_provenance(value: Any) -> None:
    provenance = mapping("the provenance", value, ("name", "host", "max_sm_clock_hz"))
    _word("name", provenance["name"])
    _word("host", provenance["host"])
    if provenance["max_sm_clock_hz"] is not None:
        whole("max_sm_clock_hz", provenance["max_sm_clock_hz"], 0)


def _check_link(what: str, value: Any) -> None:
    if value is not None:
        link = mapping(what, value, ("generation", "width"))
        whole("a PCIe generation", link["generation"], 1, 16)
        whole("a PCIe width", link["width"], 1, 64)


def _word(what: str, value: Any) -> str:
    return text(what, value, _LONGEST_WORD)


def _optional_word(what: str, value: Any) -> None:
    if value is not None:
        _word(what, value)
