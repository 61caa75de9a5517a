"""From what a user calls a device to its facts and its engine."""

import pickle
from dataclasses import replace

import pytest

from pega_tune.autotune.devices import MemoryLimits, Probe, SimulatorError, UnknownDeviceError, all_devices, find_device
from pega_tune.autotune.sim.devices import sim_factory, sim_names
from pega_tune.errors import DeviceError, UsageError
from pega_tune.kernels.facts import DeviceFacts
from pega_tune.kernels.probe import DriverError, NoDeviceError

SIMULATED = sim_factory("sim:h200").facts
FIRST, SECOND, SLICE = (replace(SIMULATED, uuid=uuid) for uuid in ("GPU-aa11-22", "GPU-aa33-44", "MIG-bb55-66"))


def _two() -> tuple[DeviceFacts, ...]:
    return (FIRST, SECOND, SLICE)


def _none() -> tuple[DeviceFacts, ...]:
    raise NoDeviceError("no GPU: none here", "`--device sim:h200` needs no GPU")


def _broken() -> tuple[DeviceFacts, ...]:
    raise DriverError("the CUDA driver does not start")


def _never() -> tuple[DeviceFacts, ...]:
    raise AssertionError("the driver was asked")


@pytest.fixture(autouse=True)
def no_simulator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NUMBA_ENABLE_CUDASIM", raising=False)


@pytest.mark.parametrize(
    ("spec", "facts"),
    [
        ("auto", FIRST),
        ("0", FIRST),
        ("1", SECOND),
        ("2", SLICE),
        ("GPU-aa33-44", SECOND),
        ("GPU-aa1", FIRST),
        ("gpu-AA33", SECOND),
        ("MIG-", SLICE),
    ],
)
def test_real_devices_by_order_number_and_uuid(spec: str, facts: DeviceFacts) -> None:
    choice = find_device(spec, MemoryLimits(1 << 30, 1 << 29), probe=_two)
    assert choice.facts == facts
    assert pickle.loads(pickle.dumps(choice.factory)) == choice.factory


def test_the_factory_of_a_real_device_knows_its_uuid_and_limits() -> None:
    from pega_tune.autotune.cuda.factory import CudaEngineFactory

    choice = find_device("auto", MemoryLimits(1 << 30, 1 << 29), probe=_two)
    assert choice.factory == CudaEngineFactory(FIRST.uuid, 1 << 30, 1 << 29)


@pytest.mark.parametrize(
    "spec", ["3", "99999999999999999999", "GPU-cc", "nonsense", "", "-1", "1.0", " 0", "²", "h200", "aa33"]
)
@pytest.mark.parametrize("probe", [_two, _none])
def test_an_unknown_name_is_bad_usage_and_those_known_are_listed(spec: str, probe: Probe) -> None:
    looks_real = spec.startswith(("GPU", "3", "9"))
    expected = NoDeviceError if looks_real and probe is _none else UnknownDeviceError
    with pytest.raises(expected) as caught:
        find_device(spec, probe=probe)
    assert "sim:h200" in caught.value.hint
    if expected is UnknownDeviceError and probe is _two:
        assert "1 (GPU-aa33-44)" in caught.value.hint


def test_an_ambiguous_prefix_is_bad_usage_and_names_the_candidates() -> None:
    with pytest.raises(UnknownDeviceError, match="2 devices") as caught:
        find_device("GPU-aa", probe=_two)
    assert FIRST.uuid in caught.value.hint
    assert SECOND.uuid in caught.value.hint
    assert SLICE.uuid not in caught.value.hint


def test_no_gpu_names_the_simulated_device() -> None:
    with pytest.raises(NoDeviceError) as caught:
        find_device(probe=_none)
    assert isinstance(caught.value, DeviceError)
    assert "--device sim:h200" in caught.value.hint


def test_a_simulated_device_asks_no_driver_and_honours_limits() -> None:
    choice = find_device("sim:h200+throttled", MemoryLimits(1 << 30, 1 << 29), probe=_never)
    capabilities = choice.factory().capabilities()
    assert choice.facts == SIMULATED
    assert (capabilities.device_bytes, capabilities.host_bytes) == (1 << 30, 1 << 29)
    assert choice.factory().conditions().throttle_reasons


@pytest.mark.parametrize("spec", ["sim:h100", "sim:h200+melted"])
def test_an_unknown_simulated_device_or_fault_is_bad_usage(spec: str) -> None:
    with pytest.raises(UsageError):
        find_device(spec, probe=_never)


@pytest.mark.parametrize("value", ["1", "2", "yes"])
def test_numbas_simulator_is_refused_for_real_devices_only(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMBA_ENABLE_CUDASIM", value)
    with pytest.raises(SimulatorError, match=f"NUMBA_ENABLE_CUDASIM is set to {value}"):
        find_device("auto", probe=_two)
    assert find_device("sim:h200").facts == SIMULATED


@pytest.mark.parametrize("value", ["0", ""])
def test_numbas_simulator_may_be_switched_off(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMBA_ENABLE_CUDASIM", value)
    assert find_device("auto", probe=_two).facts == FIRST


def test_all_devices_are_the_real_ones_then_the_simulated_ones() -> None:
    simulated = tuple(sim_factory(name).facts for name in sim_names())
    assert SIMULATED in simulated
    assert all_devices(_two) == (FIRST, SECOND, SLICE, *simulated)
    assert all_devices(_none) == simulated


def test_a_broken_driver_is_not_passed_over() -> None:
    with pytest.raises(DriverError):
        all_devices(_broken)
