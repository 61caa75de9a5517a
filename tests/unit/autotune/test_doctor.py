"""What the doctor says of devices, by what their engines answer."""

import json
from dataclasses import asdict, replace

import pytest

from pega_tune.autotune.capabilities import BatchCopies, HostLimits, MappedMemory
from pega_tune.autotune.capability_findings import findings_of
from pega_tune.autotune.doctor import ask_engine, examine_devices
from pega_tune.autotune.engine import Capabilities
from pega_tune.autotune.findings import Finding, Status
from pega_tune.autotune.isolation.messages import RemoteError
from pega_tune.autotune.sim.devices import sim_factory
from pega_tune.errors import DeviceError
from pega_tune.kernels.facts import DeviceFacts
from pega_tune.kernels.stream_options import PartitionSupport

H200 = sim_factory("sim:h200")
CAPABILITIES = H200().capabilities()
OLD = replace(H200.facts, uuid="GPU-old", identity=replace(H200.facts.identity, compute_capability=(7, 0)))


def told(capabilities: Capabilities) -> dict[str, Finding]:
    return {finding.part: finding for finding in findings_of("GPU 0", capabilities)}


def test_every_capability_is_told() -> None:
    details = {part: finding.detail for part, finding in told(CAPABILITIES).items()}
    expected = {
        "engine": "direct, batch, pitched, kernel, staged",
        "batched copies": "signature v2",
        "priorities": "0 (weakest) to -5 (strongest), and get 0, -1, -2, -3, -4, -5",
        "SM partitions": "8 to 128 SMs in steps of 8",
        "copy engines": "GPU 0: 3",
        "mapped memory": "at its own address",
        "host memory": "blocks may pin 64.0 GiB; limit on locked memory: none; limit of the control group: none",
        "NUMA": "on node unknown; this process runs on unknown",
    }
    assert list(details) == list(expected)
    for part, words in expected.items():
        assert words in details[part]
    assert {finding.status for finding in told(CAPABILITIES).values()} == {Status.OK}


def test_limits_of_the_host_are_told_in_their_unit() -> None:
    limits = HostLimits(locked_bytes=64 << 10, cgroup_bytes=6 << 30)
    detail = told(replace(CAPABILITIES, host=limits))["host memory"].detail
    assert "locked memory: 0.1 MiB" in detail
    assert "control group: 6.0 GiB" in detail


@pytest.mark.parametrize(
    ("part", "capabilities", "detail"),
    [
        ("batched copies", replace(CAPABILITIES, batch=BatchCopies(None, "killed by SIGSEGV")), "killed by SIGSEGV"),
        ("SM partitions", replace(CAPABILITIES, partitions=PartitionSupport.no("too old")), "too old"),
        ("mapped memory", replace(CAPABILITIES, mapped_memory=MappedMemory.NONE), "do not see"),
        ("NUMA", replace(CAPABILITIES, host=HostLimits(None, None, 1, (0, 2))), "on node 1; this process runs on 0, 2"),
    ],
)
def test_what_is_missing_is_a_warning_with_a_hint(part: str, capabilities: Capabilities, detail: str) -> None:
    found = told(capabilities)
    assert [p for p, finding in found.items() if finding.status is not Status.OK] == [part]
    assert (found[part].status, bool(found[part].hint)) == (Status.WARNING, True)
    assert detail in found[part].detail


def test_devices_are_asked_one_after_the_other() -> None:
    facts = replace(H200.facts, uuid="GPU-1"), OLD, replace(H200.facts, uuid="GPU-2")

    def ask(device: DeviceFacts) -> Capabilities:
        if device.uuid == "GPU-2":
            raise DeviceError("it is on fire", "call the fire brigade")
        return CAPABILITIES

    capabilities, findings = examine_devices(facts, ask)
    assert capabilities == {"GPU-1": CAPABILITIES}
    failed = [(finding.part, finding.detail, finding.hint) for finding in findings if finding.status is Status.FAILED]
    assert failed[1] == ("engine", "GPU 2: it is on fire", "call the fire brigade")
    assert [part for part, _, _ in failed] == ["device", "engine"]
    assert [finding.part for finding in findings].count("device") == 3


def test_an_engine_that_dies_of_a_bug_or_a_missing_package_is_a_finding() -> None:
    def ask(_device: DeviceFacts) -> Capabilities:
        raise RemoteError("the engine process failed\nTraceback:\nModuleNotFoundError: No module named 'numba'\n")

    _, findings = examine_devices((H200.facts,), ask)
    assert findings[-1].status is Status.FAILED
    assert findings[-1].detail == "GPU 0: ModuleNotFoundError: No module named 'numba'"


def test_engines_are_asked_in_a_process_of_their_own_and_answer_in_json() -> None:
    capabilities = ask_engine(H200.facts)
    assert capabilities == CAPABILITIES
    document = json.loads(json.dumps(asdict(capabilities)))
    assert document["partitions"]["sizes"] == {"least_sms": 8, "step_sms": 8, "device_sms": 132}
    assert (document["batch"]["signature"], document["mapped_memory"]) == ("v2", "same-address")
    assert document["host"] == {"locked_bytes": None, "cgroup_bytes": None, "device_node": None, "process_nodes": []}
