import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pega_tune.autotune.compiling.ties import leaders

RANKS = np.array([2, 1, 0])


def test_the_fastest_leads_where_it_is_faster_by_more_than_the_margin() -> None:
    times_s = np.array([[1.0, 1.0], [1.1, 0.9], [1.2, 1.2]])
    assert leaders(times_s, RANKS, 0.02, columns=2).tolist() == [0, 1]


def test_of_equivalent_plans_the_simplest_leads() -> None:
    times_s = np.array([[1.0], [1.01], [1.015]])
    assert leaders(times_s, RANKS, 0.02, columns=1).tolist() == [2]
    assert leaders(times_s, RANKS, 0.012, columns=1).tolist() == [1]


def test_a_cell_follows_its_neighbours_if_their_plan_is_equivalent() -> None:
    times_s = np.ones((2, 9)) * np.array([[1.0], [1.01]])
    times_s[1] = 1.5  # plan 0 wins everywhere but in the middle, where plan 1 is as good and simpler
    times_s[1, 4] = 1.0
    assert leaders(times_s, np.array([1, 0]), 0.02, columns=3).tolist() == [0] * 9
    times_s[0, 4] = 1.1
    assert leaders(times_s, np.array([1, 0]), 0.02, columns=3).tolist() == [0, 0, 0, 0, 1, 0, 0, 0, 0]


def test_a_plan_that_may_not_be_chosen_leads_nowhere() -> None:
    times_s = np.array([[np.inf, 1.0], [5.0, np.inf]])
    assert leaders(times_s, np.array([0, 1]), 0.02, columns=2).tolist() == [1, 0]


@given(st.lists(st.lists(st.floats(1.0, 1.2), min_size=12, max_size=12), min_size=2, max_size=5), st.floats(0, 0.1))
def test_leaders_are_within_the_margin_and_no_less_simple_than_the_fastest(
    rows: list[list[float]], margin: float
) -> None:
    times_s, ranks = np.array(rows), np.arange(len(rows))[::-1].copy()
    led = leaders(times_s, ranks, margin, columns=4)
    cells, fastest = np.arange(12), times_s.argmin(axis=0)
    assert np.all(times_s[led, cells] <= times_s.min(axis=0) * (1 + margin))
    assert np.all(ranks[led] <= ranks[fastest])
