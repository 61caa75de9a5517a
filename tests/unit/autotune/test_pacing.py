"""Paced bursts: on the grid but for their jitter, never two at once, every missed deadline counted."""

from itertools import pairwise
from math import floor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pega_tune.autotune.measuring.serving.bursts import missed_s
from pega_tune.autotune.pacing import NO_JITTER, Jitter, PacedClock, shortest_period_s
from pega_tune.autotune.serving import Segment
from pega_tune.errors import UsageError

START_S, PERIOD_S = 5.0, 0.5  # halves are exact, so the test's own grid is


def _run(
    run: list[tuple[float, float]], jitter: Jitter = NO_JITTER
) -> tuple[PacedClock, list[tuple[float, float, float]]]:
    """Bursts as (due, submitted, completed); a run tells of each how long it waits unasked, and how long it takes."""
    clock, now_s, bursts = PacedClock(START_S, PERIOD_S, jitter), START_S, []
    for delay_s, duration_s in run:
        submitted_s = now_s + clock.wait_s(now_s) + delay_s
        due_s = clock.submit(submitted_s)
        now_s = submitted_s + duration_s
        clock.complete(now_s)
        bursts.append((due_s, submitted_s, now_s))
    return clock, bursts


times = st.integers(0, 4000).map(lambda n: n / 1024)  # exact, and often on the grid
runs = st.lists(st.tuples(times, times), min_size=1, max_size=20)
seeds = st.integers(0, 10**6).map(str)
steps_s = st.floats(PERIOD_S / 300, 2 * PERIOD_S)  # of some, half a period does not hold one
jitters = st.just(NO_JITTER) | st.builds(Jitter.over_a_step, steps_s, st.just(PERIOD_S), seeds)


def _number(due_s: float) -> int:
    """Which due time it is, from 1 on."""
    return floor((due_s - START_S + 1e-12) / PERIOD_S)


def _due_s(number: int, jitter: Jitter) -> float:
    return START_S + number * PERIOD_S + jitter.offset_s(number - 1)


@given(runs, jitters)
def test_due_times_lie_on_the_grid_but_for_their_jitter_and_ascend(
    run: list[tuple[float, float]], jitter: Jitter
) -> None:
    _, bursts = _run(run, jitter)
    numbers = [_number(due) for due, _, _ in bursts]
    assert [due for due, _, _ in bursts] == [_due_s(number, jitter) for number in numbers]
    assert all(a < b for a, b in pairwise([0, *numbers]))


@given(runs, jitters)
def test_bursts_do_not_overlap_and_go_as_the_latest_that_is_due(run: list[tuple[float, float]], jitter: Jitter) -> None:
    _, bursts = _run(run, jitter)
    assert all(done <= begun for (_, _, done), (_, begun, _) in pairwise(bursts))
    assert all(due <= begun < _due_s(_number(due) + 1, jitter) for due, begun, _ in bursts)


@given(runs, jitters)
def test_each_missed_deadline_is_counted_once(run: list[tuple[float, float]], jitter: Jitter) -> None:
    clock, bursts = _run(run, jitter)
    deadlines = [_due_s(number, jitter) for number in range(1, _number(bursts[-1][0]) + 1)]
    met = sum(any(due <= begun <= due + PERIOD_S / 100 for _, begun, _ in bursts) for due in deadlines)
    assert clock.missed == len(deadlines) - met


@given(runs, jitters)
def test_a_segment_misses_what_its_clock_missed(run: list[tuple[float, float]], jitter: Jitter) -> None:
    clock, bursts = _run(run, jitter)
    due, submitted, completed = np.array(bursts).T
    passed_first = _number(due[0]) - 1  # before the first burst, of which a segment knows nothing
    segment = Segment(0, np.empty(0), due, submitted, completed, 1, PERIOD_S)
    assert segment.missed == len(missed_s(segment)) == clock.missed - passed_first
    assert (missed_s(segment) > 0).all()


@given(jitters)
def test_a_deadline_that_was_passed_over_is_off_by_its_jitter_alone(jitter: Jitter) -> None:
    _, bursts = _run([(0.0, 0.1), (4.2 * PERIOD_S, 0.1)], jitter)
    due, submitted, completed = np.array(bursts).T
    kept = _number(due[1])
    passed = missed_s(Segment(0, np.empty(0), due, submitted, completed, 1, PERIOD_S))[-(kept - 2) :]
    exact = [submitted[1] - _due_s(number, jitter) for number in range(2, kept)]
    assert (np.abs(np.sort(passed)[::-1] - exact) <= jitter.spread_s).all()


@given(st.integers(1, 200), jitters)
def test_short_bursts_miss_nothing_and_keep_the_rate(count: int, jitter: Jitter) -> None:
    clock, bursts = _run([(0.0, 0.4 * PERIOD_S)] * count, jitter)
    due = np.array(bursts)[:, 0]
    assert clock.missed == 0
    assert due[-1] - START_S == pytest.approx(count * PERIOD_S + jitter.offset_s(count - 1))
    assert (np.diff(due) > PERIOD_S / 2 * (1 - 1e-9)).all()
    assert all(0 <= jitter.offset_s(number) <= jitter.spread_s <= PERIOD_S / 2 for number in range(count))


