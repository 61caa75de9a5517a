from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from pega_tune.errors import UsageError
from pega_tune.kernels.backends.base import TransferBackend
from pega_tune.kernels.backends.batch import BatchBackend
from pega_tune.kernels.backends.direct import DirectBackend
from pega_tune.kernels.backends.kernel import KernelBackend
from pega_tune.kernels.backends.pitched import PitchedBackend
from pega_tune.kernels.backends.staged import StagedBackend, staged
from pega_tune.kernels.batch_call import BatchSignature
from pega_tune.kernels.commands import Op
from pega_tune.kernels.descriptors import DescriptorSpace
from pega_tune.kernels.plan import Backend, CopyPlan, KernelOptions, PlanPair, Variant, kernel
from pega_tune.kernels.prepare import Workspace
from pega_tune.kernels.program import Program, ProgramBuilder
from pega_tune.kernels.progressions import ProgressionFinder
from pega_tune.kernels.ranges import RangeBatch
from pega_tune.kernels.shape import Direction
from pega_tune.kernels.staging import MIN_STAGING_BYTES, StagingBuffer
from pega_tune.kernels.worker_streams import StreamSets, closing_of, streams_of
from tests.helpers.batches import columns
from tests.helpers.programs import SIDE_STREAM, STREAM, route

END = 2**63 + 6
FUNCTIONS = {Variant.BLOCK: 2**63 + 1, Variant.WARP: 2**63 + 2}
RANGES = 64
LOAD, SAVE = Direction.BOTH.legs
NOTHING = RangeBatch(*(np.empty(0, np.uint64),) * 4, *(np.empty(0, np.int64),) * 2)


def batch(nbytes: int = 16, count: int = RANGES) -> RangeBatch:
    """Ranges in strides on the device, one after another on the host."""
    return columns([(2 * i * nbytes, i * nbytes, i * nbytes, nbytes, 0, 0) for i in range(count)])


def space() -> DescriptorSpace:
    pinned = np.zeros((8 * RANGES, 3), np.uint64)
    return DescriptorSpace(pinned, pinned.ctypes.data, 2**40, 8 * RANGES)


def staged_backend() -> StagedBackend:
    return StagedBackend(FUNCTIONS, space(), StagingBuffer(2**41, 2 * MIN_STAGING_BYTES), RANGES)


MAKERS: list[tuple[CopyPlan, Callable[[], TransferBackend]]] = [
    (CopyPlan(Backend.DIRECT), lambda: DirectBackend(Workspace(RANGES))),
    (CopyPlan(Backend.DIRECT, chunk_bytes=32), lambda: DirectBackend(Workspace(RANGES))),
    (CopyPlan(Backend.BATCH), lambda: BatchBackend(BatchSignature.V2, Workspace(RANGES))),
    (CopyPlan(Backend.BATCH), lambda: BatchBackend(BatchSignature.V1, Workspace(RANGES), 5)),
    (CopyPlan(Backend.PITCHED), lambda: PitchedBackend(ProgressionFinder(RANGES))),
    (CopyPlan(Backend.PITCHED, chunk_bytes=32), lambda: PitchedBackend(ProgressionFinder(RANGES))),
    (kernel(Variant.WARP, 2, 64), lambda: KernelBackend(FUNCTIONS, space())),
    (
        CopyPlan(Backend.KERNEL, Variant.WARP, 64, KernelOptions(2, chunk_descriptors=8)),
        lambda: KernelBackend(FUNCTIONS, space()),
    ),
    (staged(2, 64), staged_backend),
]


def found(program: Program) -> tuple[int, ...]:
    """What the commands themselves say."""
    return streams_of(replace(program, streams=()))


