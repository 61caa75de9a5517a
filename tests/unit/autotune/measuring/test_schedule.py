"""The order of a block as a pure function of what was recorded."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from math import inf, nan
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pega_tune.autotune.engine import (
    Candidate,
    CandidateKind,
    Measurement,
    Phase,
    SamplingLimits,
    Status,
    TransferBlock,
)
from pega_tune.autotune.measuring.schedule import BlockSchedule, Step, run_block
from pega_tune.autotune.measuring.stopping import Verdict
from pega_tune.kernels.plan import direct
from pega_tune.kernels.shape import Direction, TransferShape

SHAPE = TransferShape(4, 4096, Direction.H2D)
PLAN, STATIC, CEILING = CandidateKind.PLAN, CandidateKind.STATIC, CandidateKind.CEILING
FIVE = SamplingLimits(budget_s=1e9, min_rounds=5, max_rounds=5)


def _block(*kinds: CandidateKind, limits: SamplingLimits = FIVE, seed: int = 3) -> TransferBlock:
    candidates = tuple(Candidate(str(index), kind, direct()) for index, kind in enumerate(kinds))
    return TransferBlock("block", SHAPE, candidates, limits, seed)


def _timed(*times_s: float) -> Callable[[Step], Measurement]:
    """Every candidate takes its time; those that take none are mismatches."""

    def execute(step: Step) -> Measurement:
        if not times_s[step.candidate]:
            return Measurement(step.candidate, step.phase, Status.MISMATCH)
        return Measurement(step.candidate, step.phase, transfer_s=times_s[step.candidate])

    return execute


def _rounds(measurements: list[Measurement]) -> Counter[int]:
    return Counter(m.candidate for m in measurements if m.phase is Phase.TIMED)


def test_verification_comes_first_and_in_order() -> None:
    measurements = list(run_block(_block(CEILING, PLAN, PLAN, STATIC), _timed(1, 1, 1, 1)))
    assert [(m.candidate, m.phase) for m in measurements[:4]] == [(n, Phase.VERIFY) for n in range(4)]
    assert {m.phase for m in measurements[4:]} == {Phase.TIMED}


def test_every_round_has_each_candidate_once_in_an_order_of_its_own() -> None:
    measurements = list(run_block(_block(*[PLAN] * 6), _timed(*[1.0] * 6)))[6:]
    rounds = [tuple(m.candidate for m in measurements[n : n + 6]) for n in range(0, 30, 6)]
    assert len(measurements) == 30
    assert all(sorted(order) == list(range(6)) for order in rounds)
    assert len(set(rounds)) > 1


def test_the_order_depends_on_the_seed() -> None:
    one, other = (list(run_block(_block(*[PLAN] * 6, seed=seed), _timed(*[1.0] * 6))) for seed in (1, 2))
    assert one != other


def test_a_candidate_that_fails_leaves_at_once() -> None:
    measurements = list(run_block(_block(PLAN, PLAN), _timed(0.0, 1.0)))
    assert [m.phase for m in measurements if m.candidate == 0] == [Phase.VERIFY]
    assert _rounds(measurements) == {1: 5}


def test_a_candidate_that_fails_in_a_round_leaves_the_others_in() -> None:
    def execute(step: Step) -> Measurement:
        failed = step == Step(1, Phase.TIMED)
        return Measurement(step.candidate, step.phase, Status.INVALID if failed else Status.OK, 1.0)

    assert _rounds(list(run_block(_block(PLAN, PLAN, PLAN), execute))) == {0: 5, 1: 1, 2: 5}


def test_a_block_whose_candidates_all_fail_ends() -> None:
    assert len(list(run_block(_block(PLAN, PLAN), _timed(0.0, 0.0)))) == 2


def test_a_block_without_candidates_ends() -> None:
    assert BlockSchedule(_block()).next() is None


def test_hopeless_plans_leave_first_static_rules_later_the_ceiling_never() -> None:
    limits = replace(FIVE, drop_after=2, drop_ratio=2.0)
    measurements = list(run_block(_block(CEILING, PLAN, PLAN, STATIC, STATIC, limits=limits), _timed(9, 1, 9, 9, 1)))
    assert _rounds(measurements) == {0: 5, 1: 5, 2: 2, 3: 3, 4: 5}


def test_plans_are_judged_by_plans_not_by_the_ceiling() -> None:
    measurements = list(run_block(_block(CEILING, STATIC, PLAN), _timed(0.1, 0.1, 9.0)))
    assert _rounds(measurements) == {0: 5, 1: 5, 2: 5}


def test_the_budget_counts_transfer_times_after_the_least_rounds() -> None:
    limits = SamplingLimits(budget_s=10.0, min_rounds=2, max_rounds=100, settled_width=0.0)
    noisy = Random(5)
    measurements = list(
        run_block(
            _block(PLAN, PLAN, limits=limits),
            lambda step: Measurement(step.candidate, step.phase, transfer_s=noisy.uniform(0.9, 1.1)),
        )
    )
    timed = [m.transfer_s for m in measurements if m.phase is Phase.TIMED]
    assert sum(timed[:-2]) < 10.0 <= sum(timed)


def test_an_empty_budget_still_gives_the_least_rounds() -> None:
    limits = SamplingLimits(budget_s=0.0, min_rounds=3, max_rounds=100)
    assert _rounds(list(run_block(_block(PLAN, limits=limits), _timed(1.0)))) == {0: 3}


def test_a_settled_block_ends_early() -> None:
    limits = SamplingLimits(budget_s=1e9, min_rounds=7, max_rounds=100)
    block = _block(PLAN, PLAN, limits=limits)
    schedule = BlockSchedule(block)
    for measurement in run_block(block, _timed(1.0, 1.5)):
        schedule.record(measurement)
    assert schedule.next() is None
    assert (schedule.rounds, schedule.verdict) == (7, Verdict.SEPARATED)


def test_a_block_without_plans_settles_on_what_there_is() -> None:
    limits = SamplingLimits(budget_s=1e9, min_rounds=7, max_rounds=100)
    assert _rounds(list(run_block(_block(CEILING, STATIC, limits=limits), _timed(1.0, 5.0)))) == {0: 7, 1: 7}


def test_an_excluded_candidate_changes_nothing_for_the_others() -> None:
    block = _block(*[PLAN] * 5)
    whole = [m for m in run_block(block, _timed(*[1.0] * 5)) if m.candidate != 2]
    assert list(run_block(replace(block, excluded=frozenset({2})), _timed(*[1.0] * 5))) == whole


def test_next_is_the_same_until_it_is_recorded() -> None:
    schedule = BlockSchedule(_block(PLAN, PLAN))
    assert schedule.next() == schedule.next() == Step(0, Phase.VERIFY)


@pytest.mark.parametrize("step", [Step(1, Phase.VERIFY), Step(0, Phase.TIMED)])
def test_another_step_than_the_one_due_is_refused(step: Step) -> None:
    schedule = BlockSchedule(_block(PLAN, PLAN))
    with pytest.raises(ValueError, match="due"):
        schedule.record(Measurement(step.candidate, step.phase))


def test_nothing_is_recorded_after_the_end() -> None:
    schedule = BlockSchedule(_block())
    with pytest.raises(ValueError, match="due is None"):
        schedule.record(Measurement(0, Phase.TIMED))


@given(st.lists(st.floats(1e-6, 1.0), min_size=3, max_size=3), st.integers(0, 2**31), st.integers(0, 60))
def test_a_mirror_knows_the_next_step_at_any_time(times: list[float], seed: int, steps: int) -> None:
    limits = SamplingLimits(budget_s=5.0, min_rounds=3, max_rounds=20, drop_after=2)
    block = _block(CEILING, PLAN, PLAN, limits=limits, seed=seed)
    mirror = BlockSchedule(block)
    noise = Random(seed)

    def execute(step: Step) -> Measurement:
        assert mirror.next() == step
        time_s = times[step.candidate] * noise.lognormvariate(0.0, 0.1)
        return Measurement(step.candidate, step.phase, transfer_s=time_s)

    for count, measurement in enumerate(run_block(block, execute)):
        mirror.record(measurement)
        if count == steps:
            return
    assert mirror.next() is None


@pytest.mark.parametrize(("transfer_s", "device_s"), [(0.0, 0.5), (-1.0, 0.5), (nan, 0.5), (inf, 0.5), (1.0, -0.5)])
def test_a_time_that_cannot_be_is_invalid(transfer_s: float, device_s: float) -> None:
    def execute(step: Step) -> Measurement:
        good = Measurement(step.candidate, step.phase, transfer_s=1.0, prepare_s=0.1, submit_s=0.1, device_s=0.5)
        bad = replace(good, transfer_s=transfer_s, device_s=device_s)
        return bad if step == Step(0, Phase.TIMED) else good

    measurements = list(run_block(_block(PLAN, PLAN), execute))
    failed = [m for m in measurements if m.status is not Status.OK]
    assert [(m.candidate, m.status) for m in failed] == [(0, Status.INVALID)]
    assert "not finite and positive" in failed[0].detail
    assert _rounds(measurements) == {0: 1, 1: 5}


def test_a_candidate_that_is_withdrawn_leaves_without_a_word_and_keeps_its_samples() -> None:
    schedule, taken = BlockSchedule(_block(PLAN, PLAN, CEILING)), Counter[int]()
    while (step := schedule.next()) is not None:
        if step.candidate == 1 and taken[1] == 3:
            schedule.withdraw()
        else:
            schedule.record(Measurement(step.candidate, step.phase, transfer_s=1.0))
            taken[step.candidate] += 1
    assert taken == {0: 6, 1: 3, 2: 6}  # verification among them


def test_nothing_is_withdrawn_when_the_block_has_ended() -> None:
    schedule = BlockSchedule(_block(PLAN))
    schedule.withdraw()
    assert schedule.next() is None
    schedule.withdraw()
    assert schedule.next() is None