def _unevenness(fractions: np.ndarray) -> float:
    """Star discrepancy times the number of points: how many too many or too few are in any part that begins at 0."""
    ranks = np.arange(1, len(fractions) + 1)
    expected = np.sort(fractions) * len(fractions)
    return float(max((ranks - expected).max(), (expected - ranks + 1).max()))


PERIODS = st.sampled_from([15.03, 12.97, 15.382, 15.5, 4.0]) | st.floats(2.0, 60.0)  # in steps


@given(PERIODS, seeds, st.integers(0, 1000), st.integers(0, 9))
def test_any_bursts_in_a_row_meet_all_phases_of_a_step_evenly(
    periods: float, seed: str, first: int, log_count: int
) -> None:
    step_s, count = PERIOD_S / periods, 2**log_count
    jitter = Jitter.over_a_step(step_s, PERIOD_S, seed)
    due = np.array([_due_s(number, jitter) for number in range(first + 1, first + 1 + count)])
    phases = (due - START_S) / step_s % 1.0
    assert _unevenness(phases) < 1.25 + 0.5 * np.log(count)  # of 512 random phases: more than 10, nearly always
    eighths = np.bincount((8 * phases).astype(int), minlength=8)
    assert np.abs(eighths - count / 8).max() < 2.5 + np.log(count)


def test_without_jitter_a_period_of_whole_steps_meets_few_phases() -> None:
    due = np.array([_due_s(number, NO_JITTER) for number in range(1, 11)])
    assert _unevenness((due - START_S) / (PERIOD_S / 15.03) % 1.0) > 5


def test_segments_begin_at_phases_of_their_own() -> None:
    starts = np.array([Jitter.over_a_step(0.004, PERIOD_S, f"3/a/{n}/jitter").start for n in range(100)])
    assert len(set(starts)) == 100
    assert _unevenness(starts) < 1.95 * 10  # Kolmogorov's limit for one in a thousand


@pytest.mark.parametrize("spread_s", [-1e-3, 0.51 * PERIOD_S, float("nan")])
def test_jitter_is_within_half_a_period(spread_s: float) -> None:
    with pytest.raises(UsageError, match="within half a period"):
        PacedClock(0.0, PERIOD_S, Jitter(spread_s))


@given(st.floats(1e-4, 10), st.floats(0, 1e7), st.integers(1, 10**6))
def test_every_due_time_is_kept_whatever_the_rounding(period_s: float, start_s: float, count: int) -> None:
    clock = PacedClock(start_s, period_s)
    clock.submit(start_s + period_s)
    clock.complete(start_s + period_s)
    late_s = start_s + (count + 1) * period_s
    assert clock.due_s == start_s + 2 * period_s
    assert clock.submit(late_s) == late_s
    assert clock.missed == count - 1


def test_a_late_burst_goes_at_once_and_nothing_is_made_up_for() -> None:
    clock, bursts = _run([(0.0, 1.6), (0.0, 0.1), (0.0, 0.1)])
    # Due at 5.5, it runs until 7.1: 6.0 and 6.5 are passed over, 7.0 is late, and 7.5 is on the grid again.
    assert [due for due, _, _ in bursts] == [5.5, 7.0, 7.5]
    assert [begun for _, begun, _ in bursts] == pytest.approx([5.5, 7.1, 7.5])
    assert clock.missed == 3


def test_a_burst_is_not_submitted_early_nor_beside_another() -> None:
    clock = PacedClock(0.0, 1.0)
    with pytest.raises(ValueError, match="no burst may be submitted"):
        clock.submit(0.99)
    clock.submit(1.0)
    with pytest.raises(ValueError, match="no burst may be submitted"):
        clock.submit(2.5)
    with pytest.raises(ValueError, match="can have completed"):
        clock.complete(0.5)
    clock.complete(2.5)
    with pytest.raises(ValueError, match="can have completed"):
        clock.complete(2.6)


@pytest.mark.parametrize("period_s", [0.0, -1.0, float("nan"), float("inf")])
def test_a_period_is_positive_and_finite(period_s: float) -> None:
    with pytest.raises(UsageError, match="positive"):
        PacedClock(0.0, period_s)
    with pytest.raises(UsageError, match="positive"):
        shortest_period_s(period_s, 1.0)


@given(st.floats(1e-4, 1e-2), st.floats(1e-4, 1e-1), st.floats(0, 1), seeds)
def test_the_shortest_period_leaves_three_steps_at_any_phase(
    step_s: float, completion_s: float, phase: float, seed: str
) -> None:
    period_s = shortest_period_s(step_s, completion_s)
    jitter = Jitter.over_a_step(step_s, period_s, seed)
    gaps_s = period_s + np.diff([jitter.offset_s(number) for number in range(20)])
    begins = completion_s + (phase + np.arange(10)) * step_s  # the first whole step after the burst, and those after it
    left = [(begins + step_s <= gap_s * (1 + 1e-12)).sum() for gap_s in gaps_s]
    assert min(left) >= 3
    assert max(left) <= 6
    assert 3 <= np.mean(left) <= 5
