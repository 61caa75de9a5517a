"""Paced bursts: on the grid, never two at once, every missed deadline counted."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pega_tune.autotune.pacing import PacedClock, shortest_period_s
from pega_tune.autotune.serving import Segment
from pega_tune.errors import UsageError

START_S, PERIOD_S = 5.0, 0.5  # halves are exact, so the test's own grid is


def _run(run: list[tuple[float, float]]) -> tuple[PacedClock, list[tuple[float, float, float]]]:
    """Bursts as (due, submitted, completed); a run tells of each how long it waits unasked, and how long it takes."""
    clock, now_s, bursts = PacedClock(START_S, PERIOD_S), START_S, []
    for delay_s, duration_s in run:
        submitted_s = now_s + clock.wait_s(now_s) + delay_s
        due_s = clock.submit(submitted_s)
        now_s = submitted_s + duration_s
        clock.complete(now_s)
        bursts.append((due_s, submitted_s, now_s))
    return clock, bursts


times = st.integers(0, 4000).map(lambda n: n / 1024)  # exact, and often on the grid
runs = st.lists(st.tuples(times, times), min_size=1, max_size=20)


@given(runs)
def test_due_times_lie_on_the_grid_and_ascend(run: list[tuple[float, float]]) -> None:
    _, bursts = _run(run)
    numbers = [(due - START_S) / PERIOD_S for due, _, _ in bursts]
    assert all(number == int(number) and number >= 1 for number in numbers)
    assert all(a < b for a, b in pairwise(numbers))


@given(runs)
def test_bursts_do_not_overlap_and_are_never_a_period_late(run: list[tuple[float, float]]) -> None:
    _, bursts = _run(run)
    assert all(done <= begun for (_, _, done), (_, begun, _) in pairwise(bursts))
    assert all(due <= begun < due + PERIOD_S for due, begun, _ in bursts)


@given(runs)
def test_each_missed_deadline_is_counted_once(run: list[tuple[float, float]]) -> None:
    clock, bursts = _run(run)
    last = round((bursts[-1][0] - START_S) / PERIOD_S)
    deadlines = [START_S + number * PERIOD_S for number in range(1, last + 1)]
    met = sum(any(due <= begun <= due + PERIOD_S / 100 for _, begun, _ in bursts) for due in deadlines)
    assert clock.missed == len(deadlines) - met


@given(runs)
def test_a_segment_misses_what_its_clock_missed(run: list[tuple[float, float]]) -> None:
    clock, bursts = _run(run)
    due, submitted, completed = np.array(bursts).T
    passed_first = round((due[0] - START_S) / PERIOD_S) - 1  # before the first burst, of which a segment knows nothing
    assert Segment(0, np.empty(0), due, submitted, completed, 1, PERIOD_S).missed == clock.missed - passed_first


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


@given(st.floats(1e-4, 1e-2), st.floats(1e-4, 1e-1), st.floats(0, 1))
def test_the_shortest_period_leaves_three_steps_at_any_phase(step_s: float, completion_s: float, phase: float) -> None:
    period_s = shortest_period_s(step_s, completion_s)
    begins = completion_s + (phase + np.arange(10)) * step_s  # the first whole step after the burst, and those after it
    assert (begins + step_s <= period_s * (1 + 1e-12)).sum() >= 3
    if 0.01 < phase < 0.99:
        assert (begins + step_s <= period_s).sum() == 3
