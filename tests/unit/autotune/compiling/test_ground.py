import numpy as np
import pytest

from pega_tune.autotune.compiling.forecast import fit_curves, forecast
from pega_tune.autotune.compiling.grid import grid_of
from pega_tune.autotune.compiling.ground import Ground
from pega_tune.autotune.compiling.laws import Shapes, terms
from pega_tune.autotune.sweep.observations import observe
from pega_tune.autotune.sweep.plans import pegaflow_kernel
from pega_tune.kernels.plan import AnyPlan, CopyPlan, Variant, direct, kernel
from pega_tune.kernels.shape import Direction, TransferShape
from pega_tune.profiles.policy.terms import Runtime
from pega_tune.profiles.store.records import BlockRecord
from tests.helpers.sweeps import block, cell

WARP = kernel(Variant.WARP, 8, 256)
BOUNDED = kernel(Variant.BLOCK, 16, 256)
COUNTS = [(n, s) for n in (1, 4, 16, 64, 256, 1024) for s in (1024, 4096, 16_384)]


def _time_s(plan: CopyPlan, shape: TransferShape) -> float:
    truth = (5e-6, 2.4e-6, 1 / 50e9) if plan == direct() else (1.5e-5, 1e-9, 1 / 48e9, 1e-6)
    return float(terms(plan, Shapes.of([shape]))[0] @ np.array(truth))


def _blocks(*plans: CopyPlan, counts: list[tuple[int, int]] = COUNTS) -> list[BlockRecord]:
    shapes = [TransferShape(n, n * s, Direction.H2D) for n, s in counts]
    return [block(s, [cell(p, [_time_s(p, s)] * 7) for p in plans]) for s in shapes]


def _ground(blocks: list[BlockRecord]) -> Ground:
    (seen,) = observe(blocks)
    grid = grid_of(seen)
    return Ground(seen, grid, forecast(seen, fit_curves(seen), grid.shapes))


def _offered(ground: Ground, plan: AnyPlan) -> set[int]:
    """Merged ranges of the cells in which a plan may be chosen."""
    plans = ground.plans(Runtime.FULL)
    row = ground.offered(plans)[list(plans).index(ground.seen.plans.index(plan))]
    return {ground.cells[i].merged_ranges for i in np.flatnonzero(np.isfinite(row))}


def test_between_the_shapes_times_follow_the_truth() -> None:
    ground = _ground(_blocks(direct(), WARP))
    for index, plan in enumerate(ground.seen.plans):
        assert isinstance(plan, CopyPlan)
        truth = np.array([_time_s(plan, shape) for shape in ground.cells])
        assert ground.times.times_s[index] == pytest.approx(truth, rel=0.1)


def test_measured_times_stay_as_they_were_cliffs_too() -> None:
    blocks = _blocks(direct(), WARP)
    cliffs = [
        block(b.shape, [cell(direct(), [_time_s(direct(), b.shape) * (1 + i % 3)] * 7), b.cells[1]])
        for i, b in enumerate(blocks)
    ]
    ground = _ground(cliffs)
    index = ground.seen.plans.index(direct())
    at = {(c.merged_ranges, c.average_range_bytes): i for i, c in enumerate(ground.cells)}
    for s, shape in enumerate(ground.seen.shapes):
        place = at[shape.merged_ranges, shape.average_range_bytes]
        assert ground.times.times_s[index, place] == ground.seen.times_s[index][s]


def test_a_slow_block_does_not_favour_the_plans_that_are_not_in_it() -> None:
    blocks = _blocks(direct(), WARP, BOUNDED)
    slow = blocks[7]
    others = [cell(p, [3 * _time_s(p, slow.shape)] * 7) for p in (direct(), WARP)]
    blocks[7] = block(slow.shape, others)
    ground = _ground(blocks)
    bounded, warp = (ground.seen.plans.index(plan) for plan in (BOUNDED, WARP))
    truth = [_time_s(BOUNDED, shape) / _time_s(WARP, shape) for shape in ground.cells]
    assert ground.times.times_s[bounded] / ground.times.times_s[warp] == pytest.approx(np.array(truth), rel=0.15)


def test_a_bound_that_cut_nothing_off_is_not_offered_where_it_would() -> None:
    counts = [(n, s) for n, s in COUNTS if n <= 16]
    # PegaFlow's kernel tells what a bound of 16 does up to 16 ranges, and nothing of what it does to 19.
    blocks = [*_blocks(pegaflow_kernel(), direct()), *_blocks(BOUNDED, counts=[(4096, 4096)])]
    assert max(n for n in _offered(_ground(blocks), BOUNDED) if n < 1024) < 16
    assert len(counts) < len(COUNTS)


def test_a_plan_that_was_not_measured_around_a_cell_is_not_offered_there() -> None:
    blocks = _blocks(direct(), WARP)
    blocks[-1] = block(blocks[-1].shape, [*blocks[-1].cells, cell(BOUNDED, [1e-6] * 7)])
    assert min(_offered(_ground(blocks), BOUNDED)) > 512


def test_every_cell_has_an_offer() -> None:
    ground = _ground([*_blocks(BOUNDED, counts=COUNTS[:4]), *_blocks(WARP, counts=COUNTS[-4:])])
    plans = ground.plans(Runtime.FULL)
    assert np.all(np.isfinite(ground.offered(plans)).any(axis=0))


def test_without_a_curve_a_plan_keeps_its_ratio_to_one_that_has_one() -> None:
    odd = kernel(Variant.BLOCK, 300, 512)
    blocks = _blocks(direct(), WARP)
    last = blocks[-1]
    blocks[-1] = block(last.shape, [*last.cells, cell(odd, [_time_s(WARP, last.shape) / 2] * 7)])
    ground = _ground(blocks)
    mine, warp = (ground.seen.plans.index(plan) for plan in (odd, WARP))
    near = ground.times.apart.argmin(axis=1) == len(ground.seen.shapes) - 1
    assert ground.times.times_s[mine, near] == pytest.approx(ground.times.times_s[warp, near] / 2)


def test_without_any_curve_the_nearest_shape_answers() -> None:
    ground = _ground(_blocks(direct(), counts=COUNTS[:2]))
    times = ground.seen.times_s[0]
    nearest = ground.times.apart.argmin(axis=1)
    assert ground.times.times_s[0].tolist() == [times[int(s)] for s in nearest]
