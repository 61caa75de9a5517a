"""What holds for every answer, whatever the tables hold."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pega_tune.autotune.sweep.plans import allowed, legs_of, pegaflow_kernel
from pega_tune.kernels.plan import AnyPlan, Backend, CopyPlan, PlanPair, Variant, kernel
from pega_tune.kernels.shape import MAX_BYTES, Direction
from pega_tune.profiles.policy.auto import Auto
from pega_tune.profiles.policy.decision import Decision
from pega_tune.profiles.policy.table import CompiledPolicy, Table
from pega_tune.profiles.policy.terms import Colocation, Evidence, Hint, Objective, Runtime, Tier
from tests.unit.profiles.policy.examples import BATCH, DIRECT, NARROW, WIDE, cells_of, now, one_way, option, profile

ANYWHERE = {"measured_ranges": (1, MAX_BYTES), "measured_sizes": (1, MAX_BYTES), "measured_bytes": (1, MAX_BYTES)}
PLANS = (DIRECT, BATCH, NARROW, WIDE, pegaflow_kernel(), kernel(Variant.BLOCK, 64, 256), CopyPlan(Backend.PITCHED))
shapes = st.tuples(st.integers(1, 1 << 17), st.integers(1, 1 << 23)).map(lambda pair: (pair[0], pair[0] * pair[1]))
periods_s = st.floats(1e-6, 2.0)
budgets = st.floats(0.0, 50.0)


def plans_of(runtime: Runtime, direction: Direction) -> st.SearchStrategy[AnyPlan]:
    legs = st.sampled_from([plan for plan in PLANS if allowed(runtime, plan)])
    return st.builds(PlanPair, legs, legs) if direction is Direction.BOTH else legs


@st.composite
def measured(draw: st.DrawFn, runtime: Runtime, direction: Direction, colocation: Colocation) -> Table:
    """A table of what a runtime can run, as a compiler makes them; small ranges and large ones have other options."""
    few, many = draw(cells_of(plans_of(runtime, direction))), draw(cells_of(plans_of(runtime, direction)))
    return one_way(
        direction=direction,
        colocation=colocation,
        runtime=runtime,
        cells=(few, few, many),
        step_s=draw(st.none() | st.just(4e-3)),
        **(ANYWHERE if draw(st.booleans()) else {}),
    )


@st.composite
def answers(draw: st.DrawFn) -> Auto:
    """Any few tables, or none at all."""
    keys = st.tuples(st.sampled_from(Runtime), st.sampled_from(Direction), st.sampled_from(Colocation))
    tables = [draw(measured(*key)) for key in draw(st.lists(keys, max_size=2, unique=True))]
    return Auto(profile(*tables), Tier.BOARD, clock=now) if tables else Auto.rule_only()


def ask(
    answerer: Auto, shape: tuple[int, int], words: tuple[Direction, Colocation | None, Runtime], **terms
) -> Decision:
    direction, colocation, runtime = words
    return answerer.decide(*shape, direction, colocation=colocation, runtime=runtime, **terms)


questions = st.tuples(st.sampled_from(Direction), st.none() | st.sampled_from(Colocation), st.sampled_from(Runtime))


layouts = st.sampled_from([{}, {"host_runs": 1, "pitch": MAX_BYTES}])
terms = st.builds(dict, objective=st.sampled_from(Objective), period_s=periods_s, budget=budgets)


@given(answers(), shapes, questions, terms, layouts)
def test_every_answer_can_be_run(answerer, shape, words, asked, layout):
    decision = ask(answerer, shape, words, **asked, **layout)
    assert allowed(words[2], decision.plan)
    assert (decision.direction, decision.runtime) == (words[0], words[2])
    assert len(legs_of(decision.plan)) == len(words[0].legs)
    if answerer.profile is not None and decision.profile is not None:
        measured_plans = {
            each.plan for table in answerer.profile.policy.tables for cell in table.cells for each in cell
        }
        assert decision.plan in measured_plans


def latency_s(decision: Decision) -> float:
    return decision.basis.choice.option.predicted.latency_s


@st.composite
def one_table(draw: st.DrawFn) -> Auto:
    table = draw(measured(Runtime.FULL, Direction.H2D, Colocation.TIME_SLICED))
    return Auto(profile(table), Tier.BOARD, clock=now)


H2D = (Direction.H2D, Colocation.TIME_SLICED, Runtime.FULL)


@given(one_table(), shapes, periods_s, st.tuples(budgets, budgets).map(sorted), st.none() | st.floats(1e-4, 1.0))
def test_a_larger_budget_never_makes_the_transfer_slower(answerer, shape, period_s, both, step_s):
    tight, loose = (
        ask(answerer, shape, H2D, objective=Objective.TAIL_BOUNDED, period_s=period_s, budget=budget, step_s=step_s)
        for budget in both
    )
    assert latency_s(loose) <= latency_s(tight)
    assert loose.budget_met >= tight.budget_met


@given(one_table(), shapes, st.sampled_from(Objective), st.tuples(periods_s, periods_s).map(sorted))
def test_a_longer_period_never_takes_a_promise_back(answerer, shape, objective, both):
    short, long = (ask(answerer, shape, H2D, objective=objective, period_s=period_s) for period_s in both)
    assert long.budget_met >= short.budget_met
    if latency_s(short) < both[0]:
        assert latency_s(long) < both[1]


@given(one_table(), shapes, st.sampled_from(Objective), periods_s)
@settings(max_examples=400)  # most of which claim nothing
def test_what_is_claimed_is_predicted(answerer, shape, objective, period_s):
    decision = ask(answerer, shape, H2D, objective=objective, period_s=period_s, budget=0.5)
    if not decision.budget_met:
        return
    option = decision.basis.choice.option
    assert option.predicted.latency_s < period_s
    if objective is not Objective.THROUGHPUT:
        assert decision.evidence is (Evidence.FITTED if option.fitted else Evidence.MEASURED)
    if objective is Objective.TAIL_BOUNDED:
        assert option.predicted.stall_s <= 0.5 * decision.basis.demand.step_s


@pytest.mark.parametrize("edge", [1, 2, 1 << 40, MAX_BYTES])
@pytest.mark.parametrize("known", [{}, {"host_runs": 1}, {"pitch": MAX_BYTES}])
def test_degenerate_tables_answer(edge, known):
    """One cell, one measured point, edges at the ends of what there is."""
    point = {"measured_ranges": (1, 1), "measured_sizes": (edge, edge), "measured_bytes": (edge, edge)}
    one_cell = one_way(range_edges=(1,), size_edges=(1,), cells=((option(DIRECT, 1e-300),),), margin=0.0, **point)
    last = one_way(
        range_edges=(1, max(2, edge)),
        size_edges=(1,),
        cells=((option(DIRECT, 1e-3),), (option(DIRECT, 2e-3, 0.0),)),
        hint=Hint.HOST_ORDERED,
        **ANYWHERE,
    )
    answerer = Auto(profile(one_cell, last), Tier.BOARD, clock=now)
    for shape in ((1, 1), (1, edge), (edge, edge), (1, MAX_BYTES), (MAX_BYTES, MAX_BYTES), (2, MAX_BYTES)):
        for objective in Objective:
            decision = answerer.decide(*shape, "h2d", objective=objective, **known)
            assert decision is answerer.decide(*shape, "h2d", objective=objective, **known)
            assert decision is answerer.decide_many([shape[0]], [shape[1]], "h2d", objective=objective, **known)[0]
            assert decision.plan == DIRECT
            assert (decision.hint is Hint.HOST_ORDERED) == ("host_runs" in known)
            covered = "host_runs" in known or shape == (1, edge)
            assert (decision.predicted.time_s is not None) == covered


def test_many_questions_are_answered_as_the_first():
    answerer = Auto(profile(one_way(option(DIRECT, 1e-3, 1e-3), step_s=4e-3)), Tier.BOARD, clock=now)
    budgets_met = [
        answerer.decide(64, 1 << 20, "h2d", objective="tail-bounded", step_s=1e-3 * step).budget_met
        for _ in range(2)
        for step in range(1, 100)
    ]
    assert budgets_met == [step >= 10 for _ in range(2) for step in range(1, 100)]
    assert len(answerer._lookup.answers) <= 64


def test_threads_share_one():
    table = one_way(option(WIDE, 1e-3, 3e-3), option(DIRECT, 40e-3, 0.1e-3), step_s=4e-3)
    shared, own = (Auto(profile(table), Tier.BOARD, clock=now) for _ in range(2))
    asked = [(n, n * size, step) for n in (1, 64, 20_000) for size in (512, 8192) for step in range(1, 90)]

    def answer(answerer: Auto, shuffled: list[tuple[int, int, int]]) -> list[Decision]:
        return [answerer.decide(n, b, "h2d", objective="tail-bounded", step_s=s * 1e-3) for n, b, s in shuffled]

    orders = [asked[start:] + asked[:start] for start in range(0, len(asked), 67)]
    with ThreadPoolExecutor(len(orders)) as pool:
        answered = list(pool.map(answer, [shared] * len(orders), orders))
    assert answered == [answer(own, order) for order in orders]


def test_a_policy_of_no_table_leaves_the_rule():
    empty = Auto(replace(profile(), policy=CompiledPolicy(())), Tier.BOARD, clock=now)
    decision = empty.decide(64, 1 << 20)
    assert (decision.tier, decision.profile) == (Tier.RULE, None)
    assert "no table" in decision.warnings[0]
