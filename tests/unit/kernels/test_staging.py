from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pega_tune.errors import UsageError
from pega_tune.kernels.host_runs import ALIGNMENT, RunFinder
from pega_tune.kernels.ranges import RangeBatch
from pega_tune.kernels.staged_schedule import Schedule, Scheduler
from pega_tune.kernels.staging import (
    DEFAULT_STAGING_BYTES,
    MIN_STAGING_BYTES,
    Ring,
    StagingBuffer,
    pipelined,
    whole,
)
from tests.helpers.batches import batches, columns

MIB = 1 << 20
BUFFER = StagingBuffer(2**40)


def rows(cut: Schedule) -> list[tuple[int, int, int]]:
    return list(zip(cut.columns[0].tolist(), cut.columns[1].tolist(), cut.columns[2].tolist(), strict=True))


def one_run(nbytes: int, host: int = 2**30) -> RangeBatch:
    return columns([(0, host, host, nbytes, 0, 0)])


def parts_of(nbytes: int, buffer: StagingBuffer = BUFFER, host: int = 2**30) -> list[int]:
    runs = RunFinder(1).find(one_run(nbytes, host))
    return sizes(Scheduler().cut(runs, pipelined(runs, buffer)))


def sizes(cut: Schedule) -> list[int]:
    """Bytes of each part."""
    nbytes = cut.columns[2].tolist()
    return [sum(nbytes[first:end]) for first, end in pairwise([0, *cut.part_ends.tolist()])]


capacities = st.sampled_from([MIN_STAGING_BYTES, 4097, 10_000, 2**20])
chunks = st.sampled_from([None, 1000, 4096, 2**40])


@given(batches(), capacities, chunks, st.sampled_from([1, 3, None, "whole"]))
def test_every_byte_has_one_place(batch: RangeBatch, capacity: int, chunk: int | None, parts: int | str | None) -> None:
    buffer = StagingBuffer(2**40, capacity)
    runs = RunFinder(40).find(batch)
    ring = whole(runs, buffer) if isinstance(parts, str) else pipelined(runs, buffer, parts)
    cut = Scheduler().cut(runs, ring, chunk)
    commands = rows(cut)

    # the commands are the runs, in order, and no run is cut but at the ends of groups
    left = list(zip(runs.host.tolist(), runs.nbytes.tolist(), strict=True))
    group_ends = set(cut.group_ends.tolist())
    for number, (host, _, nbytes) in enumerate(commands, 1):
        at, size = left.pop(0)
        assert host == at
        assert nbytes <= size
        if nbytes < size:
            left.insert(0, (at + nbytes, size - nbytes))
            assert number in group_ends
    assert not left

    # groups and parts end where they say, none is empty, none too large
    bounds = [0, *cut.group_ends.tolist()]
    assert bounds[-1] == len(commands)
    assert all(0 < sum(row[2] for row in commands[a:b]) <= (chunk or 2**62) for a, b in pairwise(bounds))
    assert [group for part in cut.groups() for group in part] == [(a, b - a) for a, b in pairwise(bounds)]
    assert all(sum(count for _, count in part) for part in cut.groups())
    assert all(0 < size <= ring.part_bytes for size in sizes(cut))

    # a part lies in its slot, without overlap, congruent to the host; slots lie in the buffer
    assert ring.slots * ring.slot_bytes <= capacity
    for part, (first, end) in enumerate(pairwise([0, *cut.part_ends.tolist()])):
        cursor = ring.address + part % ring.slots * ring.slot_bytes
        slot_end = cursor + ring.slot_bytes
        for host, staging, nbytes in commands[first:end]:
            assert cursor <= staging < cursor + ALIGNMENT
            assert (staging - host) % ALIGNMENT == 0
            cursor = staging + nbytes
        assert cursor <= slot_end


