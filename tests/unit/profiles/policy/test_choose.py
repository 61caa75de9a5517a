"""Choosing: what each objective promises, with evidence and without."""

import math
from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from pega_tune.errors import UsageError
from pega_tune.kernels.plan import PlanPair
from pega_tune.profiles.policy.choose import MAX_ITL_COST, Demand, choose
from pega_tune.profiles.policy.table import Option, Predicted
from pega_tune.profiles.policy.terms import Evidence, Objective
from tests.unit.profiles.policy.examples import (
    BATCH,
    DIRECT,
    NARROW,
    STAGED,
    WIDE,
    cells_of,
    copy_plans,
    option,
    served,
    times_s,
)

STEP_S = 4e-3

objectives = st.sampled_from(Objective)
margins = st.sampled_from([0.0, 0.02, 0.1])
demands = st.builds(Demand, objectives, st.floats(0.0, 2.0), times_s, st.none() | times_s)
cells = cells_of(copy_plans)
served_cells = st.lists(st.builds(Option, copy_plans, served), min_size=1, max_size=4)


@given(cells, demands, margins, st.randoms())
def test_the_order_of_the_options_does_not_matter(options, demand, margin, random):
    assume(len({o.plan.key for o in options}) == len(options))  # a cell holds a plan once
    shuffled = list(options)
    random.shuffle(shuffled)
    assert choose(shuffled, demand, margin) == choose(options, demand, margin)


@given(cells, demands, margins)
def test_an_unsustainable_plan_never_beats_a_sustainable_one(options, demand, margin):
    choice = choose(options, demand, margin)
    assert choice.option in options
    if any(o.predicted.latency_s < demand.period_s for o in options):
        assert choice.option.predicted.latency_s < demand.period_s
    else:
        assert choice.option.predicted.latency_s == min(o.predicted.latency_s for o in options)
        assert not choice.budget_met


@given(served_cells, st.floats(0.0, 2.0), st.floats(0.0, 2.0), times_s, times_s)
def test_a_larger_budget_never_makes_it_slower(options, one, other, period_s, step_s):
    small, large = (
        choose(options, Demand(Objective.TAIL_BOUNDED, budget, period_s, step_s), 0.02)
        for budget in sorted((one, other))
    )
    if small.budget_met:
        assert large.budget_met
        assert large.option.predicted.latency_s <= small.option.predicted.latency_s


@given(served_cells, times_s, margins)
def test_strict_has_the_least_stall(options, period_s, margin):
    choice = choose(options, Demand(Objective.STRICT, period_s=period_s), margin)
    stalls = [o.predicted.stall_s for o in options if o.predicted.latency_s < period_s]
    if stalls:
        assert choice.option.predicted.stall_s == min(stalls)
        assert choice.budget_met


@given(cells, times_s, margins)
def test_only_throughput_promises_nothing_that_evidence_would_have_to_show(options, period_s, margin):
    for objective in Objective:
        choice = choose(options, Demand(objective, period_s=period_s), margin)
        if choice.evidence is Evidence.NONE:
            sustainable = choice.option.predicted.latency_s < period_s
            assert choice.budget_met == (sustainable and objective is Objective.THROUGHPUT)


@given(cells, times_s, margins)
def test_throughput_is_within_the_noise_of_the_fastest(options, period_s, margin):
    choice = choose(options, Demand(Objective.THROUGHPUT, period_s=period_s), margin)
    fastest = min((o.predicted.time_s for o in options if o.predicted.latency_s < period_s), default=math.inf)
    assert choice.option.predicted.time_s <= fastest * (1 + margin) or not choice.budget_met


@given(served_cells, demands)
def test_a_budget_that_is_met_is_met(options, demand):
    choice = choose(options, demand, 0.0)
    predicted = choice.option.predicted
    assume(choice.budget_met)
    if demand.objective is Objective.BALANCED:
        assert predicted.extra_s <= MAX_ITL_COST * demand.period_s
    if demand.objective is Objective.TAIL_BOUNDED:
        assert predicted.stall_s <= demand.budget * demand.step_s


@pytest.mark.parametrize("objective", [Objective.TAIL_BOUNDED, Objective.STRICT])
@given(options=st.lists(st.builds(Option, copy_plans, st.builds(Predicted, times_s)), min_size=1, max_size=4))
def test_a_tail_without_evidence_is_left_to_copy_engines(objective, options):
    choice = choose(options, Demand(objective, period_s=2.0), 0.02)
    assert choice.option.plan.resident_threads == min(o.plan.resident_threads for o in options)
    assert (choice.budget_met, choice.evidence) == (False, Evidence.NONE)


def chosen(objective, *options, margin=0.02, **demand):
    return choose(options, Demand(objective, **demand), margin)


def test_transfer_times_within_the_noise_go_to_fewer_threads():
    fast, close = option(WIDE, 1.00e-3), option(NARROW, 1.02e-3)
    for objective in (Objective.THROUGHPUT, Objective.BALANCED):
        assert chosen(objective, fast, close).option is close
        assert chosen(objective, fast, close, margin=0.01).option is fast


