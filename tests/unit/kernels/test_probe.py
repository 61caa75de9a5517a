from pathlib import Path

import pytest

from pega_tune.kernels.facts import DeviceFacts, Link, Match
from pega_tune.kernels.host import Host
from pega_tune.kernels.probe import DriverError, NoDeviceError, Sources, list_devices
from tests.helpers.fake_libraries import H200, SLICE, FakeCuda, FakeNvml, absent

BUS_ID = "0000:65:00.0"


def _sources(cuda: FakeCuda, nvml: FakeNvml | None = None, root: Path = Path("/nonexistent")) -> Sources:
    return Sources(cuda.load, nvml.load if nvml else absent, Host(root))


def _one(cuda: FakeCuda, nvml: FakeNvml | None = None, root: Path = Path("/nonexistent")) -> DeviceFacts:
    (facts,) = list_devices(sources=_sources(cuda, nvml, root))
    return facts


def _host(root: Path) -> Path:
    device = root / "sys/bus/pci/devices" / BUS_ID
    files = {
        root / "proc/cpuinfo": "processor\t: 0\nmodel name\t: Xeon Platinum 8480C\n",
        root / "proc/driver/nvidia/version": "NVRM version: NVIDIA UNIX x86_64 Kernel Module  570.1.02  Tue\n",
        device / "vendor": "0x10de\n",
        device / "device": "0x2335\n",
        device / "subsystem_vendor": "0x10de\n",
        device / "subsystem_device": "0x18be\n",
        device / "max_link_speed": "32.0 GT/s PCIe\n",
        device / "max_link_width": "16\n",
    }
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def test_facts_of_a_whole_gpu() -> None:
    facts = _one(FakeCuda(), FakeNvml())

    assert facts.uuid == f"GPU-{H200}"
    assert facts.identity.compute_capability == (9, 0)
    assert (facts.identity.sm_count, facts.identity.copy_engines, facts.identity.memory_gib) == (132, 3, 140)
    assert facts.identity.mig_slice == ""
    assert (facts.identity.pci_device_id, facts.identity.pci_subsystem_id) == ("10de:2335", "10de:18be")
    assert facts.identity.max_link == Link(5, 16)
    assert facts.identity.confidential is False
    assert (facts.staleness.driver, facts.staleness.cuda) == ("580.159.03", "13.0")
    assert facts.provenance.name == "NVIDIA H200"
    assert facts.provenance.max_sm_clock_hz == 1_980_000_000


def test_facts_survive_json() -> None:
    facts = _one(FakeCuda(), FakeNvml())
    assert DeviceFacts.from_json(facts.to_json()) == facts


def test_without_nvml_sysfs_answers(tmp_path: Path) -> None:
    facts = _one(FakeCuda(), None, _host(tmp_path))

    assert (facts.identity.pci_device_id, facts.identity.pci_subsystem_id) == ("10de:2335", "10de:18be")
    assert facts.identity.max_link == Link(5, 16)
    assert facts.staleness.driver == "570.1.02"
    assert facts.identity.host_cpu == "Xeon Platinum 8480C"


def test_without_nvml_and_sysfs_identity_still_holds() -> None:
    facts = _one(FakeCuda())

    assert facts.uuid == f"GPU-{H200}"
    assert facts.identity.pci_device_id is None
    assert facts.identity.max_link is None
    assert facts.identity.confidential is None
    assert facts.staleness.driver is None


@pytest.mark.parametrize("status", [3, 4, 999])
def test_refused_numbers_are_unknown_not_zero(status: int) -> None:
    nvml = FakeNvml(results={"nvmlDeviceGetMaxPcieLinkGeneration": status, "nvmlSystemGetConfComputeState": status})
    facts = _one(FakeCuda(), nvml)
    assert facts.identity.max_link is None
    assert facts.identity.confidential is None


@pytest.mark.parametrize("value", [0, 2**32 - 1])
def test_placeholders_of_the_driver_are_unknown(value: int) -> None:
    nvml = FakeNvml(pci_device=value)
    nvml.numbers = {**nvml.numbers, "nvmlDeviceGetMaxPcieLinkWidth": value}
    facts = _one(FakeCuda(), nvml)
    assert facts.identity.pci_device_id is None
    assert facts.identity.max_link is None


def _slice(name: str = "NVIDIA H200") -> FakeCuda:
    return FakeCuda(
        name=name, unit=SLICE, memory_bytes=18 << 30, attributes={13: 1_980_000, 16: 16, 40: 1, 75: 9, 76: 0}
    )


def test_a_mig_slice_is_named_by_its_own_uuid_and_profile() -> None:
    facts = _one(_slice(), FakeNvml())
    assert facts.uuid == f"MIG-{SLICE}"
    assert facts.identity.mig_slice == "1g.18gb"


def test_the_profile_of_a_slice_is_taken_from_cuda_without_nvml() -> None:
    assert _one(_slice("NVIDIA H200 MIG 1g.18gb")).identity.mig_slice == "1g.18gb"


def test_a_slice_never_matches_its_whole_card() -> None:
    refused = FakeNvml(results={"nvmlDeviceGetName": 4, "nvmlDeviceGetPciInfo_v3": 4})
    part, whole = _one(_slice(), refused), _one(FakeCuda(), FakeNvml())
    assert part.provenance.name == whole.provenance.name
    assert whole.identity.match(part.identity) is Match.MISS
    assert part.identity.match(whole.identity) is Match.MISS


def test_an_old_driver_without_the_second_uuid_call() -> None:
    facts = _one(FakeCuda(results={"cuDeviceGetUuid_v2": 500}), FakeNvml())
    assert facts.uuid == f"GPU-{H200}"


def test_no_driver_library() -> None:
    with pytest.raises(NoDeviceError, match="CUDA driver cannot be loaded") as caught:
        list_devices(sources=Sources(driver=absent))
    assert "sim:h200" in caught.value.hint


@pytest.mark.parametrize("visible", ["", "-1", "GPU-1234"])
def test_hidden_devices_quote_the_variable(visible: str) -> None:
    with pytest.raises(NoDeviceError) as caught:
        list_devices(visible, _sources(FakeCuda(results={"cuInit": 100})))
    assert f"CUDA_VISIBLE_DEVICES is '{visible}'" in caught.value.message
    assert "CUDA_ERROR_NO_DEVICE (100)" in caught.value.message


def test_a_driver_that_counts_no_device() -> None:
    with pytest.raises(NoDeviceError) as caught:
        list_devices(sources=_sources(FakeCuda(count=0)))
    assert "CUDA_VISIBLE_DEVICES is" not in caught.value.message


@pytest.mark.parametrize("results", [{"cuInit": 803}, {"cuInit": 4242}, {"cuDeviceGetCount": 803}])
def test_a_broken_driver_is_not_a_missing_device(results: dict[str, int]) -> None:
    with pytest.raises(DriverError, match=f"{next(iter(results.values()))}"):
        list_devices(sources=_sources(FakeCuda(results=results)))


def test_messages_are_one_line() -> None:
    for cuda, visible in ((FakeCuda(results={"cuInit": 100}), "0,1"), (FakeCuda(count=0), None)):
        with pytest.raises(NoDeviceError) as caught:
            list_devices(visible, _sources(cuda))
        assert "\n" not in caught.value.message + caught.value.hint
