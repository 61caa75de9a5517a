import ctypes

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba import carray, types

from pega_tune.kernels.commands import Op, address_of
from pega_tune.kernels.driver import DriverCallError, DriverFunction, DriverTable
from pega_tune.kernels.executor import Execution, Progress, advance_address, failure, functions_of
from pega_tune.kernels.native import callback, pointer
from pega_tune.kernels.program import Launch, Lease, Program, ProgramBuilder, StaleError
from pega_tune.kernels.shape import Direction
from pega_tune.kernels.worker import TransferWorker
from pega_tune.kernels.worker_states import JobState
from tests.helpers.fake_driver import Call, FakeDriver
from tests.helpers.programs import FIRST_EVENT, SIDE_STREAM, STREAM, route

HIGH = 2**64 - 2**20
FUNCTION = 2**64 - 2**41  # not one of those that the fake takes for a kernel with spans
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
    builder.launch(Launch(FUNCTION, 65_535, 1024, (HIGH, 100_000)))
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
        Call(F.LAUNCH_KERNEL, (FUNCTION, 65_535, 1, 1, 1024, 1, 1, 0, STREAM, -1, 0, HIGH, 100_000)),
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


def test_a_program_that_gives_way_stops_there_once_and_goes_on_behind() -> None:
    driver = FakeDriver()
    builder = ProgramBuilder(route())
    builder.copy(Direction.H2D, (1, 2), 3)
    builder.give_way()
    builder.copy(Direction.H2D, (4, 5), 6)
    builder.give_way()
    builder.give_way()
    execution = Execution(driver.table, builder.finish())
    first, second = (Call(F.MEMCPY_HTOD_ASYNC, (*operands, STREAM)) for operands in ((1, 2, 3), (4, 5, 6)))
    end = Call(F.EVENT_RECORD, (FIRST_EVENT, STREAM))
    steps = []
    for _ in range(5):
        driver.forget()
        steps.append((execution.advance(), execution.place[0], driver.calls))
    assert steps == [
        (Progress.PENDING, 2, [first]),
        (Progress.PENDING, 4, [second]),
        (Progress.PENDING, 5, []),
        (Progress.SUBMITTED, 6, [end]),
        (Progress.SUBMITTED, 6, []),
    ]


def test_a_program_that_has_given_way_goes_no_further_without_its_buffers() -> None:
    driver, lease = FakeDriver(), Lease()
    builder = ProgramBuilder(route())
    builder.give_way()
    execution = Execution(driver.table, builder.finish(lease))
    assert execution.advance() is Progress.PENDING
    lease.revoked = True
    with pytest.raises(StaleError):
        execution.advance()
    assert driver.calls == []


def test_native_code_is_told_which_function_a_command_calls() -> None:
    table = FakeDriver().table
    functions = functions_of(table)
    assert functions_of(table) is functions
    assert len(functions) == len(Op)
    assert functions[Op.COPIES_TO_HOST] == table.address(F.MEMCPY_DTOH_ASYNC)
    assert functions[Op.BARRIER] == table.address(F.EVENT_QUERY)
    assert functions[Op.CALL] == functions[Op.YIELD] == 0


@given(st.lists(st.integers(-1, 3), max_size=12), st.integers(0, 4))
def test_any_program_makes_its_calls_once_and_in_order_however_late_events_are(steps: list[int], late: int) -> None:
    driver = FakeDriver()
    builder = ProgramBuilder(route())
    wanted: list[Call] = []
    barriers = 0
    for step in steps:
        if step < 0:
            builder.give_way()
        elif step == 0:
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
    assert stops == late * steps.count(0) + steps.count(-1)
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


@callback(types.int32(types.uint64))
def _turn_on(argument: int) -> int:
    """Host work: adds one to the first of two words, and answers with the second."""
    words = carray(pointer(argument), 2, np.uint64)
    words[0] += np.uint64(1)
    return words[1]


def work(answer: int = 0) -> np.ndarray:
    return np.array([0, answer], np.uint64)


def calling(words: np.ndarray) -> ProgramBuilder:
    builder = ProgramBuilder(route())
    builder.copy(Direction.H2D, (1, 2), 3)
    builder.call(_turn_on.address, address_of(words))
    builder.keep(words)
    return builder


def test_host_work_is_done_in_between() -> None:
    driver, words = FakeDriver(), work()
    builder = calling(words)
    builder.complete_first()
    builder.call(_turn_on.address, address_of(words))
    execution = Execution(driver.table, builder.finish())
    driver.delay(1)
    assert (execution.advance(), words[0]) == (Progress.PENDING, 1)
    assert (execution.advance(), words[0]) == (Progress.SUBMITTED, 2)
    assert (execution.advance(), words[0]) == (Progress.SUBMITTED, 2)


def test_host_work_may_change_the_commands_behind_it() -> None:
    driver = FakeDriver()
    builder = ProgramBuilder(route())
    builder.call(_turn_on.address, 0)
    builder.copy(Direction.H2D, (10, 20), 0)
    program = builder.finish()
    program.commands["b"][0] = address_of(program.commands) + program.commands.itemsize + 8 * 2
    program.commands["b"][1] = 0  # the word behind the one that is changed is what the work answers
    Execution(driver.table, program).advance()
    assert driver.calls[0] == Call(F.MEMCPY_HTOD_ASYNC, (11, 0, 0, STREAM))


@pytest.mark.parametrize("status", [2, 719])
def test_host_work_that_fails_ends_the_program(status: int) -> None:
    driver, words = FakeDriver(), work(status)
    builder = calling(words)
    builder.copy(Direction.H2D, (4, 5), 6)
    execution = Execution(driver.table, builder.finish())
    with pytest.raises(DriverCallError, match=f"host work failed at index 1 with {status}"):
        execution.advance()
    assert [call.function for call in driver.calls] == [F.MEMCPY_HTOD_ASYNC]
    assert (execution.place, words[0]) == ((1, 0), 1)


def test_host_work_is_not_begun_with_buffers_that_were_taken_away() -> None:
    driver, words, lease = FakeDriver(), work(), Lease()
    execution = Execution(driver.table, calling(words).finish(lease))
    lease.revoked = True
    with pytest.raises(StaleError):
        execution.advance()
    assert words[0] == 0


def test_a_worker_does_the_host_work_of_what_it_runs_and_not_of_what_was_cancelled() -> None:
    driver, done, cancelled = FakeDriver(), work(), work()
    worker = TransferWorker(driver.table, 2)
    worker.submit([calling(done).finish()])
    worker.cancel(worker.submit([calling(cancelled).finish()]))
    states = [report.state for report in worker.drain()]
    assert sorted(states) == sorted([JobState.DONE, JobState.CANCELLED])
    assert (done[0], cancelled[0]) == (1, 0)


def test_native_code_elsewhere_runs_programs_through_an_address() -> None:
    driver = FakeDriver()
    program = everything()
    progress = np.zeros(2, np.int64)
    advance = ctypes.CFUNCTYPE(ctypes.c_int, *(ctypes.c_uint64,) * 4)(advance_address())
    functions = functions_of(driver.table)
    arguments = (address_of(functions), address_of(program.commands), len(program), address_of(progress))
    driver.fail(4, 1)
    assert advance(*arguments) == 1
    assert progress.tolist() == [3, 2]
    error = failure(driver.table, program.commands, 1, (3, 2))
    assert (error.function, error.index) == ("cuMemcpyHtoDAsync", 2)
    driver = FakeDriver()
    progress[:] = 0
    assert advance(*arguments) == 0
    assert comparable(driver.calls) == expected()
