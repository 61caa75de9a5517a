from bisect import bisect_right
from itertools import pairwise

import pytest

from pega_tune.autotune.sweep.lattice import RANGES, SIZES, Axis, cell_shapes
from pega_tune.kernels.shape import Direction


@pytest.mark.parametrize(("axis", "octaves"), [(RANGES, range(17)), (SIZES, range(8, 27))])
def test_powers_of_two_stand_for_their_cells(axis: Axis, octaves: range) -> None:
    for octave in octaves:
        assert axis.centres[bisect_right(axis.edges, 1 << octave) - 1] == 1 << octave


@pytest.mark.parametrize("axis", [RANGES, SIZES])
def test_edges_ascend_from_one_in_half_octaves(axis: Axis) -> None:
    assert axis.edges[0] == 1
    assert len(axis.edges) == len(axis.centres)
    assert all(low < high for low, high in pairwise(axis.edges))
    for index, centre in enumerate(axis.centres):
        assert bisect_right(axis.edges, centre) - 1 == index
    assert all(high / low < 1.5 for low, high in pairwise(axis.edges) if low > 300)


def test_a_single_range_has_a_row_of_its_own() -> None:
    assert RANGES.edges[:2] == (1, 2)
    assert RANGES.centres[0] == 1


def test_cells_run_row_by_row() -> None:
    cells = cell_shapes(Direction.H2D)
    assert len(cells) == len(RANGES.edges) * len(SIZES.edges)
    assert [c.average_range_bytes for c in cells[: len(SIZES.centres)]] == list(SIZES.centres)
    assert {c.merged_ranges for c in cells[: len(SIZES.centres)]} == {1}
