from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given

from pega_tune.errors import UsageError
from pega_tune.kernels.ranges import DeviceRegion, HostRegion, RangeBatch
from pega_tune.kernels.shape import MAX_BYTES, Direction, TransferShape
from tests.helpers.batches import batches, columns, merged_rows, rows_of

DEVICE = DeviceRegion(2**63, 8192, allocation=7)
HOST = HostRegion(4096, 2**62, 8192, allocation=9)


def u64(*values: int) -> np.ndarray:
    return np.array(values, np.uint64)


def test_a_batch_knows_its_length_and_bytes() -> None:
    batch = columns([(0, 0, 0, 5, 0, 0), (100, 100, 100, 7, 0, 0)])
    assert (len(batch), batch.total_bytes) == (2, 12)


def test_a_batch_may_have_no_ranges_but_then_it_has_no_shape() -> None:
    nothing = RangeBatch.within(DEVICE, HOST, u64(), u64(), u64())
    assert (len(nothing), nothing.total_bytes) == (0, 0)
    with pytest.raises(UsageError, match="without ranges has no shape"):
        nothing.shape(Direction.H2D)


def test_a_range_without_bytes_is_refused() -> None:
    with pytest.raises(UsageError, match="at least 1 byte"):
        columns([(0, 0, 0, 1, 0, 0), (8, 8, 8, 0, 0, 0)])


@pytest.mark.parametrize("side", range(3))
def test_a_range_must_end_inside_the_address_space(side: int) -> None:
    row = [0, 0, 0, 16, 0, 0]
    row[side] = 2**64 - 16
    with pytest.raises(UsageError, match="address space"):
        columns([tuple(row)])


@pytest.mark.parametrize("column", range(6))
@pytest.mark.parametrize(
    "spoil",
    [
        lambda array: array[:1],
        lambda array: array.astype(np.float64),
        lambda array: array.astype(np.uint32),
        lambda array: np.repeat(array, 2)[::2],
        lambda array: array.reshape(2, 1),
    ],
    ids=["short", "float", "narrow", "strided", "two-dimensional"],
)
def test_every_column_is_checked(column: int, spoil) -> None:
    arrays = [u64(0, 64), u64(0, 64), u64(0, 64), u64(8, 8), np.zeros(2, np.int64), np.zeros(2, np.int64)]
    arrays[column] = spoil(arrays[column])
    with pytest.raises(UsageError, match="a column of a batch"):
        RangeBatch(*arrays)


def test_more_bytes_than_a_transfer_has_are_refused_though_their_sum_wraps() -> None:
    size = MAX_BYTES
    with pytest.raises(UsageError, match=r"2\^62"):
        columns([(0, 0, 0, size, 0, 0)] * 4)


def test_ranges_within_two_regions() -> None:
    batch = RangeBatch.within(DEVICE, HOST, u64(0, 4096), u64(8191, 0), u64(4096, 4096) // u64(4096))
    assert rows_of(batch) == [
        (2**63, 4096 + 8191, 2**62 + 8191, 1, 7, 9),
        (2**63 + 4096, 4096, 2**62, 1, 7, 9),
    ]


@pytest.mark.parametrize(
    ("device_offset", "host_offset", "nbytes", "side"),
    [(8191, 0, 2, "device"), (0, 8191, 2, "host"), (0, 0, 8193, "device"), (2**64 - 1, 0, 2, "device")],
)
def test_ranges_outside_their_regions_are_refused(device_offset: int, host_offset: int, nbytes: int, side: str) -> None:
    with pytest.raises(UsageError, match=f"inside its {side} allocation"):
        RangeBatch.within(DEVICE, HOST, u64(device_offset), u64(host_offset), u64(nbytes))


def test_shape_of_ranges_that_touch_on_the_host_alone() -> None:
    batch = columns([(8192, 4096, 4096, 4096, 0, 0), (0, 0, 0, 4096, 0, 0), (65_536, 8192, 8192, 4096, 0, 0)])
    assert batch.shape(Direction.H2D) == TransferShape(3, 12_288, Direction.H2D, host_runs=1, alignment=16)


def test_shape_keeps_allocations_apart() -> None:
    batch = columns([(0, 0, 0, 8, 0, 0), (8, 8, 8, 8, 1, 0), (16, 16, 16, 8, 1, 1)])
    assert batch.shape(Direction.D2H) == TransferShape(3, 24, Direction.D2H, host_runs=2, alignment=8)


@pytest.mark.parametrize("column", range(4))
@pytest.mark.parametrize("alignment", [1, 2, 4, 8, 16])
def test_alignment_is_that_of_the_worst_address_or_size(column: int, alignment: int) -> None:
    row = [4096, 4096, 4096, 4096, 0, 0]
    row[column] += alignment
    batch = columns([(0, 0, 0, 4096, 0, 0), tuple(row)])
    assert batch.shape(Direction.H2D).alignment == alignment


@given(batches())
def test_shape_counts_what_merging_leaves(batch: RangeBatch) -> None:
    shape = batch.shape(Direction.BOTH)
    assert shape.merged_ranges == len(merged_rows(batch))
    assert shape.total_bytes == sum(row[3] for row in rows_of(batch))
    runs = sorted(rows_of(batch), key=lambda row: row[1])
    joined = sum(a[1] + a[3] == b[1] and a[5] == b[5] for a, b in pairwise(runs))
    assert shape.host_runs == len(batch) - joined
