"""The order of a serving block as a pure function of what was recorded."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pega_tune.autotune.engine import Status
from pega_tune.autotune.measuring.serving.schedule import (
    ServingSchedule,
    ServingVerdict,
    rounds_for_tails,
    run_serving_block,
)
from pega_tune.autotune.serving import BASELINE, Segment, ServingBlock, ServingLimits, failed_segment
from tests.helpers.serving import MadeUpDecode, serving_block

SHORT = MadeUpDecode().segment(0, 0.02, 2, seed=1)
LONG = MadeUpDecode().segment(0, 0.02, 40, seed=1)  # three of them have 100 bursts and 368 steps


def _of(candidate: int, segment: Segment = SHORT) -> Segment:
    nothing = np.empty(0)
    segment = replace(segment, candidate=candidate)
    if candidate == BASELINE:
        return replace(segment, due=nothing, submitted=nothing, completed=nothing, moved_bytes=0)
    return segment


def _run(block: ServingBlock, execute: Callable[[int], Segment] = _of) -> tuple[list[int], ServingSchedule]:
    """The order in which segments ran, and a mirror that has seen them."""
    mirror, order = ServingSchedule(block), []
    for segment in run_serving_block(block, execute):
        mirror.record(segment)
        order.append(segment.candidate)
    assert mirror.next() is None
    return order, mirror


def test_every_round_has_each_candidate_and_the_baseline_once_in_an_order_of_its_own() -> None:
    order, schedule = _run(serving_block(tuple("abcde")))
    rounds = [tuple(order[first : first + 6]) for first in range(0, 30, 6)]
    assert len(order) == 30
    assert all(sorted(each) == [BASELINE, 0, 1, 2, 3, 4] for each in rounds)
    assert len(set(rounds)) > 1
    assert (schedule.rounds, schedule.verdict) == (5, ServingVerdict.OUT_OF_ROUNDS)


def test_the_order_depends_on_the_seed() -> None:
    one, other = (_run(serving_block(tuple("abcde"), seed=seed))[0] for seed in (1, 2))
    assert one != other


def test_a_block_ends_when_a_p99_may_be_claimed_of_all() -> None:
    order, schedule = _run(serving_block(), lambda candidate: _of(candidate, LONG))
    assert (schedule.rounds, schedule.verdict) == (3, ServingVerdict.ENOUGH)
    assert Counter(order) == {BASELINE: 3, 0: 3, 1: 3}


def test_one_candidate_without_a_claim_keeps_the_block_going() -> None:
    _, schedule = _run(serving_block(), lambda candidate: _of(candidate, SHORT if candidate == 1 else LONG))
    assert schedule.verdict is ServingVerdict.OUT_OF_ROUNDS


def test_more_rounds_may_be_asked_for_than_a_claim_needs() -> None:
    block = serving_block(limits=ServingLimits(budget_s=0.0, min_rounds=4, max_rounds=4))
    _, schedule = _run(block, lambda candidate: _of(candidate, LONG))
    assert (schedule.rounds, schedule.verdict) == (4, ServingVerdict.ENOUGH)


def test_the_budget_ends_a_block_after_its_least_rounds() -> None:
    span_s = float(SHORT.step_ends[-1] - SHORT.step_ends[0])
    for budget_s, rounds in ((0.0, 2), (8.9 * span_s, 3), (9.1 * span_s, 4)):
        block = serving_block(limits=ServingLimits(budget_s, min_rounds=2, max_rounds=9))
        _, schedule = _run(block)
        assert (schedule.rounds, schedule.verdict) == (rounds, ServingVerdict.OUT_OF_TIME)


def test_a_candidate_that_fails_leaves_at_once_and_the_others_keep_their_order() -> None:
    def execute(candidate: int) -> Segment:
        return failed_segment(1, Status.CRASHED, "gone") if candidate == 1 else _of(candidate)

    order, _ = _run(serving_block(tuple("abcd")), execute)
    whole, _ = _run(serving_block(tuple("abcd")))
    excluded, _ = _run(serving_block(tuple("abcd"), excluded=frozenset({1})))
    assert order.count(1) == 1
    assert [c for c in order if c != 1] == [c for c in whole if c != 1] == excluded


def test_without_a_baseline_a_block_ends() -> None:
    def execute(candidate: int) -> Segment:
        return failed_segment(candidate, Status.TIMED_OUT, "late") if candidate == BASELINE else _of(candidate)

    order, schedule = _run(serving_block(), execute)
    assert schedule.verdict is ServingVerdict.NO_BASELINE
    assert order[-1] == BASELINE
    assert _run(serving_block(excluded=frozenset({BASELINE})))[0] == []


def test_without_candidates_a_block_ends() -> None:
    order, schedule = _run(
        serving_block(), lambda c: _of(c) if c == BASELINE else failed_segment(c, Status.CRASHED, "")
    )
    assert schedule.verdict is ServingVerdict.NOTHING_LEFT
    assert sorted(c for c in order if c != BASELINE) == [0, 1]
    assert ServingSchedule(serving_block(())).next() is None
    assert ServingSchedule(serving_block(excluded=frozenset({0, 1}))).verdict is ServingVerdict.NOTHING_LEFT


@given(st.integers(0, 2**31), st.integers(0, 17), st.sets(st.integers(0, 3), max_size=3))
def test_a_mirror_knows_the_next_segment_at_any_time(seed: int, until: int, failing: set[int]) -> None:
    block = serving_block(tuple("abcd"), seed=seed)
    mirror = ServingSchedule(block)

    def execute(candidate: int) -> Segment:
        assert mirror.next() == mirror.next() == candidate
        return failed_segment(candidate, Status.CRASHED, "") if candidate in failing else _of(candidate)

    for count, segment in enumerate(run_serving_block(block, execute)):
        mirror.record(segment)
        if count == until:
            return
    assert mirror.next() is None


def test_another_segment_than_the_one_due_is_refused() -> None:
    schedule = ServingSchedule(serving_block())
    due = schedule.next()
    other = next(candidate for candidate in (BASELINE, 0, 1) if candidate != due)
    with pytest.raises(ValueError, match="segment due"):
        schedule.record(_of(other))


@pytest.mark.parametrize(("bursts", "rounds"), [(1, 100), (10, 10), (33, 4), (100, 1), (250, 1)])
def test_rounds_for_tails(bursts: int, rounds: int) -> None:
    assert rounds_for_tails(bursts) == rounds


def _swapped(times: np.ndarray) -> np.ndarray:
    return times[[1, 0, *range(2, len(times))]]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (replace(LONG, step_ends=LONG.step_ends * np.nan), "not finite"),
        (replace(LONG, period_s=0.0), "not finite"),
        (replace(LONG, step_ends=LONG.step_ends[:1]), "no decode step"),
        (replace(LONG, step_ends=_swapped(LONG.step_ends)), "one after another"),
        (replace(LONG, completed=LONG.completed[1:]), "39 completed"),
        (replace(LONG, moved_bytes=0), "40 bursts of 0 bytes"),
        (replace(SHORT, due=np.empty(0), submitted=np.empty(0), completed=np.empty(0)), "0 bursts"),
        (replace(LONG, completed=LONG.completed * np.inf), "not finite"),
        (replace(LONG, submitted=LONG.due - 1e-3), "before they were due"),
        (replace(LONG, due=LONG.due - 0.019 * np.arange(40)), "less than half a period"),
        (replace(LONG, completed=LONG.completed + 0.03), "overlap"),
        (replace(LONG, completed=LONG.submitted - 1e-3), "overlap"),
        (replace(LONG, candidate=BASELINE), "40 bursts"),
    ],
)
def test_a_segment_whose_times_cannot_be_is_invalid(wrong: Segment, said: str) -> None:
    def execute(candidate: int) -> Segment:
        return wrong if candidate == wrong.candidate else _of(candidate)

    seen = list(run_serving_block(serving_block(), execute))
    failed = [segment for segment in seen if segment.status is not Status.OK]
    assert [(segment.candidate, segment.status) for segment in failed] == [(wrong.candidate, Status.INVALID)]
    assert said in failed[0].detail
