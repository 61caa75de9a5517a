import ctypes

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pega_tune.kernels.driver import DriverCallError, DriverFunction, DriverTable
from pega_tune.kernels.executor import Execution, Progress, advance_address, failure
from pega_tune.kernels.program import Launch, Lease, Op, Program, ProgramBuilder, StaleError, address_of
from pega_tune.kernels.shape import Direction
from tests.helpers.fake_driver import Call, FakeDriver
from tests.helpers.programs import FIRST_EVENT, SIDE_STREAM, STREAM, route

HIGH = 2**64 - 2**20
F = DriverFunction


def columns(count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    step = np.arange(count, dtype=np.uint64)
    return np.uint64(HIGH) + step, np.uint64(2**63) + step, step + np.uint64(2**40)


def everything() -> Program:
    """One command of each kind that calls the driver, without barriers; 15 calls."""
    builder = ProgramBuilder(route(start=5, end=6))
    builder.copy(Direction.H2D, (HIGH, 2), 2**40 + 3)
    builder.copy(Direction.D2H, (3, HIGH), 5, SIDE_STREAM)
    builder.copies(Direction.H2D, columns(5), (1, 3))
    builder.copies(Direction.D2H, columns(2), None, SIDE_STREAM)
    memcpy_2d = np.zeros(16, np.uint64)
    memcpy_2d[[2, 3, 6, 9, 11, 13, 14, 15]] = (1, HIGH, 100, 2, HIGH + 7, 200, 30, 4)
    builder.copy_2d(address_of(memcpy_2d))
    builder.keep(memcpy_2d)
    builder.batch(Op.BATCH_V1, (HIGH, 2, 3, 4, 5, 6, 7, HIGH + 8))
    builder.batch(Op.BATCH_V2, (HIGH, 2, 3, 4, 5, 6, 7), SIDE_STREAM)
    builder.launch(Launch(HIGH + 3, 65_535, 1024, (HIGH, 100_000)))
    builder.await_event(77, SIDE_STREAM)
    return builder.finish()


def expected() -> list[Call]:
    to, at, size = (column.tolist() for column in columns(5))
    return [
        Call(F.EVENT_RECORD, (5, STREAM)),
        Call(F.MEMCPY_HTOD_ASYNC, (HIGH, 2, 2**40 + 3, STREAM)),
        Call(F.MEMCPY_DTOH_ASYNC, (3, HIGH, 5, SIDE_STREAM)),
        *(Call(F.MEMCPY_HTOD_ASYNC, (to[i], at[i], size[i], STREAM)) for i in (1, 2, 3)),
        *(Call(F.MEMCPY_DTOH_ASYNC, (to[i], at[i], size[i], SIDE_STREAM)) for i in (0, 1)),
        Call(F.MEMCPY_2D_ASYNC, (HIGH + 7, 200, HIGH, 100, 30, 4, STREAM)),
        Call(F.MEMCPY_BATCH_ASYNC_V1, (HIGH, 2, 3, 4, 5, 6, 7, HIGH + 8, STREAM)),
        Call(F.MEMCPY_BATCH_ASYNC_V2, (HIGH, 2, 3, 4, 5, 6, 7, SIDE_STREAM)),
        Call(F.LAUNCH_KERNEL, (HIGH + 3, 65_535, 1, 1, 1024, 1, 1, 0, STREAM, -1, 0, HIGH, 100_000)),
        Call(F.STREAM_WAIT_EVENT, (SIDE_STREAM, 77, 0)),
        Call(F.EVENT_RECORD, (6, STREAM)),
    ]


def comparable(calls: list[Call]) -> list[Call]:
    """Without the address of kernel parameters, which is nobody's business."""
    return [
        call._replace(arguments=(*call.arguments[:9], -1, *call.arguments[10:]))
        if call.function is F.LAUNCH_KERNEL
        else call
        for call in calls
    ]


def test_every_command_calls_its_function_with_exact_arguments() -> None:
    driver = FakeDriver()
    assert Execution(driver.table, everything()).advance() is Progress.SUBMITTED
    assert comparable(driver.calls) == expected()


# Which command each call belongs to, and the range inside it where there are many.
PLACES = [
    (0, 0),
    (1, 1),
    (2, 2),
    (3, 1),
    (3, 2),
    (3, 3),
    (4, 0),
    (4, 1),
    (5, 5),
    (6, 6),
    (7, 7),
    (8, 8),
    (9, 9),
    (10, 10),
]


@pytest.mark.parametrize(("call", "place"), list(enumerate(PLACES)))
def test_a_failure_at_any_call_is_named_and_nothing_is_called_after_it(call: int, place: tuple[int, int]) -> None:
    driver = FakeDriver()
    driver.fail(call, 719)
    execution = Execution(driver.table, everything())
    with pytest.raises(DriverCallError) as caught:
        execution.advance()
    error = caught.value
    assert (error.function, error.status, error.index) == (expected()[call].function.symbol, 719, place[1])
    assert execution.place[0] == place[0]
    assert comparable(driver.calls) == expected()[: call + 1]


def test_a_barrier_that_is_shut_holds_up_what_comes_after_it_alone() -> None:
    driver = FakeDriver()
    builder = ProgramBuilder(route())
    builder.copy(Direction.H2D, (1, 2), 3)
    builder.complete_first()
    builder.copy(Direction.H2D, (4, 5), 6)
    execution = Execution(driver.table, builder.finish())
    driver.delay(2)
    query = Call(F.EVENT_QUERY, (FIRST_EVENT,))
    assert execution.advance() is Progress.PENDING
    assert driver.calls[1:] == [Call(F.EVENT_RECORD, (FIRST_EVENT, STREAM)), query]
    driver.forget()
    assert execution.advance() is Progress.PENDING
    assert driver.calls == [query]
    driver.forget()
    assert execution.advance() is Progress.SUBMITTED
    assert [call.function for call in driver.calls] == [F.EVENT_QUERY, F.MEMCPY_HTOD_ASYNC, F.EVENT_RECORD]
    driver.forget()
    assert execution.advance() is Progress.SUBMITTED  # there is nothing left to do
    assert driver.calls == []


@given(st.lists(st.integers(0, 3), max_size=12), st.integers(0, 4))
def test_any_program_makes_its_calls_once_and_in_order_however_late_events_are(steps: list[int], late: int) -> None:
    driver = FakeDriver()
    builder = ProgramBuilder(route())
    wanted: list[Call] = []
    barriers = 0
    for step in steps:
        if step == 0:
            builder.complete_first()
            wanted.append(Call(F.EVENT_RECORD, (FIRST_EVENT + barriers, STREAM)))
            barriers += 1
        else:
            builder.copies(Direction.D2H, columns(step))
            to, at, size = (column.tolist() for column in columns(step))
            wanted += [Call(F.MEMCPY_DTOH_ASYNC, (to[i], at[i], size[i], STREAM)) for i in range(step)]
    program = builder.finish()
    wanted.append(Call(F.EVENT_RECORD, (program.end, STREAM)))
    driver.delay(late)
    execution = Execution(driver.table, program)
    stops = 0
    while execution.advance() is Progress.PENDING:
        stops += 1
    assert stops == late * steps.count(0)
    assert [call for call in driver.calls if call.function is not F.EVENT_QUERY] == wanted


def test_a_failure_that_a_barrier_finds_is_named() -> None:
    driver = FakeDriver()
    builder = ProgramBuilder(route())
    builder.complete_first()
    driver.fail(1, 700)
    with pytest.raises(DriverCallError, match="cuEventQuery failed at index 1 with 700"):
        Execution(driver.table, builder.finish()).advance()


def test_a_function_that_the_driver_lacks_is_an_error_and_no_crash() -> None:
    driver = FakeDriver()
    table = DriverTable.of({function: 1 for function in F if not function.is_optional})
    assert not table.has(F.MEMCPY_BATCH_ASYNC_V2)
    builder = ProgramBuilder(route())
    builder.batch(Op.BATCH_V2, (1, 2, 3, 4, 5, 6, 7))
    with pytest.raises(DriverCallError, match="cuMemcpyBatchAsync failed at index 0 with 801"):
        Execution(table, builder.finish()).advance()
    assert driver.calls == []


def test_a_program_whose_buffers_were_taken_away_goes_no_further() -> None:
    driver = FakeDriver()
    lease = Lease()
    builder = ProgramBuilder(route())
    builder.complete_first()
    execution = Execution(driver.table, builder.finish(lease))
    driver.delay(1)
    execution.advance()
    lease.revoked = True
    with pytest.raises(StaleError):
        execution.advance()


def test_native_code_elsewhere_runs_programs_through_an_address() -> None:
    driver = FakeDriver()
    program = everything()
    progress = np.zeros(2, np.int64)
    advance = ctypes.CFUNCTYPE(ctypes.c_int, *(ctypes.c_uint64,) * 4)(advance_address())
    arguments = (address_of(driver.table.addresses), address_of(program.commands), len(program), address_of(progress))
    driver.fail(4, 1)
    assert advance(*arguments) == 1
    assert progress.tolist() == [3, 2]
    error = failure(driver.table, program.commands, 1, (3, 2))
    assert (error.function, error.index) == ("cuMemcpyHtoDAsync", 2)
    driver = FakeDriver()
    progress[:] = 0
    assert advance(*arguments) == 0
    assert comparable(driver.calls) == expected()
