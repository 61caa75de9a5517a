import pytest

from pega_tune.kernels.driver import DriverCallError, DriverFunction
from pega_tune.kernels.executor import Execution
from pega_tune.kernels.plan import Completion
from pega_tune.kernels.program import Lease, Program, ProgramBuilder, Route, StaleError
from pega_tune.kernels.shape import Direction
from pega_tune.kernels.waiting import wait_all, wait_event
from tests.helpers.fake_driver import Call, FakeDriver
from tests.helpers.programs import CountedEvents, route

HIGH = 2**64 - 2**20
F = DriverFunction


def chunks(count: int, mark: int, end: int, lease: Lease | None = None) -> Program:
    """Copies of `mark` bytes with barriers between."""
    builder = ProgramBuilder(route(end=end))
    for number in range(count):
        if number:
            event = end + number
            builder.record(event)
            builder.barrier(event)
        builder.copy(Direction.H2D, (number, HIGH), mark)
    return builder.finish(lease)


def copies(driver: FakeDriver) -> list[tuple[int, int]]:
    return [(c.arguments[2], c.arguments[0]) for c in driver.calls if c.function is F.MEMCPY_HTOD_ASYNC]


@pytest.mark.parametrize("completion", list(Completion))
@pytest.mark.parametrize("late", [0, 1, 5])
def test_a_program_is_taken_past_its_barriers_to_its_end(completion: Completion, late: int) -> None:
    driver = FakeDriver()
    driver.delay(late)
    wait_all(driver.table, [Execution(driver.table, chunks(3, 10, 100))], completion)
    assert copies(driver) == [(10, 0), (10, 1), (10, 2)]
    assert driver.calls[-1] == Call(F.EVENT_QUERY, (100,))


def test_programs_advance_side_by_side() -> None:
    driver = FakeDriver()
    driver.delay(2)
    executions = [Execution(driver.table, chunks(3, mark, end)) for mark, end in ((10, 100), (20, 200))]
    for execution in executions:
        execution.advance()
    wait_all(driver.table, executions)
    found = copies(driver)
    assert sorted(found) == sorted((mark, number) for mark in (10, 20) for number in range(3))
    assert {mark for mark, _ in found[2:4]} == {10, 20}


def test_only_a_blocking_event_makes_the_thread_sleep_and_on_what_is_awaited() -> None:
    slept = {}
    for completion in Completion:
        driver = FakeDriver()
        driver.delay(3)
        wait_all(driver.table, [Execution(driver.table, chunks(2, 10, 100))], completion)
        slept[completion] = [call.arguments for call in driver.calls if call.function is F.EVENT_SYNCHRONIZE]
    assert slept == {Completion.POLL: [], Completion.YIELD: [], Completion.BLOCKING_EVENT: [(101,), (100,)]}


def calls(count: int, stream: int, end: int) -> Program:
    """Copies between which it gives way."""
    builder = ProgramBuilder(Route(stream, 0, CountedEvents(), end=end))
    for number in range(count):
        if number:
            builder.give_way()
        builder.copy(Direction.H2D, (number, HIGH), 16)
    return builder.finish()


def submitted(driver: FakeDriver) -> list[tuple[int, int]]:
    """Stream and number of every copy."""
    return [(c.arguments[3], c.arguments[0]) for c in driver.calls if c.function is F.MEMCPY_HTOD_ASYNC]


@pytest.mark.parametrize("completion", list(Completion))
@pytest.mark.parametrize("begun", [0, 1, 2])
def test_programs_that_give_way_go_on_call_by_call(completion: Completion, begun: int) -> None:
    driver = FakeDriver()
    driver.delay(4)
    executions = [Execution(driver.table, calls(4, stream, 100 * stream)) for stream in (1, 2, 3)]
    for execution in executions[:begun]:
        execution.advance()
    wait_all(driver.table, executions, completion)
    head = [(stream, 0) for stream in (1, 2, 3)[:begun]]
    numbers = dict.fromkeys((3, 2, 1), 0) | dict.fromkeys((1, 2, 3)[:begun], 1)
    turns = [(stream, number + turn) for turn in range(4) for stream, number in sorted(numbers.items(), reverse=True)]
    assert submitted(driver) == head + [row for row in turns if row[1] < 4]


@pytest.mark.parametrize("completion", list(Completion))
def test_nobody_sleeps_while_a_program_has_given_way(completion: Completion) -> None:
    driver = FakeDriver()
    driver.delay(10)
    at_barrier, giving_way = chunks(2, 10, 100), calls(4, 7, 200)
    wait_all(driver.table, [Execution(driver.table, program) for program in (at_barrier, giving_way)], completion)
    functions = [call.function for call in driver.calls]
    last = max(i for i, call in enumerate(driver.calls) if call.arguments[-1] == 7)
    assert driver.calls[last] == Call(F.EVENT_RECORD, (200, 7))
    assert F.EVENT_SYNCHRONIZE not in functions[:last]
    assert (F.EVENT_SYNCHRONIZE in functions) == (completion is Completion.BLOCKING_EVENT)
    assert functions[:last].count(F.EVENT_QUERY) > 1, "the other one was asked for meanwhile"


def test_processor_time_is_that_of_the_thread() -> None:
    driver = FakeDriver()
    driver.delay(300_000)
    spent_s = wait_all(driver.table, [Execution(driver.table, chunks(1, 10, 100))])
    assert 0 < spent_s < 60


def test_a_program_that_fails_is_named_and_the_others_are_seen_to_the_end() -> None:
    driver = FakeDriver()
    driver.delay(1)
    executions = [Execution(driver.table, chunks(2, mark, end)) for mark, end in ((10, 100), (20, 200))]
    for execution in executions:
        execution.advance()
    driver.fail(len(driver.calls) + 4, 719)  # barrier, copy, end and its query of the other, then this barrier
    with pytest.raises(DriverCallError, match="cuEventQuery failed at index 2 with 719"):
        wait_all(driver.table, executions)
    assert copies(driver) == [(10, 0), (20, 0), (20, 1)]
    assert driver.calls[-1] == Call(F.EVENT_QUERY, (200,))


def test_work_that_fails_on_the_way_to_its_end_is_found() -> None:
    driver = FakeDriver()
    execution = Execution(driver.table, chunks(1, 10, 100))
    execution.advance()
    driver.fail(len(driver.calls), 700)
    with pytest.raises(DriverCallError, match="cuEventQuery failed with 700"):
        wait_all(driver.table, [execution])


def test_a_stale_program_is_not_taken_further_but_waited_for_when_it_needs_nothing_more() -> None:
    driver = FakeDriver()
    lease = Lease()
    execution = Execution(driver.table, chunks(1, 10, 100, lease))
    lease.revoked = True
    with pytest.raises(StaleError):
        wait_all(driver.table, [execution])
    lease.revoked = False
    execution.advance()
    lease.revoked = True
    wait_all(driver.table, [execution])


@pytest.mark.parametrize("completion", [Completion.POLL, Completion.YIELD])
def test_waiting_asks_until_the_event_is_ready(completion: Completion) -> None:
    driver = FakeDriver()
    driver.pend(3)
    wait_event(driver.table, HIGH, completion)
    assert driver.calls == [Call(F.EVENT_QUERY, (HIGH,))] * 4


def test_waiting_outlasts_one_native_round_of_polls() -> None:
    driver = FakeDriver()
    driver.pend(150_000)
    driver.fail(150_000, 719)
    with pytest.raises(DriverCallError, match=r"cuEventQuery failed with 719"):
        wait_event(driver.table, 1)
