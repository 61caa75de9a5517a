from collections.abc import Sequence
from math import exp, log
from random import Random

import pytest

from pega_tune.autotune.measuring.statistics import Interval
from pega_tune.autotune.verify.changes import (
    COPIES,
    LEAST_MARGIN,
    PLANS,
    SOUGHT,
    ShapeChange,
    State,
    change,
    pooled,
    ratios,
    state_of,
)

THEN = Interval(1.0, 1.0, 1.0)


def _changed(estimate: float, noise: float = 1e-4, processes: float = 1.5) -> ShapeChange:
    return ShapeChange(THEN, Interval(estimate, estimate, estimate), noise, processes, PLANS)


def test_a_change_is_the_new_median_over_the_stored_one() -> None:
    found = change([[1.0, 1.1, 1.2, 1.0, 1.1, 1.2, 1.1]], [[2.2] * 7], PLANS)
    assert found is not None
    assert found.alone.estimate == pytest.approx(2.0)
    assert found.alone.low < 2.0 < found.alone.high
    assert (found.stored.low, found.stored.high) == (1.0, 1.2)
    assert found.noise > 0


def test_every_process_counts_as_one_however_long_it_measured() -> None:
    found = change([[1.0] * 7, [1.21] * 70, [9.0] * 2], [[1.1] * 7], PLANS)
    assert found is not None
    assert found.stored.estimate == pytest.approx(1.1)
    assert found.alone.estimate == pytest.approx(1.0)
    assert found.processes == 1.5  # two before, as one of them has too few samples


def test_more_processes_make_a_change_more_certain_and_more_samples_of_one_do_not() -> None:
    one = change([[1.0] * 7], [[1.1] * 7], PLANS)
    longer = change([[1.0] * 7], [[1.1] * 700], PLANS)
    more = change([[1.0] * 7, [1.0] * 7], [[1.1] * 7, [1.1] * 7], PLANS)
    assert one is not None
    assert longer is not None
    assert more is not None
    assert one.alone.error == longer.alone.error == pytest.approx(2**0.5 * more.alone.error)


def test_contiguous_copies_differ_by_more() -> None:
    plan = change([[1.0] * 7], [[1.1] * 7], PLANS)
    copy = change([[1.0] * 7], [[1.1] * 7], COPIES)
    assert plan is not None
    assert copy is not None
    assert copy.alone.error > plan.alone.error
    assert copy.alone.sought > plan.alone.sought


@pytest.mark.parametrize(("stored", "now"), [([], [1.0] * 7), ([[1.0] * 5], [1.0] * 7), ([[1.0] * 7], [1.0] * 5)])
def test_too_few_samples_tell_nothing(stored: list[list[float]], now: list[float]) -> None:
    assert change(stored, [now], PLANS) is None


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
        ((1.095, 1.095, 1.095), State.UNDECIDED),
        ((1.3, 1.3, 1.0, 1.0, 1.0), State.UNDECIDED),  # two of five are odd, which is no accident
        ((1.3, 1.0, 1.0, 1.0), State.HOLDS),
        ((2.0, 1.0, 1.0), State.DRIFTED),
        ((1.07,), State.HOLDS),
        ((1.2,), State.DRIFTED),
    ],
)
def test_the_median_decides_unless_a_shape_is_far_off(estimates: tuple[float, ...], state: State) -> None:
    assert state_of([_changed(estimate) for estimate in estimates], LEAST_MARGIN) is state


def test_what_is_noise_in_a_sweep_is_no_drift() -> None:
    changes = [_changed(1.13)] * 6
    assert state_of(changes, LEAST_MARGIN) is State.DRIFTED
    assert state_of(changes, 0.3) is State.HOLDS


def test_noise_leaves_it_undecided_and_asks_for_more_samples() -> None:
    assert state_of([_changed(1.0, noise=0.04)] * 3, LEAST_MARGIN) is State.UNDECIDED
    assert _changed(1.0, noise=0.04).is_noisy
    assert not _changed(1.0).is_noisy


def test_an_outlier_of_the_past_leaves_nothing_undecided() -> None:
    one = change([[1.0] * 6 + [1.5]], [[1.0] * 14], PLANS)
    assert one is not None
    assert state_of([one], LEAST_MARGIN) is State.HOLDS


def test_the_change_of_a_subject_is_between_its_bounds() -> None:
    found = pooled([_changed(1.1), _changed(1.2), _changed(1.0)])
    assert found.estimate == pytest.approx(1.1)
    assert found.low < found.estimate < found.high
    assert found.error < _changed(1.1).alone.error


def test_the_error_is_what_processes_that_differ_so_make() -> None:
    """Over many devices, the median change scatters by its stated error, or less."""
    random = Random(5)

    def process(level: float) -> Sequence[Sequence[float]]:
        common = random.gauss(0, PLANS.common)
        return [[level * exp(common + random.gauss(0, PLANS.single))] * 6 for _ in range(4)]

    sizes, errors = [], []
    for _ in range(400):
        then, now = process(1.0), process(1.0)
        found = pooled([one for a, b in zip(then, now, strict=True) if (one := change([a], [b], PLANS)) is not None])
        sizes.append(log(found.estimate))
        errors.append(found.error)
    scatter = (sum(size**2 for size in sizes) / len(sizes)) ** 0.5
    assert len(set(errors)) == 1
    assert 0.8 * errors[0] < scatter < 1.1 * errors[0]


def test_noise_is_no_drift_and_a_drift_is_seen_through_it() -> None:
    random = Random(3)

    def noisy(level: float) -> list[float]:
        return [level * random.lognormvariate(0, 0.03) for _ in range(20)]

    def outcome(factor: float) -> State:
        changes = [change([noisy(1.0)], [noisy(factor)], PLANS) for _ in range(4)]
        return state_of([one for one in changes if one is not None], LEAST_MARGIN)

    same = [outcome(1.0) for _ in range(200)]
    assert set(same) == {State.HOLDS}
    slower = [outcome(1 + SOUGHT) for _ in range(200)]
    assert State.HOLDS not in slower
    assert slower.count(State.DRIFTED) > 190
