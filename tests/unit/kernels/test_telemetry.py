import pytest

from pega_tune.kernels.facts import Link
from pega_tune.kernels.telemetry import Telemetry, TelemetrySample, other_processes, slowing_reasons
from tests.helpers.fake_libraries import FakeNvml, absent

BUS_ID = "0000:65:00.0"
GHZ = 1_000_000_000
SAMPLED = (
    "nvmlDeviceGetClockInfo",
    "nvmlDeviceGetCurrPcieLinkGeneration",
    "nvmlDeviceGetCurrentClocksEventReasons",
    "nvmlDeviceGetTemperature",
)


def _telemetry(fake: FakeNvml) -> Telemetry:
    return Telemetry(BUS_ID, load=fake.load)


def test_a_sample_in_our_units() -> None:
    sample = _telemetry(FakeNvml(reasons=0x40)).sample()
    assert sample == TelemetrySample(1_830_000_000, Link(5, 16), ("hw-thermal-slowdown",), 41)


def test_absent_nvml_answers_nothing_and_says_why() -> None:
    telemetry = Telemetry(BUS_ID, load=absent)
    assert telemetry.sample() == TelemetrySample()
    assert telemetry.compute_pids() is None
    assert telemetry.driver_version() is None
    assert "cannot be loaded" in telemetry.unknown


@pytest.mark.parametrize(("function", "status"), [("nvmlInit_v2", 18), ("nvmlDeviceGetHandleByPciBusId_v2", 6)])
def test_nvml_that_does_not_start(function: str, status: int) -> None:
    telemetry = _telemetry(FakeNvml(results={function: status}))
    assert telemetry.sample() == TelemetrySample()
    assert function in telemetry.unknown


@pytest.mark.parametrize("function", SAMPLED)
@pytest.mark.parametrize("status", [3, 4, 13])
def test_a_refused_question_leaves_the_others_answered(function: str, status: int) -> None:
    sample = _telemetry(FakeNvml(results={function: status})).sample()
    answers = (sample.sm_clock_hz, sample.link, sample.slowed_by, sample.temperature_c)
    assert [answer is None for answer in answers] == [function == name for name in SAMPLED]


def test_nvml_that_stops_working_is_not_asked_again() -> None:
    fake = FakeNvml(answers=20)
    telemetry = _telemetry(fake)
    while telemetry.sample().sm_clock_hz is not None:
        pass
    asked = len(fake.calls)

    assert telemetry.sample() == TelemetrySample()
    assert telemetry.compute_pids() is None
    assert len(fake.calls) == asked == 21
    assert "stopped working" in telemetry.unknown


def test_drivers_that_call_the_reasons_throttling() -> None:
    fake = FakeNvml(reasons=0x8, missing=frozenset({"nvmlDeviceGetCurrentClocksEventReasons"}))
    assert _telemetry(fake).sample().slowed_by == ("hw-slowdown",)


@pytest.mark.parametrize("count", [0, 1, 64, 65, 300])
def test_any_number_of_processes(count: int) -> None:
    pids = tuple(range(count, 0, -1))
    assert _telemetry(FakeNvml(pids=pids)).compute_pids() == tuple(sorted(pids))


def test_processes_of_a_driver_without_the_third_version() -> None:
    fake = FakeNvml(pids=(7,), missing=frozenset({"nvmlDeviceGetComputeRunningProcesses_v3"}))
    assert _telemetry(fake).compute_pids() == (7,)


def test_a_temperature_of_zero_is_a_temperature() -> None:
    fake = FakeNvml()
    fake.numbers = {**fake.numbers, "nvmlDeviceGetTemperature": 0, "nvmlDeviceGetClockInfo": 0}
    sample = _telemetry(fake).sample()
    assert sample.temperature_c == 0
    assert sample.sm_clock_hz is None


def test_after_close_it_is_silent() -> None:
    fake = FakeNvml()
    telemetry = _telemetry(fake)
    telemetry.close()
    assert fake.calls[-1] == "nvmlShutdown"
    assert telemetry.sample() == TelemetrySample()


@pytest.mark.parametrize("mask", [0x0, 0x1, 0x2, 0x100, 0x103])
def test_idle_and_chosen_clocks_do_not_slow(mask: int) -> None:
    assert slowing_reasons(mask, 1 * GHZ, 2 * GHZ) == ()


def test_every_slowing_reason_has_a_name() -> None:
    names = slowing_reasons(0x1FE, None, None)
    assert names == (
        "sw-power-cap",
        "hw-slowdown",
        "sync-boost",
        "sw-thermal-slowdown",
        "hw-thermal-slowdown",
        "hw-power-brake",
    )


@pytest.mark.parametrize(
    ("mask", "clock_hz", "slows"),
    [(0x4, 1.95 * GHZ, False), (0x4, 1.2 * GHZ, True), (0x4, None, True), (0x5, 0.3 * GHZ, False)],
)
def test_a_power_cap_slows_only_if_it_takes_much_of_the_clock(mask: int, clock_hz: int | None, slows: bool) -> None:
    assert slowing_reasons(mask, clock_hz, 2 * GHZ) == (("sw-power-cap",) if slows else ())


@pytest.mark.parametrize(
    ("listed", "before", "others"),
    [
        (None, None, None),
        ((), (), None),  # not even we are listed
        ((42,), (), ()),
        ((7, 42), (7,), (7,)),
        ((42, 99), None, (99,)),
        ((31_337,), (), ()),  # our entry, in the host's pid namespace
        ((31_337,), None, ()),
        ((900, 31_337), (900,), (900,)),
        ((900, 31_337), None, (900, 31_337)),  # one of the two is ours, so another one is there
        ((900,), (900,), ()),  # one entry, one context
    ],
)
def test_other_processes(
    listed: tuple[int, ...] | None, before: tuple[int, ...] | None, others: tuple[int, ...] | None
) -> None:
    assert other_processes(listed, before, ours=42) == others
