from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pega_tune.autotune.compiling.pareto import Offers, pareto
from pega_tune.profiles.policy.choose import DEFAULT_PERIOD_S
from pega_tune.profiles.policy.table import MAX_OPTIONS

plans = st.lists(st.tuples(st.floats(1e-6, 1e-2), st.integers(0, 64)), min_size=1, max_size=30)


def _offers(found: list[tuple[float, int]]) -> Offers:
    times_s, threads = zip(*found, strict=True)
    ranks = np.argsort(np.argsort(threads, kind="stable"))
    return Offers(np.array(times_s), np.array(threads), np.zeros(len(found), dtype=np.int64), ranks)


def _leader(offers: Offers, margin: float) -> int:
    equal = offers.times_s <= offers.times_s.min() * (1 + margin)
    return int(np.argmin(np.where(equal, offers.ranks, len(offers.ranks))))


@given(plans, st.floats(0, 0.2))
def test_kept_plans_are_slower_and_beyond_the_noise_lighter_one_after_the_other(
    found: list[tuple[float, int]], margin: float
) -> None:
    offers = _offers(found)
    kept = pareto(offers, _leader(offers, margin), margin)
    assert 1 <= len(kept) <= MAX_OPTIONS
    assert len(set(kept)) == len(kept)
    assert all(offers.times_s[a] <= offers.times_s[b] for a, b in pairwise(kept))
    slower = [i for i in kept if offers.times_s[i] > offers.times_s.min() * (1 + margin)]
    assert all(offers.threads[a] > offers.threads[b] for a, b in pairwise(slower))


@given(plans, st.floats(0, 0.2))
def test_the_fastest_the_leader_and_the_lightest_are_kept_and_no_other_within_the_noise(
    found: list[tuple[float, int]], margin: float
) -> None:
    offers = _offers(found)
    leader, fastest = _leader(offers, margin), int(np.argmin(offers.times_s))
    kept = pareto(offers, leader, margin)
    assert {fastest, leader} <= set(kept)
    assert offers.threads[list(kept)].min() == offers.threads.min()
    within = {i for i in kept if offers.times_s[i] <= offers.times_s.min() * (1 + margin)}
    assert all(offers.threads[i] == offers.threads.min() for i in within - {fastest, leader})


def test_of_plans_that_leave_the_sms_alone_the_simplest_stays_however_slow() -> None:
    times_s = np.array([0.5e-3, 1e-3, 1.0])  # a kernel, batch, direct
    offers = Offers(times_s, np.array([4096, 0, 0]), np.array([3, 1, 0]), np.array([2, 1, 0]))
    assert pareto(offers, 0, 0.02) == (0, 1, 2)


def test_of_too_many_the_lightest_stays() -> None:
    count = MAX_OPTIONS + 3
    threads = np.arange(count)[::-1].astype(np.int64)
    offers = Offers(np.exp2(np.arange(count)), threads, np.zeros(count, dtype=np.int64), threads)
    assert pareto(offers, 0, 0.02) == (*range(MAX_OPTIONS - 1), count - 1)


def test_of_too_many_the_lightest_within_the_period_stays_too() -> None:
    """On an H200 16384 ranges of 64 KiB: three kernels, a batch, and copies one by one, which take too long."""
    times_s, threads = np.array([1.3e-3, 1.4e-3, 1.6e-3, 30e-3, 77e-3]), np.array([16384, 8192, 4096, 0, 0])
    offers = Offers(times_s, threads, np.array([3, 3, 3, 1, 0]), np.array([4, 3, 2, 1, 0]))
    assert pareto(offers, 0, 0.02) == (0, 1, 3, 4)


def test_the_lightest_within_the_period_stays_though_it_is_as_fast_as_the_leader() -> None:
    times_s, threads = np.array([40e-3, 40.1e-3, 77e-3]), np.array([4096, 1024, 0])
    offers = Offers(times_s, threads, np.zeros(3, dtype=np.int64), np.array([2, 1, 0]))
    assert pareto(offers, 0, 0.02) == (0, 1, 2)


long_plans = st.lists(st.tuples(st.floats(1e-3, 0.2), st.integers(0, 64)), min_size=1, max_size=30)


@given(long_plans, st.floats(0, 0.2))
def test_the_lightest_that_fits_the_period_and_the_lightest_of_all_are_kept(
    found: list[tuple[float, int]], margin: float
) -> None:
    offers = _offers(found)
    leader, fastest = _leader(offers, margin), int(np.argmin(offers.times_s))
    kept = list(pareto(offers, leader, margin))
    assert len(set(kept)) == len(kept) <= MAX_OPTIONS
    assert {fastest, leader} <= set(kept)
    assert list(offers.times_s[kept]) == sorted(offers.times_s[kept])
    assert offers.threads[kept].min() == offers.threads.min()
    fit = offers.times_s < DEFAULT_PERIOD_S
    if fit.any():
        assert offers.threads[[index for index in kept if fit[index]]].min() == offers.threads[fit].min()


@pytest.mark.parametrize("slower", [1.05, 1.5])
def test_each_further_plan_is_the_simplest_of_those_as_fast(slower: float) -> None:
    times_s = np.array([1.0, slower, slower * 1.01])
    offers = Offers(times_s, np.array([64, 8, 8]), np.zeros(3, dtype=np.int64), np.array([2, 1, 0]))
    assert pareto(offers, 0, 0.02) == (0, 2)
