from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pega_tune.errors import UsageError
from pega_tune.kernels.prepare import CapacityError
from pega_tune.kernels.progression_search import MAX_PITCH, MIN_ROWS
from pega_tune.kernels.progressions import ProgressionFinder, Progressions
from pega_tune.kernels.ranges import RangeBatch
from tests.helpers.batches import batches, columns, rows_of
from tests.helpers.strides import batch_of, placed_ranges

Row = tuple[int, int, int]  # device, host, nbytes
Range = tuple[int, int, int, int, int]  # the same, and the two allocations
Copy = tuple[int, int, int, int, int, int]  # device, host, nbytes, device pitch, host pitch, rows

BASES = st.sampled_from([(0, 0), (2**47, 2**46), (2**64 - 2**20, 2**63)])


def copies_of(found: Progressions) -> list[Copy]:
    return list(zip(*found.table[:, : len(found)].tolist(), strict=True))


def find(batch: RangeBatch) -> list[Copy]:
    return copies_of(ProgressionFinder(len(batch)).find(batch))


def expanded(copies: list[Copy]) -> list[Row]:
    return [(d + i * dp, h + i * hp, n) for d, h, n, dp, hp, rows in copies for i in range(rows)]


def joined(rows: list[Row]) -> list[Row]:
    """Rows ascending by host address, neighbours on both sides joined."""
    result: list[Row] = []
    for device, host, nbytes in sorted(rows, key=lambda row: row[1]):
        if result and (device, host) == tuple(start + result[-1][2] for start in result[-1][:2]):
            result[-1] = (*result[-1][:2], result[-1][2] + nbytes)
        else:
            result.append((device, host, nbytes))
    return result


def ranges_of(batch: RangeBatch) -> list[Range]:
    return [(device, host, nbytes, *ids) for device, host, _, nbytes, *ids in rows_of(batch)]  # type: ignore[misc]


def merged(ranges: list[Range]) -> list[Range]:
    result: list[Range] = []
    for device, host, nbytes, *ids in ranges:
        if result:
            last_device, last_host, last_size, *last_ids = result[-1]
            if (last_device + last_size, last_host + last_size, last_ids) == (device, host, ids):
                result[-1] = (last_device, last_host, last_size + nbytes, ids[0], ids[1])
                continue
        result.append((device, host, nbytes, ids[0], ids[1]))
    return result


def is_progression(items: list[Range]) -> bool:
    if len({item[2:] for item in items}) > 1:
        return False
    steps = {(b[0] - a[0], b[1] - a[1]) for a, b in pairwise(items)}
    if not steps:
        return True
    ((device, host),) = steps if len(steps) == 1 else ((0, 0),)
    limits = range(items[0][2], MAX_PITCH + 1)
    return (device in limits and host in limits) or (-device in limits and -host in limits)


def copy_of(items: list[Range]) -> Copy:
    first, second = sorted(items)[:2] if len(items) > 1 else (items[0], items[0])
    device, host, nbytes, *_ = first
    pitches = (second[0] - device, second[1] - host)
    if len(items) == 1 or pitches == (nbytes, nbytes):
        whole = nbytes * len(items)
        return device, host, whole, whole, whole, 1
    return device, host, nbytes, *pitches, len(items)


def slow_search(ranges: list[Range]) -> list[Copy]:
    copies = []
    while ranges:
        best, period, length = MIN_ROWS - 1, 1, 1
        for candidate in range(1, 9):
            reach = candidate
            while reach < len(ranges) and all(
                is_progression(ranges[phase : reach + 1 : candidate]) for phase in range(candidate)
            ):
                reach += 1
            if min(reach, len(ranges)) // candidate > best:
                best, period, length = reach // candidate, candidate, reach
        copies += [copy_of(ranges[phase:length:period]) for phase in range(period)]
        ranges = ranges[length:]
    return copies


def slow_find(batch: RangeBatch) -> list[Copy]:
    given = ranges_of(batch)
    ascending = sorted(given, key=lambda item: item[1])
    copies = slow_search(merged(given))
    if given == ascending or len(copies) * 64 <= len(merged(given)):
        return copies
    return min(copies, slow_search(merged(ascending)), key=len)


