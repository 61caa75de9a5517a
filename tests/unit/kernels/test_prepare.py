import numpy as np
import pytest
from hypothesis import given

from pega_tune.errors import UsageError
from pega_tune.kernels.prepare import CapacityError, MergedRanges, Workspace
from pega_tune.kernels.ranges import RangeBatch
from tests.helpers.batches import batches, columns, merged_rows

Row = tuple[int, int, int, int]


def rows(merged: MergedRanges) -> list[Row]:
    fields = (merged.device, merged.host, merged.host_alias, merged.nbytes)
    return list(zip(*(field.tolist() for field in fields), strict=True))


@given(batches())
def test_merging_is_that_of_the_slow_model(batch: RangeBatch) -> None:
    assert rows(Workspace(40).merge(batch)) == merged_rows(batch)


@given(batches(), batches())
def test_a_workspace_is_used_again(first: RangeBatch, second: RangeBatch) -> None:
    workspace = Workspace(40)
    workspace.merge(first)
    assert rows(workspace.merge(second)) == merged_rows(second)


def test_neighbours_on_both_sides_become_one_range() -> None:
    batch = columns([(4096, 4096, 4096, 4096, 0, 0), (0, 0, 0, 4096, 0, 0), (8192, 8192, 8192, 5, 0, 0)])
    assert rows(Workspace(3).merge(batch)) == [(0, 0, 0, 8197)]


@pytest.mark.parametrize("column", [0, 2, 4, 5], ids=["device", "alias", "device allocation", "host allocation"])
def test_neighbours_on_the_host_that_differ_elsewhere_stay_apart(column: int) -> None:
    row = [64, 64, 64, 64, 0, 0]
    row[column] += 1
    batch = columns([(0, 0, 0, 64, 0, 0), tuple(row)])
    assert len(Workspace(2).merge(batch)) == 2


def test_neighbours_on_the_device_alone_stay_apart() -> None:
    assert len(Workspace(2).merge(columns([(0, 0, 0, 64, 0, 0), (64, 65, 65, 64, 0, 0)]))) == 2


def test_ranges_in_order_with_nothing_to_merge_are_not_copied() -> None:
    batch = columns([(0, 0, 0, 64, 0, 0), (0, 64, 64, 64, 0, 0), (0, 200, 200, 64, 0, 0)])
    merged = Workspace(3).merge(batch)
    assert all(
        np.shares_memory(getattr(merged, name), getattr(batch, name))
        for name in ("device", "host", "host_alias", "nbytes")
    )


def test_a_batch_larger_than_the_workspace_is_refused() -> None:
    with pytest.raises(CapacityError, match="2 ranges do not fit a workspace for 1"):
        Workspace(1).merge(columns([(0, 0, 0, 1, 0, 0)] * 2))


@pytest.mark.parametrize("capacity", [0, -1, 2**31])
def test_a_workspace_has_a_sensible_capacity(capacity: int) -> None:
    with pytest.raises(UsageError, match="has room for"):
        Workspace(capacity)


@pytest.mark.parametrize("column", range(6))
@pytest.mark.parametrize("at", [1, 1023, 1024, 1025, 2048, 2999])
def test_one_break_in_many_neighbours_is_found_wherever_it_is(at: int, column: int) -> None:
    table = np.zeros((6, 3000), np.int64)
    table[:3] = np.arange(3000) * 16
    table[3] = 16
    table[column, at:] += 16 if column != 3 else 0
    table[3, at - 1] -= column == 3
    batch = columns([tuple(row) for row in table.T.tolist()])
    merged = Workspace(3000).merge(batch)
    assert merged.nbytes.tolist() == [16 * at - (column == 3), 16 * (3000 - at)]


@pytest.mark.parametrize("at", [1, 1023, 1024, 1025, 2999])
def test_one_range_out_of_order_is_found_wherever_it_is(at: int) -> None:
    places = np.arange(3000) * 32
    places[[at - 1, at]] = places[[at, at - 1]]
    batch = columns([(place, place, place, 16, 0, 0) for place in places.tolist()])
    assert Workspace(3000).merge(batch).host.tolist() == sorted(places.tolist())
