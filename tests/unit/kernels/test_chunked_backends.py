from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pega_tune.kernels.driver import DriverFunction
from pega_tune.kernels.executor import Execution, Progress
from pega_tune.kernels.plan import CopyPlan, KernelOptions, Variant, direct, kernel
from pega_tune.kernels.ranges import RangeBatch
from pega_tune.kernels.shape import Direction
from tests.helpers.backend_rig import END, SCATTERED, Rig
from tests.helpers.batches import batches, columns
from tests.helpers.fake_driver import Call
from tests.helpers.programs import FIRST_EVENT, STREAM

EVENTS = (DriverFunction.EVENT_RECORD, DriverFunction.EVENT_QUERY)


def in_steps(rig: Rig, batch: RangeBatch, direction: Direction, plan: CopyPlan) -> list[list[Call]]:
    """What a plan asks of the driver at once, and then each time when what it did before has completed."""
    rig.driver.delay(1)
    execution = Execution(rig.driver.table, rig.prepare(batch, direction, plan))
    steps = []
    for _ in range(100):
        rig.driver.forget()
        progress = execution.advance()
        steps.append([call for call in rig.driver.calls if call.function not in EVENTS])
        if progress is Progress.SUBMITTED:
            return steps
    raise AssertionError("it does not end")


def sizes(steps: list[list[Call]]) -> list[list[int]]:
    return [[call.arguments[2] for call in step] for step in steps]


def test_direct_chunks_follow_one_another_when_they_have_completed() -> None:
    plan = replace(direct(), chunk_bytes=10_000)
    steps = in_steps(Rig(), columns(SCATTERED), Direction.D2H, plan)
    assert sizes(steps) == [[4096, 4096]] * 4
    whole = [call for step in steps for call in step]
    assert whole == Rig().calls(columns(SCATTERED), Direction.D2H, direct())


def test_direct_cuts_one_huge_command() -> None:
    batch = columns([(2**62, 2**61, 2**60, 25, 0, 0)])
    steps = in_steps(Rig(), batch, Direction.H2D, replace(direct(), chunk_bytes=10))
    assert [step[0].arguments for step in steps] == [
        (2**62, 2**61, 10, STREAM),
        (2**62 + 10, 2**61 + 10, 10, STREAM),
        (2**62 + 20, 2**61 + 20, 5, STREAM),
    ]


def test_direct_chunks_without_backpressure_are_enqueued_at_once() -> None:
    plan = replace(direct(), chunk_bytes=3000, backpressure=False)
    steps = in_steps(Rig(), columns(SCATTERED), Direction.H2D, plan)
    assert sizes(steps) == [[3000, 1096] * 8]


def test_a_transfer_smaller_than_a_chunk_is_not_cut() -> None:
    plan = replace(direct(), chunk_bytes=8 * 4096)
    assert Rig().calls(columns(SCATTERED), Direction.H2D, plan) == Rig().calls(
        columns(SCATTERED), Direction.H2D, direct()
    )


CHUNKED = replace(kernel(Variant.WARP, 2, 64), options=KernelOptions(2, chunk_descriptors=3))


@pytest.mark.parametrize("backpressure", [True, False])
def test_kernel_chunks_share_one_upload(backpressure: bool) -> None:
    rig = Rig()
    plan = replace(CHUNKED, backpressure=backpressure)
    steps = in_steps(rig, columns(SCATTERED), Direction.H2D, plan)
    assert len(steps) == (3 if backpressure else 1)
    upload, *launches = [call for step in steps for call in step]
    assert upload.arguments == (rig.device_address, rig.pinned.ctypes.data, 8 * 24, STREAM)
    found = [(call.arguments[1], call.arguments[11], call.arguments[12]) for call in launches]
    assert found == [
        (2, rig.device_address, 3),
        (2, rig.device_address + 3 * 24, 3),
        (1, rig.device_address + 6 * 24, 2),
    ]


def test_events_between_chunks_are_of_the_route_and_each_is_another() -> None:
    program = Rig().prepare(columns(SCATTERED), Direction.H2D, CHUNKED)
    assert program.events == (FIRST_EVENT, FIRST_EVENT + 1)
    assert program.end == END


@given(batches(), st.sampled_from(Direction.BOTH.legs), st.integers(1, 300), st.booleans())
def test_chunks_move_every_byte_once_in_bounded_steps(
    batch: RangeBatch, direction: Direction, chunk_bytes: int, backpressure: bool
) -> None:
    # Cut down, so that chunks of at least one byte stay few.
    small = replace(batch, nbytes=np.minimum(batch.nbytes, np.uint64(40)))
    plan = replace(direct(), chunk_bytes=chunk_bytes, backpressure=backpressure)
    rig = Rig()
    steps = [call for call in rig.calls(small, direction, plan) if call.function not in EVENTS]
    whole = Rig().calls(small, direction, direct())
    assert moved(steps) == moved(whole)
    assert all(call.arguments[2] <= chunk_bytes for call in steps)


def moved(calls: list[Call]) -> list[tuple[int, int]]:
    """Every byte, where to and where from."""
    return [(c.arguments[0] + i, c.arguments[1] + i) for c in calls for i in range(c.arguments[2])]
