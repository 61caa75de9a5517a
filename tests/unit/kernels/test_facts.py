import json
from dataclasses import fields, replace

import pytest

from pega_tune.kernels.facts import (
    DeviceFacts,
    Identity,
    Link,
    Match,
    Provenance,
    Staleness,
    stale_fields,
)

H200 = Identity(
    compute_capability=(9, 0),
    sm_count=132,
    memory_gib=140,
    copy_engines=3,
    pci_device_id="10de:2335",
    pci_subsystem_id="10de:18be",
    max_link=Link(5, 16),
    host_cpu="a CPU",
    numa_distance=10,
    iommu=False,
    confidential=False,
)
FACTS = DeviceFacts("GPU-1", H200, Staleness("580.1", "13.0", "6.1", Link(5, 16)), Provenance("NVIDIA H200", "host", 1))

OTHERS = {
    "compute_capability": (9, 1),
    "sm_count": 114,
    "memory_gib": 80,
    "copy_engines": 2,
    "mig_slice": "1g.18gb",
    "pci_device_id": "10de:2336",
    "pci_subsystem_id": None,
    "host_cpu": "another CPU",
    "numa_distance": 32,
    "iommu": True,
    "confidential": True,
}


def test_facts_survive_json() -> None:
    assert DeviceFacts.from_json(json.loads(json.dumps(FACTS.to_json()))) == FACTS
    bare = DeviceFacts("GPU-1", Identity((7, 5), 40, 16, 2), Staleness(), Provenance("T4"))
    assert DeviceFacts.from_json(json.loads(json.dumps(bare.to_json()))) == bare


@pytest.mark.parametrize("name", [f.name for f in fields(Identity) if f.name != "max_link"])
def test_every_other_field_makes_another_class(name: str) -> None:
    other = replace(H200, **{name: OTHERS[name]})
    assert other.class_id != H200.class_id
    assert H200.match(other) is Match.MISS


@pytest.mark.parametrize(
    ("link", "match"),
    [(Link(5, 16), Match.SAME), (Link(4, 16), Match.MISS), (Link(5, 8), Match.MISS), (None, Match.SUSPECT)],
)
def test_the_link_is_compared_and_an_unknown_one_is_suspect(link: Link | None, match: Match) -> None:
    other = replace(H200, max_link=link)
    assert other.class_id == H200.class_id
    assert H200.match(other) is match
    assert other.match(H200) is match


def test_the_class_stays_when_nvml_no_longer_tells_of_confidential_mode() -> None:
    assert replace(H200, confidential=None).class_id == H200.class_id


def test_a_simulated_device_shares_nothing_with_a_real_one() -> None:
    simulated = replace(FACTS, uuid="sim:h200")
    assert simulated.simulated
    assert not FACTS.simulated
    assert simulated.class_id != FACTS.class_id
    assert simulated.family_id != FACTS.family_id


def test_staleness_names_what_both_know_and_what_differs() -> None:
    now = Staleness("590.2", None, "6.1", Link(4, 16))
    assert stale_fields(FACTS.staleness, now) == ("driver", "trained_link")
    assert stale_fields(Staleness(), now) == ()
