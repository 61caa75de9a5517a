from random import Random

import pytest

from pega_tune.autotune.measuring.statistics import Interval
from pega_tune.autotune.verify.changes import LEAST_MARGIN, Change, State, change, pooled, ratios, state_of

THEN = Interval(1.0, 1.0, 1.0)


def _changed(estimate: float, half: float = 0.02) -> Change:
    return Change(THEN, Interval(estimate, estimate - half, estimate + half))


def test_a_change_is_the_new_median_over_the_stored_one_with_both_intervals() -> None:
    found = change([[1.0, 1.1, 1.2, 1.0, 1.1, 1.2, 1.1]], [2.2] * 7)
    assert found is not None
    assert found.estimate == pytest.approx(2.0)
    assert found.low == pytest.approx(2.2 / 1.2)
    assert found.high == pytest.approx(2.2)


def test_what_was_measured_twice_is_as_wide_as_both() -> None:
    found = change([[1.0] * 7, [1.2] * 7, [9.0] * 2], [1.1] * 7)
    assert found is not None
    assert (found.stored.low, found.stored.high) == (1.0, 1.2)
    assert found.estimate == pytest.approx(1.0)


@pytest.mark.parametrize(("stored", "now"), [([], [1.0] * 7), ([[1.0] * 5], [1.0] * 7), ([[1.0] * 7], [1.0] * 5)])
def test_too_few_samples_tell_nothing(stored: list[list[float]], now: list[float]) -> None:
    assert change(stored, now) is None


def test_ratios_pair_the_rounds() -> None:
    assert ratios([2.0, 6.0], [1.0, 2.0, 3.0]) == (2.0, 3.0)


@pytest.mark.parametrize(
    ("estimates", "state"),
    [
        ((1.0, 1.01, 0.99), State.HOLDS),
        ((1.15, 1.14, 1.16), State.DRIFTED),
        ((0.87, 0.88, 0.86), State.DRIFTED),
        ((1.15, 1.0, 1.0), State.HOLDS),
        ((1.15, 1.16, 1.0), State.DRIFTED),
        ((1.15, 1.16, 1.0, 1.0), State.UNDECIDED),
        ((1.15, 1.16, 1.14, 1.0), State.DRIFTED),
        ((1.15, 1.25, 1.0, 1.0, 1.25), State.DRIFTED),
        ((1.15, 0.8, 1.0, 1.0), State.UNDECIDED),
        ((1.15, 1.0, 1.0, 1.0), State.HOLDS),
        ((2.0, 1.0, 1.0), State.DRIFTED),
        ((1.07,), State.HOLDS),
        ((1.15,), State.DRIFTED),
        ((1.11,), State.UNDECIDED),
    ],
)
def test_the_majority_decides_unless_a_shape_is_far_off(estimates: tuple[float, ...], state: State) -> None:
    assert state_of([_changed(estimate) for estimate in estimates], LEAST_MARGIN) is state


def test_a_wide_interval_decides_nothing() -> None:
    assert state_of([_changed(1.0, half=0.3)] * 3, LEAST_MARGIN) is State.UNDECIDED
    assert state_of([_changed(1.12, half=0.1)] * 3, LEAST_MARGIN) is State.UNDECIDED


def test_an_outlier_of_the_past_leaves_nothing_undecided() -> None:
    one = change([[1.0] * 6 + [1.5]], [1.0] * 14)
    assert one is not None
    assert one.low < 0.7
    assert state_of([one], LEAST_MARGIN) is State.HOLDS


def test_the_change_of_a_subject_is_between_its_bounds() -> None:
    found = pooled([_changed(1.1), _changed(1.2), _changed(1.0)])
    assert found.estimate == pytest.approx(1.1)
    assert found.low < found.estimate < found.high


def test_noise_is_no_drift_and_a_drift_is_seen_through_it() -> None:
    random = Random(3)

    def noisy(level: float) -> list[float]:
        return [level * random.lognormvariate(0, 0.03) for _ in range(20)]

    def outcome(factor: float) -> State:
        changes = [change([noisy(1.0)], noisy(factor)) for _ in range(4)]
        return state_of([one for one in changes if one is not None], LEAST_MARGIN)

    same = [outcome(1.0) for _ in range(200)]
    assert State.DRIFTED not in same
    assert same.count(State.HOLDS) > 190
    slower = [outcome(1 / 1.15) for _ in range(200)]
    assert slower.count(State.DRIFTED) > 190
    assert State.HOLDS not in slower
