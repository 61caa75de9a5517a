"""Steps by burst, against a slow and obvious model, on times that are exact."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pega_tune.autotune.measuring.serving.bursts import BurstSteps, missed_s, observe, pooled, restored
from pega_tune.autotune.measuring.serving.stalls import stalls
from pega_tune.autotune.serving import Segment
from tests.helpers.serving import MadeUpDecode

PERIOD_S = 16.0
BASELINE_S = 2.5


@st.composite
def segments(draw: st.DrawFn) -> Segment:
    """Whole seconds, so that steps and bursts often begin and end together."""
    count = draw(st.integers(0, 6))
    due = PERIOD_S * np.cumsum(draw(st.lists(st.integers(1, 3), min_size=count, max_size=count)), dtype=np.float64)
    submitted, completed, free_s = np.empty(count), np.empty(count), 0.0
    for burst in range(count):
        submitted[burst] = max(due[burst] + draw(st.integers(0, 5)), free_s)
        completed[burst] = free_s = submitted[burst] + draw(st.integers(0, 20))
    steps = draw(st.lists(st.integers(1, 12), max_size=60))
    ends = draw(st.integers(-5, 40)) + np.cumsum([0, *steps], dtype=np.float64)
    return Segment(0, ends, due, submitted, completed, 1, PERIOD_S)


def _by_hand(segment: Segment) -> list[tuple[int, list[tuple[float, bool]]]]:
    """For each burst whose period the steps cover, its steps: duration, and whether it overlaps the burst."""
    ends, found = segment.step_ends.tolist(), []
    for k, submitted in enumerate(segment.submitted):
        last = k + 1 == len(segment.submitted)
        over = max(segment.due[k] + PERIOD_S, segment.completed[k]) if last else segment.submitted[k + 1]
        if len(ends) < 2 or submitted < ends[0] or over > ends[-1]:
            continue
        steps = list(pairwise(ends))
        mine = [(b, e) for b, e in steps if submitted < e <= over]
        found.append((k, [(e - b, b < segment.completed[k]) for b, e in mine]))
    return found


@given(segments())
def test_steps_belong_to_the_burst_in_whose_period_they_end(segment: Segment) -> None:
    seen, expected = observe(segment), _by_hand(segment)
    assert seen.bursts == len(expected)
    assert seen.steps_s.tolist() == [duration for _, steps in expected for duration, _ in steps]
    assert seen.disturbed.tolist() == [disturbed for _, steps in expected for _, disturbed in steps]
    assert seen.burst.tolist() == [index for index, (_, steps) in enumerate(expected) for _ in steps]
    completions = (segment.completed - segment.submitted).tolist()
    assert seen.completion_s.tolist() == [completions[k] for k, _ in expected]


@given(segments())
def test_the_cost_of_a_burst_is_that_of_its_disturbed_steps(segment: Segment) -> None:
    cost = stalls(observe(segment), BASELINE_S)
    extras = [[d - BASELINE_S for d, disturbed in steps if disturbed] for _, steps in _by_hand(segment)]
    assert cost.stall_s.tolist() == [max(extra, default=0.0) for extra in extras]
    assert cost.extra_s.tolist() == [sum(extra) for extra in extras]
    assert cost.steps.tolist() == [len(extra) for extra in extras]


@given(segments())
def test_a_disturbed_step_overlaps_its_burst_and_an_undisturbed_one_overlaps_none(segment: Segment) -> None:
    seen = observe(segment)
    for duration, phase, burst, disturbed in zip(seen.steps_s, seen.phase_s, seen.burst, seen.disturbed, strict=True):
        end = seen.begin_s[burst] + phase
        overlapped = [
            k
            for k, (begin, completion) in enumerate(zip(seen.begin_s, seen.completion_s, strict=True))
            if begin < end and end - duration < begin + completion
        ]
        assert (burst in overlapped) == disturbed
        assert disturbed or not overlapped


@given(st.lists(segments(), max_size=4))
def test_pooled_segments_come_back_from_what_is_stored(taken: list[Segment]) -> None:
    parts = list(map(observe, taken))
    seen = pooled(parts)
    assert seen.bursts == sum(part.bursts for part in parts)
    assert seen.steps_s.tolist() == [step for part in parts for step in part.steps_s]
    again = restored(seen.steps_s, seen.end_s, seen.completion_s, seen.period_s)
    assert again.burst.tolist() == seen.burst.tolist()
    assert again.phase_s.tolist() == seen.phase_s.tolist()
    assert again.disturbed.tolist() == seen.disturbed.tolist()


@given(segments())
def test_each_missed_deadline_has_the_time_until_the_next_submission(segment: Segment) -> None:
    expected = []
    for k, (due, submitted) in enumerate(zip(segment.due.tolist(), segment.submitted.tolist(), strict=True)):
        first = segment.due[k - 1] + PERIOD_S if k else due
        deadlines = np.arange(first, due + 1, PERIOD_S)
        expected += [submitted - at for at in deadlines if submitted - at > PERIOD_S / 100]
    missed = missed_s(segment)
    assert sorted(missed.tolist()) == sorted(expected)
    assert len(missed) == segment.missed


def test_noise_is_not_clipped() -> None:
    bursts = BurstSteps(np.array([2.0]), np.array([1.0]), np.array([0]), np.array([0.5]), np.array([9.0]))
    cost = stalls(bursts, 2.25)
    assert (cost.stall_s.tolist(), cost.extra_s.tolist()) == ([-0.25], [-0.25])


def test_what_every_burst_adds_is_its_extra_time() -> None:
    decode = MadeUpDecode(noise=0.0)
    cost = stalls(observe(decode.segment(0, 0.05, 40, seed=1)), decode.step_s)
    assert set(cost.steps.tolist()) == {1, 2}  # a burst of half a step
    assert cost.stall_s == pytest.approx(np.full(40, 1e-3), abs=1e-9)
    assert cost.extra_s == pytest.approx(1e-3 * cost.steps, abs=1e-9)
