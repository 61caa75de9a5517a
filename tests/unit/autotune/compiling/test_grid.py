from bisect import bisect_right
from itertools import pairwise

import pytest

from pega_tune.autotune.compiling.grid import Grid, grid_of
from pega_tune.autotune.layouts import HOST_ORDERED, STRIDED, NamedLayout
from pega_tune.autotune.sweep.observations import observe
from pega_tune.kernels.plan import Backend, CopyPlan, Variant, direct, kernel
from pega_tune.kernels.shape import Direction, TransferShape
from pega_tune.profiles.policy.table import centres
from pega_tune.profiles.policy.terms import Hint
from tests.helpers.sweeps import block, cell

BATCH = CopyPlan(Backend.BATCH)
NARROW = kernel(Variant.WARP, 1, 256)


def _grid(times: dict[tuple[int, int], dict[CopyPlan, float]]) -> Grid:
    """The grid of what was measured, by ranges and average size."""
    blocks = [
        block(TransferShape(n, n * s, Direction.H2D), [cell(plan, [t] * 7) for plan, t in measured.items()])
        for (n, s), measured in times.items()
    ]
    (seen,) = observe(blocks)
    return grid_of(seen)


def _plain(sizes: tuple[int, ...]) -> dict[tuple[int, int], dict[CopyPlan, float]]:
    return {(n, s): {direct(): 1e-5 + n * s / 1e10} for n in (1, 64, 65_536) for s in sizes}


def test_powers_of_two_stand_for_their_cells() -> None:
    grid = _grid(_plain((256, 1 << 26)))
    for edges, octaves in ((grid.range_edges, range(17)), (grid.size_edges, range(8, 27))):
        for octave in octaves:
            assert centres(edges)[bisect_right(edges, 1 << octave) - 1] == 1 << octave


def test_edges_ascend_from_one_in_half_octaves() -> None:
    grid = _grid(_plain((256, 1 << 26)))
    for edges in (grid.range_edges, grid.size_edges):
        assert edges[0] == 1
        assert all(low < high for low, high in pairwise(edges))
        assert all(high / low < 1.5 for low, high in pairwise(edges) if low > 300)
    assert grid.range_edges[:2] == (1, 2)


def test_cells_run_row_by_row_and_reach_to_their_corners() -> None:
    grid = _grid(_plain((256, 4096)))
    sizes = centres(grid.size_edges)
    assert len(grid.shapes) == len(grid.corners) == len(grid.range_edges) * len(sizes)
    assert [c.average_range_bytes for c in grid.shapes[: len(sizes)]] == list(sizes)
    assert {c.merged_ranges for c in grid.shapes[: len(sizes)]} == {1}
    for shape, corner in zip(grid.shapes, grid.corners, strict=True):
        assert corner.merged_ranges >= shape.merged_ranges
        for edges, a, b in (
            (grid.range_edges, shape.merged_ranges, corner.merged_ranges),
            (grid.size_edges, shape.average_range_bytes, corner.average_range_bytes),
        ):
            assert bisect_right(edges, a) == bisect_right(edges, b)


@pytest.mark.parametrize("shape", [(64, 4096), (100, 5000), (1, 256), (1, 1), (3, 3)])
def test_one_shape_has_a_cell_of_its_own(shape: tuple[int, int]) -> None:
    grid = _grid({shape: {direct(): 1e-5}})
    for edges, value in ((grid.range_edges, shape[0]), (grid.size_edges, shape[1])):
        assert len(edges) <= 3
        assert max(value, centre := centres(edges)[bisect_right(edges, value) - 1]) < 1.2 * min(value, centre)


def _with_batch(factor: float) -> dict[tuple[int, int], dict[CopyPlan, float]]:
    """Batched copies that take so many times as long below 32 KiB as above."""
    return {
        (n, s): {NARROW: 2e-6 * n, BATCH: 1e-6 * n * (factor if s < 32_768 else 1.0)}
        for n in (64, 256)
        for s in (4096, 16_384, 65_536, 262_144)
    }


def test_an_edge_lies_at_a_cliff() -> None:
    added = set(_grid(_with_batch(1.6)).size_edges) - set(_grid(_with_batch(1.0)).size_edges)
    assert added == {32_768}


def test_a_gentle_slope_is_no_cliff() -> None:
    assert _grid(_with_batch(1.1)).size_edges == _grid(_with_batch(1.0)).size_edges


def test_a_block_that_was_slow_as_a_whole_is_no_cliff() -> None:
    times = _with_batch(1.0)
    slow = times[64, 16_384]
    times[64, 16_384] = {plan: 2 * time_s for plan, time_s in slow.items()}
    assert _grid(times) == _grid(_with_batch(1.0))


def test_a_plan_that_nobody_would_choose_makes_no_edge() -> None:
    times = _with_batch(1.6)
    hopeless = {key: {NARROW: plans[NARROW] / 10, BATCH: plans[BATCH]} for key, plans in times.items()}
    assert _grid(hopeless).size_edges == _grid(_with_batch(1.0)).size_edges


@pytest.mark.parametrize(
    ("layout", "hint"),
    [
        (HOST_ORDERED, Hint.HOST_ORDERED),
        (STRIDED, Hint.STRIDED),
        (NamedLayout.parse("runs:4"), Hint.HOST_RUNS),
        (NamedLayout(), Hint.NONE),
    ],
)
def test_cells_of_a_hint_are_of_its_kind(layout: NamedLayout, hint: Hint) -> None:
    shape = layout.described(TransferShape(64, 64 * 4096, Direction.H2D))
    (seen,) = observe([block(shape, [cell(direct(), [1e-5] * 7)])])
    assert seen.hint is hint
    assert shape in grid_of(seen).shapes


def test_ranges_in_many_host_runs_are_of_no_kind() -> None:
    shape = NamedLayout.parse("runs:32").described(TransferShape(64, 64 * 4096, Direction.H2D))
    assert observe([block(shape, [cell(direct(), [1e-5] * 7)])]) == ()