@given(st.lists(st.tuples(batches(), capacities, chunks), min_size=2, max_size=4))
def test_a_scheduler_forgets_what_was_before(jobs: list[tuple[RangeBatch, int, int | None]]) -> None:
    scheduler, finder = Scheduler(), RunFinder(40)
    for batch, capacity, chunk in jobs:
        runs = finder.find(batch)
        ring = pipelined(runs, StagingBuffer(0, capacity))
        again, alone = scheduler.cut(runs, ring, chunk), Scheduler().cut(runs, ring, chunk)
        assert (again.counts, again.groups(), rows(again)) == (alone.counts, alone.groups(), rows(alone))


@given(batches(), capacities)
def test_a_part_ends_only_when_it_is_full(batch: RangeBatch, capacity: int) -> None:
    runs = RunFinder(40).find(batch)
    ring = pipelined(runs, StagingBuffer(0, capacity))
    cut = Scheduler().cut(runs, ring)
    for part, (size, end) in enumerate(zip(sizes(cut)[:-1], cut.part_ends.tolist(), strict=False)):
        filled = int(cut.columns[1][end - 1] + cut.columns[2][end - 1]) - part % ring.slots * ring.slot_bytes
        assert size == ring.part_bytes or filled + ALIGNMENT > ring.slot_bytes


@pytest.mark.parametrize(
    ("nbytes", "parts"),
    [
        (1, [1]),
        (16 * MIB, [16 * MIB]),
        (32 * MIB, [16 * MIB] * 2),
        (64 * MIB, [16 * MIB] * 4),
        (96 * MIB, [24 * MIB] * 4),
        (128 * MIB, [16 * MIB] * 8),
        (1024 * MIB, [16 * MIB] * 64),
    ],
)
def test_parts_are_balanced(nbytes: int, parts: list[int]) -> None:
    assert parts_of(nbytes) == parts


@given(st.integers(1, 2**34), st.integers(0, 15))
def test_parts_of_one_run_are_equal_but_for_the_last(nbytes: int, skew: int) -> None:
    parts = parts_of(nbytes, host=2**30 + skew)
    assert sum(parts) == nbytes
    assert len(set(parts[:-1])) <= 1
    assert 0 <= parts[0] - parts[-1] < 4096 * len(parts)


def test_a_transfer_of_half_the_buffer_is_one_round() -> None:
    half, _ = BUFFER.halves()
    runs = RunFinder(1).find(one_run(half.capacity))
    assert whole(runs, half) == Ring(2**40, 1, 64 * MIB, 64 * MIB)
    assert Scheduler().cut(runs, whole(runs, half)).counts.parts == 1
    more = RunFinder(1).find(one_run(half.capacity + 1))
    assert sizes(Scheduler().cut(more, whole(more, half))) == [22_372_352, 22_372_352, 22_364_161]
    assert whole(more, half).slots == 2


def test_single_bytes_stream_through_a_small_buffer() -> None:
    batch = columns([(i, 3 * i, 3 * i, 1, 0, 0) for i in range(5000)])
    runs = RunFinder(5000).find(batch)
    cut = Scheduler().cut(runs, pipelined(runs, StagingBuffer(0, MIN_STAGING_BYTES)))
    assert len(cut.columns[2]) == 5000
    assert int(cut.columns[1].max()) < MIN_STAGING_BYTES


def test_halves_are_two_buffers_in_one() -> None:
    one, two = StagingBuffer(512, 10_001).halves()
    assert (one.address, two.address) == (512, 512 + one.capacity)
    assert one.capacity == two.capacity == 4864


def test_the_default_is_128_mib() -> None:
    assert StagingBuffer(0).capacity == DEFAULT_STAGING_BYTES == 128 * MIB


@pytest.mark.parametrize(("address", "capacity"), [(0, MIN_STAGING_BYTES - 1), (0, 0), (128, MIN_STAGING_BYTES)])
def test_buffers_that_cannot_work_are_refused(address: int, capacity: int) -> None:
    with pytest.raises(UsageError, match="a staging buffer"):
        StagingBuffer(address, capacity)


def test_a_buffer_too_small_for_both_directions_is_refused() -> None:
    with pytest.raises(UsageError, match="a staging buffer"):
        StagingBuffer(0, 2 * MIN_STAGING_BYTES - 1).halves()
