from multiprocessing import get_context
from multiprocessing.shared_memory import SharedMemory

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pega_tune.errors import UsageError
from pega_tune.kernels.decode.ring import RING_HEADER, RingState, StepRing, StepsLostError

SECOND = 10**9


def ring_of(ends_s: list[int], capacity: int) -> StepRing:
    ring = StepRing.private(capacity)
    for end_s in ends_s:
        ring.append(end_s * SECOND)
    return ring


@given(
    gaps=st.lists(st.integers(1, 5), max_size=40),
    capacity=st.integers(1, 50),
    begin=st.integers(0, 120),
    length=st.integers(0, 60),
)
def test_steps_are_told_completely_or_not_at_all(gaps, capacity, begin, length):
    ends = np.cumsum(gaps).tolist()
    ring = ring_of(ends, capacity)
    expected = [end for end in ends if begin <= end <= begin + length]
    # The place behind the newest step may be overwritten at any moment.
    kept = ends[max(len(ends) + 1 - capacity, 0) :]
    try:
        found = ring.ends_between(begin, begin + length).tolist()
    except StepsLostError:
        assert len(kept) < len(ends)
        assert not kept or kept[0] > begin
    else:
        assert found == expected


def test_steps_that_were_overwritten_are_missed():
    with pytest.raises(StepsLostError, match="remembers 4 steps"):
        ring_of([1, 2, 3, 4, 5, 6], 4).ends_between(2, 6)


def test_steps_before_the_interval_may_be_overwritten():
    assert ring_of([1, 2, 3, 4, 5, 6], 4).ends_between(4, 6).tolist() == [4, 5, 6]


def test_a_ring_starts_empty_and_idle():
    ring = StepRing.create(np.full(StepRing.nbytes(8), 0xFF, np.uint8))
    assert (ring.capacity, ring.count, ring.state, ring.status) == (8, 0, RingState.IDLE, 0)
    assert not ring.stopping
    assert not ring.is_warm
    assert ring.ends_between(0, 1e9).size == 0


def test_the_first_steps_of_every_run_are_warm_up():
    ring = ring_of([1, 2, 3], 8)
    ring.begin(warm_steps=2)
    seen = []
    for end in (4, 5, 6):
        seen.append(ring.is_warm)
        ring.append(end * SECOND)
    assert [*seen, ring.is_warm] == [False, False, True, True]
    ring.end(RingState.STOPPED)
    assert not ring.is_warm


def test_a_failure_stays_until_the_next_run():
    ring = StepRing.private(2)
    ring.end(RingState.FAILED, 700)
    assert (ring.state, ring.status) == (RingState.FAILED, 700)
    ring.begin(0)
    assert (ring.state, ring.status) == (RingState.RUNNING, 0)


@pytest.mark.parametrize("nbytes", [0, RING_HEADER.itemsize - 8, RING_HEADER.itemsize + 7])
def test_memory_without_room_for_a_step_is_refused(nbytes):
    with pytest.raises(UsageError, match="too few for a step ring"):
        StepRing.create(np.zeros(nbytes, np.uint8))


def test_memory_that_is_no_ring_is_refused():
    with pytest.raises(UsageError, match="a step ring of 0 steps"):
        StepRing(np.zeros(StepRing.nbytes(4), np.uint8))
    frozen = bytes(StepRing.nbytes(4))
    with pytest.raises(UsageError, match="writable"):
        StepRing(memoryview(frozen))
    with pytest.raises(UsageError, match="aligned"):
        StepRing(np.zeros(StepRing.nbytes(4) + 1, np.uint8)[1:])


def _append_in_another_process(name: str) -> None:
    memory = SharedMemory(name)
    ring = StepRing(memory.buf)
    ring.begin(0)
    ring.append(7 * SECOND)
    ring.end(RingState.STOPPED if ring.stopping else RingState.FAILED)
    del ring
    memory.close()


def test_another_process_may_write_it():
    memory = SharedMemory(create=True, size=StepRing.nbytes(4))
    try:
        ring = StepRing.create(memory.buf)
        ring.stop()
        process = get_context("spawn").Process(target=_append_in_another_process, args=(memory.name,))
        process.start()
        process.join()
        assert process.exitcode == 0
        assert (ring.ends_between(0, 10).tolist(), ring.state) == ([7], RingState.STOPPED)
        del ring
    finally:
        memory.close()
        memory.unlink()
