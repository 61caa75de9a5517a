"""Programs with timed kernels, and what their spans come to."""

from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pega_tune.kernels.commands import Op
from pega_tune.kernels.driver import DriverCallError, DriverFunction
from pega_tune.kernels.program import Launch, Program, ProgramBuilder
from pega_tune.kernels.shape import Direction
from pega_tune.kernels.spans import NO_LAUNCH, LaunchBounds, TimedLaunch, copies_in_batches, spans_of
from tests.helpers.fake_driver import CALL_NS, SPAN_NS, TIMED, FakeDriver
from tests.helpers.programs import SIDE_STREAM, STREAM, route, run
from tests.helpers.spans import RESIDENT_BLOCKS, HostSpans, recorder

KERNEL = 2**63 + 5
NANOSECOND = 1e-9


def launching(*grids: int) -> Program:
    """An upload, launches with a barrier between them, the last one in the side stream, and a copy."""
    builder = ProgramBuilder(route())
    builder.copy(Direction.H2D, (2**63 + 64, 4096), 24)
    for number, grid in enumerate(grids):
        if number:
            builder.complete_first()
        stream = SIDE_STREAM if number and number == len(grids) - 1 else STREAM
        builder.launch(Launch(KERNEL, grid, 64 + 32 * number, (2**63 + number, 7 + number)), stream)
    builder.copy(Direction.D2H, (4096, 2**63 + 64), 8)
    return builder.finish()


@pytest.mark.parametrize(
    ("grid", "resident", "per_sm"),
    [(1, 8, 1.0), (132, 8, 1.0), (198, 8, 1.5), (1056, 8, 8.0), (16_384, 8, 8.0), (16_384, 1, 1.0), (5, 0, 1.0)],
)
def test_ctas_that_share_an_sm(grid: int, resident: int, per_sm: float) -> None:
    assert TimedLaunch.of(grid, resident, 132).per_sm == per_sm


@given(st.integers(1, 3000), st.integers(1, 16), st.integers(1, 200))
def test_one_wave_of_equal_spans_costs_the_sms_that_it_reaches(grid: int, resident: int, sms: int) -> None:
    grid = min(grid, resident * sms)
    times = np.tile(np.array([1000, 3000], np.uint64), (grid, 1))
    spans = spans_of(times, [TimedLaunch.of(grid, resident, sms)])
    assert spans.sm_s == pytest.approx(min(grid, sms) * 2000 * NANOSECOND)
    assert spans.span_s == pytest.approx(2000 * NANOSECOND)


def test_launches_add_up_and_the_gaps_between_them_count_as_resident_time() -> None:
    times = np.array([(100, 200), (150, 350), (900, 1000), (900, 1000), (900, 1000)], np.uint64) + np.uint64(2**60)
    spans = spans_of(times, [TimedLaunch(2, 1.0), TimedLaunch(3, 1.5)])
    assert spans.sm_s == pytest.approx((100 + 200 + 300 / 1.5) * NANOSECOND)
    assert spans.span_s == pytest.approx(900 * NANOSECOND)


def test_timed_programs_do_what_the_programs_do_with_other_kernels_and_are_as_before_then() -> None:
    driver, program = FakeDriver(), launching(5, 40)
    before = program.commands.copy()
    run(driver.table, program)
    plain = driver.calls
    driver.forget()
    recorder().record([program], [LaunchBounds()], partial(run, driver.table, program))
    changed = driver.calls
    assert [call.function for call in plain] == [call.function for call in changed]
    for one, other in zip(plain, changed, strict=True):
        if one.function is DriverFunction.LAUNCH_KERNEL:
            assert other.arguments[0] == one.arguments[0] | TIMED
            assert other.arguments[1:9] == one.arguments[1:9]  # grid, block, shared memory, stream
            assert other.arguments[11:] == one.arguments[11:]  # descriptors and their number
        else:
            assert other == one
    assert (program.commands == before).all()


def test_a_program_that_fails_is_as_before_too() -> None:
    driver, program = FakeDriver(), launching(5)
    before = program.commands.copy()
    driver.fail(1, 1)
    with pytest.raises(DriverCallError, match="cuLaunchKernel"):
        recorder().record([program], [LaunchBounds()], partial(run, driver.table, program))
    assert (program.commands == before).all()


def test_spans_of_all_programs_are_read_together() -> None:
    memory, driver = HostSpans(), FakeDriver()
    programs = [launching(3), launching(8, 2)]

    def move() -> None:
        for program in programs:
            run(driver.table, program)

    spans = recorder(memory).record(programs, [LaunchBounds(), LaunchBounds(sms=2)], move)
    assert memory.reserved == (3 + 8 + 2) * 16
    launches = [i for i, call in enumerate(driver.calls) if call.function is DriverFunction.LAUNCH_KERNEL]
    resident = RESIDENT_BLOCKS * 2  # of the second program, in its partition
    sms = 3 + 8 * (2 / resident) + 2
    assert spans.sm_s == pytest.approx(sms * SPAN_NS * NANOSECOND)
    assert spans.span_s == pytest.approx(((launches[-1] - launches[0]) * CALL_NS + SPAN_NS) * NANOSECOND)


def test_a_transfer_without_kernels_is_not_run() -> None:
    memory = HostSpans()

    def move() -> None:
        raise AssertionError("nothing to time")

    assert recorder(memory).record([launching()], [LaunchBounds()], move) == NO_LAUNCH
    assert memory.reserved == 0


def test_batched_copies_are_told_apart() -> None:
    builder = ProgramBuilder(route())
    builder.batch(Op.BATCH_V2, (0,) * 7)
    batched = builder.finish()
    assert copies_in_batches([launching(1), batched])
    assert not copies_in_batches([launching(1), launching()])
