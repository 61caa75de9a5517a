import ctypes

import numpy as np
import pytest

from pega_tune.errors import UsageError
from pega_tune.kernels.commands import COMMAND, Op, copies_in
from pega_tune.kernels.program import Launch, ProgramBuilder
from pega_tune.kernels.shape import Direction
from tests.helpers.programs import FIRST_EVENT, SIDE_STREAM, STREAM, route

HUGE = 2**64 - 1


def rows(builder: ProgramBuilder) -> list[tuple[int, ...]]:
    return [row[: 2 + 3] for row in builder.finish().commands.tolist()]


def test_a_command_is_ten_words() -> None:
    assert COMMAND.itemsize == 80
    assert COMMAND.names == ("op", "stream", "a", "b", "c", "d", "e", "f", "g", "h")


def test_commands_stand_in_order_and_the_end_is_recorded_last() -> None:
    builder = ProgramBuilder(route())
    builder.copy(Direction.H2D, (HUGE, 2**63), 5)
    builder.copy(Direction.D2H, (1, 2), 3, SIDE_STREAM)
    builder.copy_2d(77)
    assert len(builder) == 3
    assert rows(builder) == [
        (Op.COPY_TO_DEVICE, STREAM, HUGE, 2**63, 5),
        (Op.COPY_TO_HOST, SIDE_STREAM, 1, 2, 3),
        (Op.COPY_2D, STREAM, 77, 0, 0),
        (Op.RECORD, STREAM, FIRST_EVENT, 0, 0),
    ]


def test_copies_are_counted_one_by_one_and_in_batches() -> None:
    builder = ProgramBuilder(route())
    assert copies_in(builder.finish().commands) == 0
    builder = ProgramBuilder(route())
    columns = (np.zeros(10, np.uint64),) * 3
    builder.copy(Direction.H2D, (1, 2), 5)
    builder.copy_2d(77)
    builder.copies(Direction.D2H, columns)
    builder.copies(Direction.H2D, columns, (2, 4))
    builder.batch(Op.BATCH_V1, (1, 2, 3, 7, 5, 6, 1, 8))
    builder.batch(Op.BATCH_V2, (1, 2, 3, 9, 5, 6, 1))
    builder.launch(Launch(1, 2, 3, (4, 5)))
    assert copies_in(builder.finish().commands) == 1 + 1 + 10 + 4 + 7 + 9


def test_timing_events_of_the_route_surround_everything() -> None:
    program = ProgramBuilder(route(start=11, end=12)).finish()
    assert program.commands[["op", "a"]].tolist() == [(Op.RECORD, 11), (Op.RECORD, 12)]
    assert (program.end, program.events) == (12, ())


def test_completing_first_records_an_event_of_its_own_and_stops_at_it() -> None:
    builder = ProgramBuilder(route())
    builder.complete_first()
    builder.complete_first(SIDE_STREAM)
    program = builder.finish()
    first, second, end = program.events
    assert len({first, second, end}) == 3
    assert program.end == end
    assert program.commands[["op", "stream", "a"]].tolist() == [
        (Op.RECORD, STREAM, first),
        (Op.BARRIER, STREAM, first),
        (Op.RECORD, SIDE_STREAM, second),
        (Op.BARRIER, STREAM, second),
        (Op.RECORD, STREAM, end),
    ]


def test_giving_way_is_a_command_of_its_own() -> None:
    builder = ProgramBuilder(route())
    builder.give_way()
    assert rows(builder)[0] == (Op.YIELD, STREAM, 0, 0, 0)


def test_what_a_stream_waits_for_is_a_command_of_that_stream() -> None:
    builder = ProgramBuilder(route())
    event = builder.take_and_record(SIDE_STREAM)
    builder.await_event(event)
    assert rows(builder)[:2] == [(Op.RECORD, SIDE_STREAM, event, 0, 0), (Op.AWAIT, STREAM, event, 0, 0)]


@pytest.mark.parametrize(("op", "operands"), [(Op.BATCH_V1, 8), (Op.BATCH_V2, 7)])
def test_a_batch_call_has_all_its_arguments(op: Op, operands: int) -> None:
    builder = ProgramBuilder(route())
    builder.batch(op, tuple(range(1, operands + 1)))
    words = builder.finish().commands.view(np.uint64)[:10].tolist()
    assert words == [op, STREAM, *range(1, operands + 1)] + [0] * (8 - operands)


def test_many_copies_name_the_arrays_and_keep_them() -> None:
    columns = tuple(np.arange(5, dtype=np.uint64) for _ in range(3))
    builder = ProgramBuilder(route())
    builder.copies(Direction.D2H, (columns[0], columns[1], columns[2]), (2, 3))
    builder.copies(Direction.H2D, (columns[0], columns[1], columns[2]))
    program = builder.finish()
    addresses = [column.ctypes.data for column in columns]
    assert list(program.commands[0])[:7] == [Op.COPIES_TO_HOST, STREAM, *addresses, 2, 3]
    assert list(program.commands[1])[:7] == [Op.COPIES_TO_DEVICE, STREAM, *addresses, 0, 5]
    assert columns in program.keep


def test_arguments_of_every_launch_are_where_its_parameters_point() -> None:
    builder = ProgramBuilder(route())
    builder.launch(Launch(7, 8, 9, (HUGE, 1)))
    builder.copy(Direction.H2D, (1, 2), 3)
    builder.launch(Launch(70, 80, 90, (4, 5, 2**63)), SIDE_STREAM)
    program = builder.finish()
    found = [(list(program.commands[i])[:5], parameters(program.commands[i]["d"], n)) for i, n in ((0, 2), (2, 3))]
    assert found == [
        ([Op.LAUNCH, STREAM, 7, 8, 9], [HUGE, 1]),
        ([Op.LAUNCH, SIDE_STREAM, 70, 80, 90], [4, 5, 2**63]),
    ]


def parameters(address: int, count: int) -> list[int]:
    pointers = (ctypes.c_uint64 * count).from_address(int(address))
    return [ctypes.c_uint64.from_address(pointer).value for pointer in pointers]


def test_commands_made_elsewhere_are_taken_over() -> None:
    made = np.zeros(2, COMMAND)
    made["op"], made["a"] = Op.COPY_2D, (5, 6)
    builder = ProgramBuilder(route())
    builder.copy(Direction.H2D, (1, 2), 3)
    builder.extend(made)
    builder.launch(Launch(7, 8, 9, (1, 2)))
    program = builder.finish()
    assert program.commands["op"].tolist() == [Op.COPY_TO_DEVICE, Op.COPY_2D, Op.COPY_2D, Op.LAUNCH, Op.RECORD]
    assert program.commands["a"].tolist()[:3] == [1, 5, 6]
    assert parameters(program.commands[3]["d"], 2) == [1, 2]


def test_a_copy_goes_one_way() -> None:
    with pytest.raises(UsageError, match="one way"):
        ProgramBuilder(route()).copy(Direction.BOTH, (1, 2), 3)
