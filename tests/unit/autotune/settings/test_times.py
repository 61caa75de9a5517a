"""Times of plans and pairs, by formula, by tables, and by the cells of a recorded sweep."""

import numpy as np
import pytest

from pega_tune.autotune.settings import mix as mixes
from pega_tune.autotune.settings.cells import MeasuredTimes
from pega_tune.autotune.settings.mix import Mix
from pega_tune.autotune.settings.tables import TabledTimes
from pega_tune.autotune.settings.times import Times
from pega_tune.autotune.sweep.observations import observe, transfer_samples
from pega_tune.autotune.sweep.plans import pegaflow_kernel
from pega_tune.kernels.plan import Backend, CopyPlan, PlanPair, Variant, direct, kernel
from pega_tune.kernels.shape import Direction
from pega_tune.profiles.policy.table import CompiledPolicy, Option, Predicted
from pega_tune.profiles.policy.terms import Hint
from tests.helpers.bundles import table
from tests.helpers.recordings import load
from tests.helpers.timed_plans import counted, times_of

NARROW, WIDE = kernel(Variant.WARP, 2, 1024), kernel(Variant.WARP, 64, 1024)


def test_each_direction_takes_its_own_plan_and_both_the_slower():
    traffic = [counted(8, 4096, direction) for direction in Direction]
    times = times_of({NARROW: lambda _: 2.0, WIDE: lambda _: 1.0}, *traffic)
    found = dict(zip((s.direction for s in times.mix.shapes), times.of(WIDE, NARROW), strict=True))
    assert found == {Direction.H2D: 1.0, Direction.D2H: 2.0, Direction.BOTH: 2.0}
    assert times.is_guessed(WIDE, NARROW).tolist() == [s.direction is Direction.BOTH for s in times.mix.shapes]
    assert not times.is_guessed(WIDE, WIDE).any()


def test_a_plan_that_is_unknown_somewhere_is_not_known():
    times = times_of({NARROW: lambda s: 1.0 if s.merged_ranges > 1 else np.nan}, counted(8, 4096), counted(1, 64))
    assert not times.is_known(NARROW, NARROW)
    assert times.known([NARROW, WIDE]) == []


def test_the_shapes_that_move_most_are_kept():
    few = [counted(n, 4096, count=2) for n in range(1, mixes.MAX_SHAPES + 11)]
    mix = Mix.of(few)
    assert len(mix.shapes) == mixes.MAX_SHAPES
    assert mix.shapes[0].merged_ranges == mixes.MAX_SHAPES + 10
    assert mix.left_out == pytest.approx(sum(range(1, 11)) / sum(range(1, mixes.MAX_SHAPES + 11)))
    assert Mix.of(few[:5]).left_out == 0


def tabled(*options: Option) -> Times:
    cells = (tuple(options),) * 2
    mix = Mix.of([counted(1000, 4096)])
    return Times(mix, TabledTimes(CompiledPolicy((table(cells=cells),)), mix))


def test_a_table_tells_the_times_that_it_holds_and_bounds_for_wider_kernels_of_the_kind():
    times = tabled(Option(NARROW, Predicted(3e-3)), Option(WIDE, Predicted(1e-3)))
    assert times.of(NARROW, NARROW) == [3e-3]
    assert times.of(kernel(Variant.WARP, 8, 1024), direct()) == [3e-3]
    assert times.of(kernel(Variant.WARP, 128, 1024), direct()) == [1e-3]


@pytest.mark.parametrize("plan", [kernel(Variant.WARP, 1, 1024), pegaflow_kernel(), direct(), CopyPlan(Backend.BATCH)])
def test_a_table_tells_nothing_of_lighter_kernels_other_kinds_and_copy_engines_that_it_does_not_hold(plan):
    times = tabled(Option(NARROW, Predicted(3e-3)), Option(CopyPlan(Backend.PITCHED), Predicted(1e-3)))
    assert np.isnan(times.of(plan, plan)).all()


RECORDED = load()


@pytest.mark.parametrize("direction", Direction)
def test_where_a_plan_was_measured_its_time_is_that(direction):
    mix = Mix.of([counted(16384, 4096, direction)])
    times = Times(mix, MeasuredTimes(observe(RECORDED.blocks), mix))
    block = RECORDED.block(f"idle/{direction}/16384x67108864")
    for plan in (direct(), pegaflow_kernel(), NARROW):
        whole = PlanPair(plan, plan) if direction is Direction.BOTH else plan
        cell = next(cell for cell in block.cells if cell.plan == whole and cell.kind != "ceiling")
        assert times.of(plan, plan) == [pytest.approx(float(np.median(transfer_samples(cell))))]


def test_between_measured_shapes_times_lie_between_and_what_was_never_measured_is_unknown():
    mix = Mix.of([counted(n, 4096) for n in (4096, 8000, 16384)])
    times = Times(mix, MeasuredTimes(observe(RECORDED.blocks), mix))
    large, middle, small = times.of(NARROW, NARROW)
    assert small < middle < large
    strange = kernel(Variant.WARP, 3, 96, priority=-3)
    assert not times.is_known(strange, strange)
    assert times.source.plans >= {direct(), NARROW}


@pytest.mark.parametrize("direction", Direction)
def test_no_curve_leads_past_the_fastest_that_was_seen(direction):
    far = [counted(n, nbytes, direction) for n in (64, 4096, 65536) for nbytes in (16 << 10, 256 << 10, 4 << 20)]
    mix = Mix.of(far)
    (seen,) = (s for s in observe(RECORDED.blocks) if s.direction is direction and s.hint is Hint.NONE)
    rates = [seen.shapes[i].moved_bytes / time_s for times_s in seen.times_s for i, time_s in times_s.items()]
    source = MeasuredTimes([seen], mix)
    moved = np.array([shape.moved_bytes for shape in mix.shapes])
    for plan in seen.plans:
        times_s = source.times_s(plan, direction)
        known = np.isfinite(times_s)
        assert (moved[known] / times_s[known] <= 1.000001 * max(rates)).all()


def test_a_direction_that_was_not_measured_is_unknown():
    mix = Mix.of([counted(64, 4096, Direction.D2H)])
    loads = [seen for seen in observe(RECORDED.blocks) if seen.direction is Direction.H2D]
    assert not Times(mix, MeasuredTimes(loads, mix)).is_known(direct(), direct())
