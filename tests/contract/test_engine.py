"""What every engine promises, whatever is behind it."""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from pega_tune.autotune.devices import MemoryLimits, find_device
from pega_tune.autotune.engine import Engine, Measurement, MemoryLimitError, Phase, SamplingLimits, Status
from pega_tune.autotune.isolated import IsolatedEngine
from pega_tune.autotune.layouts import NamedLayout
from pega_tune.autotune.measuring.schedule import BlockSchedule
from pega_tune.kernels.facts import DeviceFacts
from pega_tune.kernels.plan import Backend, direct
from pega_tune.kernels.probe import NoDeviceError
from pega_tune.kernels.shape import Direction, TransferShape
from tests.helpers.engines import BLOCK, WARP, transfer_block, unsupported_plan

MEMORY = MemoryLimits(device_bytes=64 << 20, host_bytes=64 << 20)
DIRECTIONS = list(Direction)


def _sim() -> Engine:
    return find_device("sim:h200", MEMORY).factory()


def _isolated() -> Engine:
    return IsolatedEngine(find_device("sim:h200", MEMORY).factory)


def _cuda() -> Engine:
    try:
        choice = find_device("auto", MEMORY)
    except NoDeviceError as error:
        pytest.skip(str(error))
    return IsolatedEngine(choice.factory, choice.timeouts)


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(_sim, id="sim"),
        pytest.param(_isolated, id="isolated-sim"),
        pytest.param(_cuda, id="isolated-cuda", marks=pytest.mark.gpu),
    ],
)
def make(request: pytest.FixtureRequest) -> Callable[[], Engine]:
    function: Callable[[], Engine] = request.param
    return function


@pytest.fixture(scope="module")
def engine(make: Callable[[], Engine]) -> Iterator[Engine]:
    engine = make()
    yield engine
    engine.close()


def _order(measurements: list[Measurement]) -> list[tuple[int, Phase]]:
    return [(m.candidate, m.phase) for m in measurements]


def _shape(direction: Direction) -> TransferShape:
    return TransferShape(64, 64 * 4096 + 5, direction)


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_everything_is_verified_once_before_anything_is_timed(engine: Engine, direction: Direction) -> None:
    block = transfer_block(_shape(direction))
    measurements = list(engine.transfer(block))
    count = len(block.candidates)
    assert _order(measurements)[:count] == [(index, Phase.VERIFY) for index in range(count)]
    assert all(m.phase is Phase.TIMED for m in measurements[count:])
    assert {m.status for m in measurements} == {Status.OK}


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_the_order_is_that_of_the_schedule(engine: Engine, direction: Direction) -> None:
    block = transfer_block(_shape(direction), limits=SamplingLimits(budget_s=0.01, min_rounds=4, max_rounds=12))
    schedule = BlockSchedule(block)
    for measurement in engine.transfer(block):
        schedule.record(measurement)  # refuses a measurement that is not due
    assert schedule.next() is None


def test_timed_parts_are_positive_and_no_longer_than_the_whole(engine: Engine) -> None:
    timed = [m for m in engine.transfer(transfer_block()) if m.phase is Phase.TIMED]
    assert timed
    for measurement in timed:
        assert 0 < measurement.transfer_s < 60
        assert measurement.prepare_s >= 0
        assert measurement.submit_s > 0
        assert measurement.prepare_s + measurement.submit_s <= measurement.transfer_s
        assert 0 < (measurement.moving_s or 0) < 60


def test_verification_takes_no_recorded_time(engine: Engine) -> None:
    verified = [m for m in engine.transfer(transfer_block()) if m.phase is Phase.VERIFY]
    assert {(m.transfer_s, m.prepare_s, m.submit_s) for m in verified} == {(0.0, 0.0, 0.0)}


def test_an_unsupported_plan_is_reported_once_and_the_others_go_on(engine: Engine) -> None:
    assert unsupported_plan().stream_priority not in engine.capabilities().priorities
    measurements = list(engine.transfer(transfer_block(plans=(unsupported_plan(), WARP))))
    refused = [m for m in measurements if m.candidate == 1]
    assert [(m.status, m.phase) for m in refused] == [(Status.UNSUPPORTED, Phase.VERIFY)]
    assert refused[0].detail
    assert Counter(m.candidate for m in measurements if m.status is Status.OK)[2] == 4


def test_an_excluded_candidate_takes_no_part_and_the_others_keep_their_order(engine: Engine) -> None:
    limits = SamplingLimits(budget_s=0.0, min_rounds=3, max_rounds=3, drop_ratio=1e9)
    whole = transfer_block(limits=limits)
    alone = _order(list(engine.transfer(whole)))
    without = _order(list(engine.transfer(replace(whole, excluded=frozenset({2})))))
    assert without == [step for step in alone if step[0] != 2]


def test_too_large_a_block_is_refused_and_the_next_one_runs(engine: Engine) -> None:
    capabilities = engine.capabilities()
    assert capabilities.device_bytes <= 64 << 20
    assert capabilities.host_bytes <= 64 << 20
    with pytest.raises(MemoryLimitError, match="memory"):
        list(engine.transfer(transfer_block(TransferShape(1, 1 << 34, Direction.H2D))))
    assert list(engine.transfer(transfer_block()))


@pytest.mark.parametrize("shape", [TransferShape(1, 1, Direction.BOTH), TransferShape(1, 8 << 20, Direction.BOTH)])
def test_one_byte_and_one_huge_range_can_be_measured(engine: Engine, shape: TransferShape) -> None:
    measurements = list(engine.transfer(transfer_block(shape, plans=(direct(), WARP, BLOCK))))
    assert {m.status for m in measurements} == {Status.OK}


@pytest.mark.parametrize("layout", ["contiguous", "strided", "host-ordered", "runs:9"])
def test_every_layout_can_be_measured(engine: Engine, layout: str) -> None:
    shape = TransferShape(64, 64 * 4096, Direction.BOTH)
    block = replace(transfer_block(shape), layout=NamedLayout.parse(layout))
    assert {m.status for m in engine.transfer(block)} == {Status.OK}


def test_capabilities_are_usable(engine: Engine) -> None:
    capabilities = engine.capabilities()
    assert {Backend.DIRECT, Backend.KERNEL} <= set(capabilities.backends)
    assert list(capabilities.priorities) == sorted(set(capabilities.priorities), reverse=True)
    assert capabilities.priorities[0] == 0
    assert capabilities.max_threads == 1024
    assert bool(capabilities.kernel_digest) != engine.facts.simulated


def test_conditions_are_told_or_excused(engine: Engine) -> None:
    list(engine.transfer(transfer_block()))
    conditions = engine.conditions()
    assert conditions.sm_clock_hz or conditions.unknown


def test_facts_survive_a_round_trip(engine: Engine) -> None:
    assert DeviceFacts.from_json(engine.facts.to_json()) == engine.facts


def test_two_engines_run_a_block_in_the_same_order(engine: Engine, make: Callable[[], Engine]) -> None:
    other = make()
    try:
        limits = SamplingLimits(budget_s=0.0, min_rounds=2, max_rounds=2)
        first, second = (_order(list(e.transfer(transfer_block(limits=limits)))) for e in (engine, other))
        assert first == second
    finally:
        other.close()


def test_closing_twice_is_harmless(make: Callable[[], Engine]) -> None:
    engine = make()
    engine.close()
    engine.close()