def test_among_copy_engines_the_simpler_plan_wins_a_tie():
    batch, simple = option(BATCH, 1e-3), option(DIRECT, 1e-3)
    assert chosen(Objective.THROUGHPUT, batch, simple).option is simple
    assert chosen(Objective.STRICT, batch, simple).option is simple


def test_a_pair_is_as_complex_as_its_worse_leg():
    mixed, simple = option(PlanPair(DIRECT, BATCH), 1e-3), option(PlanPair(DIRECT, DIRECT), 1e-3)
    assert chosen(Objective.THROUGHPUT, mixed, simple).option is simple


def test_balanced_takes_the_quickest_that_costs_little():
    wide, staged, slow = option(WIDE, 1e-3, 3e-3), option(STAGED, 2e-3, 0.2e-3), option(DIRECT, 40e-3, 0.1e-3)
    choice = chosen(Objective.BALANCED, wide, staged, slow)
    assert (choice.option, choice.budget_met, choice.evidence) == (staged, True, Evidence.MEASURED)


def test_balanced_counts_the_extra_time_and_not_the_stall():
    # 1 % of 50 ms is 0.5 ms
    spread, single = option(WIDE, 1e-3, 0.1e-3, extra_s=0.6e-3), option(STAGED, 2e-3, 0.4e-3, extra_s=0.4e-3)
    assert chosen(Objective.BALANCED, spread, single).option is single
    assert chosen(Objective.BALANCED, spread, single, period_s=0.070).option is spread


def test_tail_bounded_takes_the_quickest_inside_the_budget():
    wide, staged = option(WIDE, 1e-3, 3e-3), option(STAGED, 2e-3, 0.4e-3)
    assert chosen(Objective.TAIL_BOUNDED, wide, staged, step_s=STEP_S).option is staged
    assert chosen(Objective.TAIL_BOUNDED, wide, staged, step_s=STEP_S, budget=0.75).option is wide


def test_a_budget_that_nothing_fits_gives_the_least_stall():
    wide, staged = option(WIDE, 1e-3, 3e-3), option(STAGED, 2e-3, 1e-3)
    choice = chosen(Objective.TAIL_BOUNDED, wide, staged, step_s=STEP_S)
    assert (choice.option, choice.budget_met, choice.evidence) == (staged, False, Evidence.MEASURED)


def test_without_a_step_no_budget_is_known_to_be_met():
    free = option(DIRECT, 1e-3, 0.0)
    assert not chosen(Objective.TAIL_BOUNDED, free).budget_met
    assert chosen(Objective.TAIL_BOUNDED, free, step_s=STEP_S).budget_met


def test_the_rate_rules_out_slow_plans():
    quick, slow = option(WIDE, 1e-3, 3e-3), option(DIRECT, 40e-3, 0.0)
    assert chosen(Objective.STRICT, quick, slow).option is slow
    assert chosen(Objective.STRICT, quick, slow, period_s=0.040).option is quick


def test_the_completion_beside_decode_decides_what_is_sustainable():
    late = Option(WIDE, Predicted(1e-3, 0.0, 0.0, completion_p99_s=60e-3))
    assert chosen(Objective.THROUGHPUT, late, option(DIRECT, 40e-3, 0.0)).option.plan is DIRECT


def test_a_curve_is_evidence_and_the_answer_says_which():
    fitted = replace(option(STAGED, 2e-3, 0.1e-3), fitted=True)
    for objective in (Objective.BALANCED, Objective.STRICT, Objective.TAIL_BOUNDED):
        choice = chosen(objective, option(WIDE, 1e-3, 3e-3), fitted, option(DIRECT, 1e-3), step_s=STEP_S)
        assert (choice.option, choice.budget_met, choice.evidence) == (fitted, True, Evidence.FITTED)
    guess = replace(option(DIRECT, 1e-3), fitted=True)
    assert chosen(Objective.STRICT, guess).evidence is Evidence.NONE


def test_a_plan_without_evidence_does_not_compete_where_others_have_it():
    known, unknown = option(STAGED, 2e-3, 0.1e-3), option(DIRECT, 1e-3)
    assert chosen(Objective.BALANCED, known, unknown).option is known
    assert chosen(Objective.STRICT, known, unknown).option is known


@pytest.mark.parametrize(
    "numbers",
    [
        {"budget": -0.1},
        {"budget": math.nan},
        {"budget": math.inf},
        {"period_s": 0.0},
        {"period_s": math.nan},
        {"period_s": math.inf},
        {"step_s": 0.0},
        {"step_s": math.nan},
    ],
)
def test_numbers_that_make_no_sense_are_refused(numbers):
    with pytest.raises(UsageError, match=next(iter(numbers)).removesuffix("_s")):
        Demand(**numbers)