@pytest.mark.parametrize(("plan", "make"), MAKERS)
@pytest.mark.parametrize("direction", [LOAD, SAVE])
@pytest.mark.parametrize("end", [END, None])
def test_programs_of_all_backends_name_their_streams(
    plan: CopyPlan, make: Callable[[], TransferBackend], direction: Direction, end: int | None
) -> None:
    backend, where = make(), route(end=end)
    for ranges in (RANGES, 3, RANGES, 0):  # a program that is made anew, and some that are filled in again
        program = backend.prepare(batch(count=ranges) if ranges else NOTHING, direction, plan, where)
        assert program.streams
        assert program.streams == found(program)


@pytest.mark.parametrize("direction", [LOAD, SAVE])
def test_staged_programs_name_the_side_stream_when_kernels_go_there(direction: Direction) -> None:
    backend, where = staged_backend(), route(end=END)
    large = batch(MIN_STAGING_BYTES // 16)  # twice the buffer
    for _ in range(2):
        program = backend.prepare(large, direction, staged(2, 64), where)
        assert program.streams == found(program) == (SIDE_STREAM, STREAM)


def test_fused_programs_name_both_streams() -> None:
    backend, where = staged_backend(), route(end=END)
    pair = PlanPair(staged(2, 64), staged(2, 64), fused=True)
    for _ in range(2):
        program = backend.prepare_fused(batch(), batch(), pair, where)
        assert program.streams == found(program) == (SIDE_STREAM, STREAM)


def test_a_builder_names_streams_of_commands_made_elsewhere() -> None:
    elsewhere = ProgramBuilder(replace(route(end=END), stream=SIDE_STREAM)).finish()
    builder = ProgramBuilder(route(end=END))
    builder.extend(elsewhere.commands)
    program = builder.finish()
    assert program.streams == found(program) == (SIDE_STREAM, STREAM)


def test_a_barrier_in_the_stream_of_the_end_gives_other_streams_nothing() -> None:
    builder = ProgramBuilder(route(end=END))
    builder.barrier(builder.take_and_record(SIDE_STREAM))
    program = builder.finish()
    commands = program.commands[1:]  # without what went to the side stream
    assert streams_of(replace(program, commands=commands, streams=())) == (STREAM,)


def test_a_closing_records_the_end_behind_all_streams_in_turn() -> None:
    commands = closing_of((5, 7, STREAM), END).commands
    assert commands[["op", "stream", "a"]].tolist() == [
        (Op.RECORD, 5, END),
        (Op.AWAIT, STREAM, END),
        (Op.RECORD, 7, END),
        (Op.AWAIT, STREAM, END),
        (Op.RECORD, STREAM, END),
        (Op.BARRIER, STREAM, END),
    ]


def test_a_closing_is_shared_and_cannot_be_written() -> None:
    closing = closing_of((SIDE_STREAM, STREAM), END)
    assert closing_of((SIDE_STREAM, STREAM), END) is closing
    assert closing.address == closing.commands.ctypes.data
    with pytest.raises(ValueError, match="read-only"):
        closing.commands["a"] = 0
    others = [closing_of((STREAM, SIDE_STREAM), END), closing_of((SIDE_STREAM, STREAM), END + 1)]
    assert [int(other.commands["a"][0]) for other in others] == [END, END + 1]
    assert [int(other.commands["stream"][0]) for other in others] == [STREAM, SIDE_STREAM]


def test_every_stream_has_a_bit_of_its_own_for_good() -> None:
    sets = StreamSets()
    alone = [sets.bits_of((stream,)) for stream in range(64)]
    assert sorted(alone) == [1 << bit for bit in range(64)]
    assert [sets.bits_of((stream,)) for stream in range(64)] == alone
    assert sets.bits_of((63, 5, 0)) == alone[63] | alone[5] | alone[0]


def test_streams_that_are_refused_take_no_room() -> None:
    sets = StreamSets()
    sets.bits_of(tuple(range(63)))
    with pytest.raises(UsageError, match="64 streams"):
        sets.bits_of((0, 100, 101))
    assert sets.bits_of((102,)) == 1 << 63
