import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pega_tune.errors import UsageError
from pega_tune.kernels.host_runs import ALIGNMENT, HostRuns, RunFinder
from pega_tune.kernels.prepare import CapacityError
from pega_tune.kernels.ranges import RangeBatch
from pega_tune.kernels.shape import Direction
from tests.helpers.batches import batches, columns, rows_of


def runs_of(batch: RangeBatch) -> list[tuple[int, int]]:
    """The slow model: (host, bytes)."""
    runs: list[list[int]] = []
    owner = None
    for _, host, _, nbytes, _, allocation in sorted(rows_of(batch), key=lambda row: row[1]):
        if runs and sum(runs[-1]) == host and owner == allocation:
            runs[-1][1] += nbytes
        else:
            runs.append([host, nbytes])
        owner = allocation
    return [(host, nbytes) for host, nbytes in runs]


def pairs(runs: HostRuns) -> list[tuple[int, int]]:
    return list(zip(runs.host.tolist(), runs.nbytes.tolist(), strict=True))


@given(batches(), batches())
def test_runs_are_those_of_the_slow_model(first: RangeBatch, second: RangeBatch) -> None:
    finder = RunFinder(40)
    for batch in (first, second):
        runs = finder.find(batch)
        assert pairs(runs) == runs_of(batch)
        assert len(runs) == batch.shape(Direction.H2D).host_runs
        order = runs.order.tolist() or list(range(len(batch)))
        assert order == sorted(range(len(batch)), key=lambda i: int(batch.host[i]))


@given(batches())
def test_padding_is_what_congruence_costs(batch: RangeBatch) -> None:
    runs = RunFinder(40).find(batch)
    place = 0
    for host, nbytes in pairs(runs):
        while place % ALIGNMENT != host % ALIGNMENT:
            place += 1
        place += nbytes
    assert runs.total_bytes + runs.padding == place


def test_ranges_in_order_are_not_sorted() -> None:
    runs = RunFinder(2).find(columns([(64, 0, 0, 64, 0, 0), (0, 64, 64, 64, 1, 0)]))
    assert (len(runs.order), pairs(runs)) == (0, [(0, 128)])


@given(
    st.integers(1, 1100),
    st.lists(st.tuples(st.integers(0, 1099), st.sampled_from(["gap", "border", "swap"])), max_size=3),
)
def test_long_runs_end_where_they_must(ranges: int, faults: list[tuple[int, str]]) -> None:
    """Batches of several blocks, with a gap, an allocation border or two ranges out of order somewhere."""
    rows = [[8 * i, 8 * i, 8 * i, 8, 0, 0] for i in range(ranges)]
    for at, fault in faults:
        for row in rows[at:] if fault != "swap" else []:
            row[1 if fault == "gap" else 5] += 4
        if fault == "swap" and at + 1 < ranges:
            rows[at], rows[at + 1] = rows[at + 1], rows[at]
    batch = columns([tuple(row) for row in rows])
    assert pairs(RunFinder(ranges).find(batch)) == runs_of(batch)


def test_a_run_does_not_cross_host_allocations() -> None:
    assert len(RunFinder(2).find(columns([(0, 0, 0, 64, 0, 0), (64, 64, 64, 64, 0, 1)]))) == 2


def test_one_range_may_be_read_twice() -> None:
    twice = columns([(0, 0, 0, 64, 0, 0), (512, 0, 0, 64, 0, 0), (999, 64, 64, 64, 0, 0)])
    assert pairs(RunFinder(3).find(twice)) == [(0, 64), (0, 128)]


def test_a_batch_larger_than_the_finder_is_refused() -> None:
    with pytest.raises(CapacityError, match="2 ranges do not fit a run finder for 1"):
        RunFinder(1).find(columns([(0, 0, 0, 1, 0, 0)] * 2))


@pytest.mark.parametrize("capacity", [0, 2**31])
def test_a_finder_has_a_sensible_capacity(capacity: int) -> None:
    with pytest.raises(UsageError, match="has room for"):
        RunFinder(capacity)


def test_runs_are_views() -> None:
    finder = RunFinder(1)
    one, two = (finder.find(columns([(0, host, host, 1, 0, 0)])) for host in (5, 6))
    assert np.shares_memory(one.host, two.host)