@given(placed_ranges(), BASES)
def test_progressions_are_those_of_the_slow_model(ranges: list, bases: tuple[int, int]) -> None:
    batch = batch_of(ranges, *bases)
    assert find(batch) == slow_find(batch)


@given(st.one_of(batches(), st.builds(batch_of, placed_ranges(), st.just(2**40), st.just(2**41))))
def test_every_byte_is_covered_once_and_from_its_own_place(batch: RangeBatch) -> None:
    copies = find(batch)
    assert joined(expanded(copies)) == joined([item[:3] for item in ranges_of(batch)])
    assert sum(nbytes * rows for _, _, nbytes, _, _, rows in copies) == batch.total_bytes


@given(placed_ranges())
def test_a_progression_stays_in_its_allocations_and_within_the_limits_of_pitch(ranges: list) -> None:
    batch = batch_of(ranges, 2**40, 2**41)
    ids = {}
    for device, host, nbytes, *allocations in ranges_of(batch):
        ids.update({(device + i, host + i): allocations for i in range(nbytes)})
    for copy in find(batch):
        device, host, nbytes, device_pitch, host_pitch, _ = copy
        assert nbytes <= min(device_pitch, host_pitch) <= max(device_pitch, host_pitch) <= MAX_PITCH
        places = [(d + i, h + i) for d, h, n in expanded([copy]) for i in range(n)]
        assert all(ids[place] == ids[device, host] for place in places)


def test_the_finder_can_be_used_again() -> None:
    finder = ProgressionFinder(64)
    strided = columns([(i * 32, i * 16, i * 16, 16, 0, 0) for i in range(64)])
    other = columns([(i * i * 64, i * 16, i * 16, 16, 0, 0) for i in range(20)])
    first = copies_of(finder.find(strided))
    assert copies_of(finder.find(other)) == find(other)
    assert copies_of(finder.find(strided)) == first == [(0, 0, 16, 32, 16, 64)]


def rows(device: list[int], host: list[int], nbytes: int = 16) -> RangeBatch:
    return columns([(d, h, h, nbytes, 0, 0) for d, h in zip(device, host, strict=True)])


