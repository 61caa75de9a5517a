"""Order statistics, against scipy's binomial and against draws from a known distribution."""

import random
from math import inf, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from pega_tune.autotune.measuring.statistics import (
    Interval,
    median_interval,
    needed_samples,
    outliers,
    quantile_interval,
    separated,
)


@pytest.mark.parametrize(
    ("quantile", "confidence", "count"),
    [(0.5, 0.95, 6), (0.95, 0.95, 72), (0.99, 0.95, 368), (0.999, 0.95, 3688), (0.01, 0.95, 368), (0.5, 0.75, 3)],
)
def test_an_interval_is_refused_below_the_needed_samples(quantile: float, confidence: float, count: int) -> None:
    assert needed_samples(quantile, confidence) == count
    samples = [float(n) for n in range(count)]
    assert quantile_interval(samples[1:], quantile, confidence) is None
    assert quantile_interval(samples, quantile, confidence) is not None


@pytest.mark.parametrize("count", [0, 1, 5])
def test_few_samples_have_no_median_interval(count: int) -> None:
    assert median_interval([1.0] * count) is None


def test_six_samples_span_their_median() -> None:
    assert median_interval([3.0, 1.0, 2.0, 6.0, 5.0, 4.0]) == Interval(3.5, 1.0, 6.0)


def test_nine_samples_leave_the_extremes_out() -> None:
    assert median_interval([float(n) for n in range(1, 10)]) == Interval(5.0, 2.0, 8.0)


@given(st.integers(6, 3000), st.floats(0.02, 0.98), st.sampled_from([0.8, 0.95, 0.99]))
def test_ranks_are_the_tightest_that_cover(count: int, quantile: float, confidence: float) -> None:
    interval = quantile_interval([float(rank) for rank in range(1, count + 1)], quantile, confidence)
    half_error = (1 - confidence) / 2
    below, above = binom.cdf(0, count, quantile), 1 - binom.cdf(count - 1, count, quantile)
    if interval is None:
        assert max(below, above) > half_error * (1 - 1e-6)
        return
    low, high = int(interval.low), int(interval.high)
    tolerance = 1e-9
    assert binom.cdf(low - 1, count, quantile) <= half_error + tolerance
    assert binom.cdf(low, count, quantile) > half_error - tolerance
    assert binom.cdf(high - 1, count, quantile) >= 1 - half_error - tolerance
    assert binom.cdf(high - 2, count, quantile) < 1 - half_error + tolerance


def test_intervals_cover_the_true_median_as_often_as_claimed() -> None:
    draw = random.Random(1)
    hits = 0
    for _ in range(2000):
        interval = median_interval([draw.lognormvariate(0.0, 1.0) for _ in range(20)])
        assert interval is not None
        hits += interval.low <= 1.0 < interval.high
    assert hits / 2000 >= 0.945


@given(st.lists(st.floats(-1e6, 1e6), min_size=6, max_size=60))
def test_an_interval_holds_its_estimate_and_does_not_depend_on_order(samples: list[float]) -> None:
    interval = median_interval(samples)
    assert interval is not None
    assert interval.low <= interval.estimate <= interval.high
    assert median_interval(samples[::-1]) == interval


@pytest.mark.parametrize("sample", [nan, inf, -inf])
def test_samples_that_are_not_finite_are_refused(sample: float) -> None:
    with pytest.raises(ValueError, match="finite"):
        median_interval([1.0] * 8 + [sample])
    with pytest.raises(ValueError, match="finite"):
        outliers([1.0, sample])


@pytest.mark.parametrize(("quantile", "confidence"), [(0.0, 0.95), (1.0, 0.95), (0.5, 0.0), (0.5, 1.0)])
def test_quantile_and_confidence_are_open_fractions(quantile: float, confidence: float) -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        quantile_interval([1.0] * 100, quantile, confidence)


def test_separated_intervals_do_not_touch() -> None:
    low, high = Interval(1.5, 1.0, 2.0), Interval(3.5, 3.0, 4.0)
    assert separated(low, high)
    assert separated(high, low)
    assert not separated(low, Interval(2.5, 2.0, 3.0))
    assert not separated(low, low)


def test_relative_width() -> None:
    assert Interval(2.0, 1.0, 2.5).relative_width == 0.75
    assert Interval(-2.0, -2.5, -1.0).relative_width == 0.75
    assert Interval(0.0, -1.0, 1.0).relative_width == inf


def test_a_far_sample_is_flagged_and_the_others_are_not() -> None:
    assert outliers([1.0, 1.01, 0.99, 1.02, 0.98, 5.0]) == (False,) * 5 + (True,)


def test_equal_samples_have_no_outliers() -> None:
    assert outliers([2.0] * 5) == (False,) * 5
    assert outliers([]) == ()


def test_a_far_sample_is_flagged_although_the_others_are_equal() -> None:
    assert outliers([1.0] * 20 + [3.0]) == (False,) * 20 + (True,)


def test_the_limit_is_that_of_iglewicz_and_hoaglin() -> None:
    # Median 0, MAD 1: the modified z-score of x is 0.6745 x, 3.5 at x = 5.189.
    spread = [-2.0, -1.0, 0.0, 1.0, 2.0, 0.0, -1.0, 1.0]
    assert outliers([*spread, 5.1])[-1] is False
    assert outliers([*spread, 5.2])[-1] is True
