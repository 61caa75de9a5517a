from random import Random
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pega_tune.autotune.bench.regret_statistics import Halves, Spread, cross_regret, noise_floor

POINT = 0.01
SHAPES, PLANS, ROUNDS = 400, 12, 12

times_s = st.floats(1e-6, 1.0)
halves = st.builds(Halves, times_s, times_s)


def _noisy(random: Random, time_s: float, noise: float = 0.02) -> Halves:
    """Twelve rounds of a plan, which are slower now and then and never much faster, as transfers are."""
    found = Halves.of([time_s * (1 + abs(random.gauss(0, noise))) for _ in range(ROUNDS)])
    assert found is not None
    return found


def _blocks(seed: int, *factors: float) -> list[list[Halves]]:
    """Blocks of plans as fast as each other, and of some that are slower by a factor."""
    random = Random(seed)
    return [[_noisy(random, 1e-3 * f) for f in (*factors, *[1.0] * PLANS)] for _ in range(SHAPES)]


def test_halves_are_the_even_and_the_odd_rounds() -> None:
    assert Halves.of([1.0, 10.0, 2.0, 20.0, 3.0]) == Halves(2.0, 15.0)
    assert Halves.of([1.0, 2.0]) == Halves(1.0, 2.0)
    assert Halves.of([1.0]) is None
    assert Halves.of([]) is None


@pytest.mark.parametrize("seed", range(3))
def test_equal_plans_cost_nothing_but_noise(seed: int) -> None:
    blocks = _blocks(seed)
    regret = fmean(cross_regret(block[0], block) for block in blocks)
    floor = fmean(map(noise_floor, blocks))
    assert abs(regret) < 0.1 * POINT
    assert 0 < floor < POINT
    assert regret < floor


@pytest.mark.parametrize("seed", range(3))
def test_picking_and_timing_by_the_same_rounds_would_count_luck(seed: int) -> None:
    """What the halves are for: the naive regret of a plan that is as good as any."""
    naive = fmean(block[0].even_s / min(plan.even_s for plan in block) - 1 for block in _blocks(seed))
    assert naive > 0.3 * POINT


@pytest.mark.parametrize("slower", [0.05, 0.1, 0.5])
def test_a_slower_plan_shows_by_how_much(slower: float) -> None:
    blocks = _blocks(7, 1 + slower)
    assert fmean(cross_regret(block[0], block) for block in blocks) == pytest.approx(slower, abs=0.15 * POINT)


def test_the_best_costs_nothing_where_the_others_are_slower() -> None:
    random = Random(3)
    for _ in range(SHAPES):
        best, *others = (_noisy(random, time_s) for time_s in (1.0, 1.5, 2.0))
        assert cross_regret(best, (best, *others)) == 0
        assert noise_floor((best, *others)) == 0


def test_without_noise_regret_is_the_ratio_of_the_times() -> None:
    contenders = [Halves(t, t) for t in (2.0, 3.0, 5.0)]
    assert [cross_regret(chosen, contenders) for chosen in contenders] == pytest.approx([0.0, 0.5, 1.5])
    assert noise_floor(contenders) == 0


@given(st.lists(halves, min_size=1, max_size=8))
def test_the_floor_is_never_negative(contenders: list[Halves]) -> None:
    assert noise_floor(contenders) >= 0


@given(halves, st.lists(halves, min_size=1, max_size=8), st.floats(1e-3, 1e3))
def test_units_do_not_matter(chosen: Halves, contenders: list[Halves], factor: float) -> None:
    def scaled(one: Halves) -> Halves:
        return Halves(one.even_s * factor, one.odd_s * factor)

    there = cross_regret(scaled(chosen), [scaled(one) for one in contenders])
    assert 1 + there == pytest.approx(1 + cross_regret(chosen, contenders))


@given(st.lists(halves, min_size=1, max_size=8), st.data())
def test_regret_is_negative_by_no_more_than_the_halves_disagree(contenders: list[Halves], data: st.DataObject) -> None:
    chosen = data.draw(st.sampled_from(contenders))
    apart = max(max(h.even_s, h.odd_s) / min(h.even_s, h.odd_s) for h in contenders)
    assert 1 + cross_regret(chosen, contenders) >= 1 / apart**2 * (1 - 1e-9)


@given(halves, st.lists(halves, min_size=1, max_size=8), st.floats(1.0, 10.0))
def test_a_slower_choice_never_looks_better(chosen: Halves, contenders: list[Halves], factor: float) -> None:
    slower = Halves(chosen.even_s * factor, chosen.odd_s * factor)
    assert cross_regret(slower, contenders) >= cross_regret(chosen, contenders)


def test_a_spread_over_shapes() -> None:
    spread = Spread.of([0.0] * 19 + [0.4])
    assert spread is not None
    assert spread.mean == pytest.approx(0.02)
    assert spread.p95 == pytest.approx(0.02)
    assert (spread.max, spread.n) == (0.4, 20)
    assert Spread.of([]) is None