@pytest.mark.parametrize(
    ("batch", "expected"),
    [
        (rows([i * 16 for i in range(9)], [i * 16 for i in range(9)]), [(0, 0, 144, 144, 144, 1)]),
        (rows([i * 16 for i in range(8, -1, -1)], [i * 16 for i in range(8, -1, -1)]), [(0, 0, 144, 144, 144, 1)]),
        (rows([i * 32 for i in range(9)], [i * 16 for i in range(9)]), [(0, 0, 16, 32, 16, 9)]),
        (rows([i * 32 for i in range(8, -1, -1)], [i * 16 for i in range(8, -1, -1)]), [(0, 0, 16, 32, 16, 9)]),
        (
            rows([i // 2 * 32 + i % 2 * 4096 for i in range(9)], [i * 16 for i in range(9)]),
            [(0, 0, 16, 32, 32, 5), (4096, 16, 16, 32, 32, 4)],
        ),
        (  # one side up and the other down is no 2-D copy
            rows([i * 32 for i in range(4)], [(3 - i) * 32 for i in range(4)]),
            [(i * 32, (3 - i) * 32, 16, 16, 16, 1) for i in range(4)],
        ),
    ],
    ids=["contiguous", "contiguous-down", "strided", "strided-down", "two-in-turn", "against"],
)
def test_known_layouts(batch: RangeBatch, expected: list[Copy]) -> None:
    assert find(batch) == expected


def test_eight_layers_in_two_pools_are_eight_progressions() -> None:
    device = [layer // 4 * 2**40 + layer % 4 * 2**30 + block * 8192 for block in range(32) for layer in range(8)]
    found = find(rows(device, [i * 4096 for i in range(256)], 4096))
    assert [(copy[0], *copy[3:]) for copy in found] == [
        (layer // 4 * 2**40 + layer % 4 * 2**30, 8192, 8 * 4096, 32) for layer in range(8)
    ]


@given(st.integers(1, 8), st.integers(24, 1500), st.integers(0, 100), st.integers(0, 4))
def test_a_long_run_ends_exactly_where_one_column_breaks(period: int, length: int, behind: int, broken: int) -> None:
    places = np.arange(length + behind)
    table = np.zeros((6, len(places)), np.int64)
    table[0] = places % period * 2**32 + places // period * 64
    table[1] = table[2] = places * 32
    table[3] = 16
    column = (0, 1, 3, 4, 5)[broken]
    table[column, length:] += 8
    found = find(columns([tuple(row) for row in table.T.tolist()]))
    assert sum(copy[5] for copy in found[:period]) == length
    assert joined(expanded(found)) == joined([tuple(row) for row in table[[0, 1, 3]].T.tolist()])


def test_layers_listed_one_after_another_are_found_without_sorting() -> None:
    layers, blocks = 40, 64
    device = [layer * 2**30 + block * 8192 for layer in range(layers) for block in range(blocks)]
    host = [block * layers * 4096 + layer * 4096 for layer in range(layers) for block in range(blocks)]
    found = find(rows(device, host, 4096))
    assert found == [(layer * 2**30, layer * 4096, 4096, 8192, layers * 4096, blocks) for layer in range(layers)]


def test_a_progression_shuffled_alike_on_both_sides_is_one_again() -> None:
    order = np.random.default_rng(3).permutation(1000).tolist()
    assert find(rows([i * 40 for i in order], [i * 24 for i in order])) == [(0, 0, 16, 40, 24, 1000)]


@pytest.mark.parametrize(("pitch", "copies"), [(MAX_PITCH, 1), (MAX_PITCH + 1, 4)])
def test_the_pitch_is_bounded(pitch: int, copies: int) -> None:
    batch = rows([i * pitch for i in range(4)], [i * 16 for i in range(4)])
    assert len(find(batch)) == copies
    batch = rows([i * 16 for i in range(4)], [i * pitch for i in range(4)])
    assert len(find(batch)) == copies


@pytest.mark.parametrize(("count", "copies"), [(1, 1), (2, 2), (3, 1)])
def test_less_than_three_rows_are_plain_copies(count: int, copies: int) -> None:
    assert len(find(rows([i * 32 for i in range(count)], [i * 16 for i in range(count)]))) == copies


@pytest.mark.parametrize("side", [4, 5])
def test_an_allocation_ends_a_progression(side: int) -> None:
    table = [[i * 32, i * 16, i * 16, 16, 0, 0] for i in range(10)]
    for row in table[5:]:
        row[side] = 1
    assert [copy[5] for copy in find(columns([tuple(row) for row in table]))] == [5, 5]


@pytest.mark.parametrize("side", [None, 4, 5])
def test_neighbours_on_both_sides_are_joined_inside_their_allocations_alone(side: int | None) -> None:
    table = [[i * 16, i * 16, i * 16, 16, 0, 0] for i in range(4)]
    if side is not None:
        for row in table[2:]:
            row[side] = 1
    expected = [(0, 64)] if side is None else [(0, 32), (32, 32)]
    assert [(copy[0], copy[2]) for copy in find(columns([tuple(row) for row in table]))] == expected
    pair = columns([tuple(row) for row in table[1:3]])
    assert len(find(pair)) == (1 if side is None else 2)


def test_ranges_that_overlap_their_successors_are_no_progression() -> None:
    batch = rows([i * 15 for i in range(6)], [i * 16 for i in range(6)])
    assert [copy[5] for copy in find(batch)] != [6]
    assert joined(expanded(find(batch))) == joined([item[:3] for item in ranges_of(batch)])


def test_larger_batches_are_refused() -> None:
    with pytest.raises(CapacityError, match="3 ranges do not fit a finder for 2"):
        ProgressionFinder(2).find(rows([0, 32, 64], [0, 16, 32]))


@pytest.mark.parametrize("capacity", [0, -1, 2**31])
def test_impossible_capacities_are_refused(capacity: int) -> None:
    with pytest.raises(UsageError, match="1 to 2147483647"):
        ProgressionFinder(capacity)
