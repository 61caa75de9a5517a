"""From measurements to the records that are stored."""

import pytest

from pega_tune.autotune.engine import Conditions, Measurement, Phase, Status
from pega_tune.autotune.measuring.cells import collect, flags_of
from pega_tune.autotune.sim.devices import sim_factory
from pega_tune.kernels.facts import Link
from pega_tune.profiles.store.records import BlockFlag, MeasurementRecord, Metric
from tests.helpers.engines import WARP, transfer_block, unsupported_plan

GEN5, GEN1, NARROW = Link(5, 16), Link(1, 16), Link(5, 8)


def test_a_cell_per_candidate_with_a_series_per_metric() -> None:
    block = transfer_block(plans=(WARP,))
    measurements = [
        Measurement(0, Phase.VERIFY),
        Measurement(1, Phase.VERIFY),
        Measurement(1, Phase.TIMED, transfer_s=2.0, prepare_s=0.2, submit_s=0.3, device_s=1.4),
        Measurement(0, Phase.TIMED, transfer_s=1.0),
        Measurement(1, Phase.TIMED, transfer_s=2.1, prepare_s=0.3, submit_s=0.4, device_s=1.5),
    ]
    ceiling, plan = collect(block, measurements)
    assert (ceiling.name, ceiling.kind, ceiling.status, ceiling.verified) == ("ceiling", "ceiling", "ok", True)
    assert [series.metric for series in ceiling.measurements] == [Metric.TRANSFER, Metric.PREPARE, Metric.SUBMIT]
    assert (plan.name, plan.kind, plan.plan) == (WARP.key, "plan", WARP)
    assert plan.measurements == (
        MeasurementRecord(Metric.TRANSFER, (2.0, 2.1)),
        MeasurementRecord(Metric.PREPARE, (0.2, 0.3)),
        MeasurementRecord(Metric.SUBMIT, (0.3, 0.4)),
        MeasurementRecord(Metric.DEVICE, (1.4, 1.5)),
    )


def test_what_the_host_and_the_sms_spent_and_moving_alone_are_series_of_their_own_if_known() -> None:
    timed = Measurement(1, Phase.TIMED, transfer_s=2.0, wait_cpu_s=0.5, sm_s=0.1, span_s=0.0, moving_s=1.9)
    _, cell = collect(transfer_block(plans=(WARP,)), [Measurement(1, Phase.VERIFY), timed])
    assert cell.measurements[-4:] == (
        MeasurementRecord(Metric.HOST_CPU, (0.5,)),
        MeasurementRecord(Metric.SM, (0.1,)),
        MeasurementRecord(Metric.SPAN, (0.0,)),
        MeasurementRecord(Metric.MOVING, (1.9,)),
    )


def test_a_failed_verification_is_not_verified_and_has_no_samples() -> None:
    block = transfer_block(plans=(unsupported_plan(), WARP))
    cells = collect(block, list(sim_factory("sim:h200+mismatch")().transfer(block)))
    assert [(c.status, c.verified, bool(c.measurements)) for c in cells] == [
        ("ok", True, True),
        ("unsupported", False, False),
        ("mismatch", False, False),
    ]
    assert all(cell.detail for cell in cells[1:])


def test_a_crash_in_a_round_keeps_its_status_and_detail() -> None:
    crashed = Measurement(1, Phase.TIMED, Status.CRASHED, detail="killed by SIGSEGV")
    _, cell = collect(transfer_block(plans=(WARP,)), [Measurement(0, Phase.VERIFY), crashed])
    assert (cell.status, cell.detail, cell.verified, cell.measurements) == ("crashed", "killed by SIGSEGV", False, ())


def test_an_invalid_sample_is_not_among_the_samples() -> None:
    measurements = [
        Measurement(1, Phase.VERIFY),
        Measurement(1, Phase.TIMED, transfer_s=1.0),
        Measurement(1, Phase.TIMED, Status.INVALID, transfer_s=-1.0, detail="negative"),
    ]
    _, cell = collect(transfer_block(plans=(WARP,)), measurements)
    assert (cell.status, cell.verified) == ("invalid", True)
    assert cell.measurements[0].samples == (1.0,)


def test_a_candidate_that_never_ran_is_invalid() -> None:
    cells = collect(transfer_block(plans=(WARP,)), [])
    assert {(cell.status, cell.detail) for cell in cells} == {("invalid", "never run")}


@pytest.mark.parametrize(
    ("conditions", "max_link", "flags"),
    [
        (Conditions(link=GEN5), GEN5, ()),
        (Conditions(throttle_reasons=("sw-thermal-slowdown",)), None, (BlockFlag.THROTTLED,)),
        (Conditions(other_processes=(1,)), None, (BlockFlag.CONTENDED,)),
        (Conditions(unknown="no NVML"), GEN5, (BlockFlag.NO_TELEMETRY,)),
        (Conditions(link=GEN1), GEN5, (BlockFlag.SLOW_LINK,)),
        (Conditions(link=NARROW), GEN5, (BlockFlag.SLOW_LINK,)),
        (Conditions(link=GEN1), None, ()),
        (Conditions(link=GEN5), GEN1, ()),
    ],
)
def test_flags(conditions: Conditions, max_link: Link | None, flags: tuple[BlockFlag, ...]) -> None:
    assert flags_of(conditions, max_link) == flags
