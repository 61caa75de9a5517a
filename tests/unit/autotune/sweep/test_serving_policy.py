from collections.abc import Mapping
from dataclasses import replace

import pytest

from pega_tune.autotune.layouts import NamedLayout
from pega_tune.autotune.sweep.gate import judge
from pega_tune.autotune.sweep.keys import final_key
from pega_tune.autotune.sweep.policy import compile_policy
from pega_tune.autotune.sweep.serving_policy import surveys
from pega_tune.kernels.plan import AnyPlan, PlanPair, Variant, direct, kernel
from pega_tune.kernels.shape import Direction, TransferShape
from pega_tune.profiles.policy.choose import Demand, choose
from pega_tune.profiles.policy.compiled import decode, encode
from pega_tune.profiles.policy.table import MAX_OPTIONS, CompiledPolicy, Table
from pega_tune.profiles.policy.terms import Colocation, Evidence, Objective, Runtime
from pega_tune.profiles.store.records import BlockFlag, BlockRecord
from tests.helpers.serving_records import COPIES, SHAPE, STEP_S, WARP_1, WARP_16, WIDE, Cost, survey_record
from tests.helpers.sweeps import block, cell

HOST_ORDERED = NamedLayout.parse("host-ordered")
COSTS = {WARP_1: Cost(1e-4, 4e-3), WARP_16: Cost(2e-3, 2e-3)}
BESIDE = (Colocation.TIME_SLICED, Colocation.SAME_CONTEXT)


def _idle() -> list[BlockRecord]:
    one_way = [block(TransferShape(16, 65_536, d), [cell(direct(), [1e-5] * 7)]) for d in Direction.BOTH.legs]
    small = TransferShape(16, 65_536, Direction.BOTH)
    plans = (COPIES, WARP_1, WARP_16, WIDE)
    return [*one_way, *(block(s, [cell(p, [1e-3] * 7) for p in plans]) for s in (small, SHAPE))]


def _policy(*serving: BlockRecord) -> CompiledPolicy:
    return compile_policy([*_idle(), *serving]).policy


def _table(policy: CompiledPolicy, colocation: Colocation, runtime: Runtime = Runtime.FULL) -> Table:
    table = policy.find(Direction.BOTH, colocation, runtime)
    assert table is not None
    return table


def _finals(*processes: Mapping[AnyPlan, Cost]) -> list[BlockRecord]:
    survey = survey_record(COSTS).key
    return [survey_record(costs, final_key(survey, n)) for n, costs in enumerate(processes, 1)]


def test_each_colocation_that_was_measured_has_a_table_for_each_idle_one() -> None:
    policy = _policy(*(survey_record(COSTS, colocation=colocation) for colocation in BESIDE))
    keys = {(t.direction, t.runtime) for t in policy.tables if t.colocation is Colocation.IDLE}
    for colocation in BESIDE:
        assert {(t.direction, t.runtime) for t in policy.tables if t.colocation is colocation} == keys
    assert not [t for t in policy.tables if t.colocation is Colocation.MPS]


def test_the_measured_cell_has_evidence_and_the_others_are_those_of_the_idle_table() -> None:
    policy = _policy(survey_record(COSTS))
    idle, beside = _table(policy, Colocation.IDLE), _table(policy, Colocation.TIME_SLICED)
    measured = beside.index(SHAPE.merged_ranges, SHAPE.average_range_bytes)
    assert {option.plan for option in beside.cells[measured]} == set(COSTS)
    assert all(option.predicted.stall_s is not None for option in beside.cells[measured])
    others = [n for n in range(len(idle.cells)) if n != measured]
    assert [beside.cells[n] for n in others] == [idle.cells[n] for n in others]
    assert (idle.step_s, beside.step_s) == (None, pytest.approx(STEP_S))


@pytest.mark.parametrize("objective", Objective)
def test_decisions_rest_on_evidence_at_the_measured_shape_alone(objective: Objective) -> None:
    table = _table(_policy(survey_record(COSTS)), Colocation.TIME_SLICED)
    demand = Demand(objective, step_s=table.step_s)
    here = choose(table.look_up(SHAPE.merged_ranges, SHAPE.average_range_bytes), demand, table.margin)
    assert here.evidence is Evidence.MEASURED
    assert here.option.plan == (WARP_16 if objective is Objective.THROUGHPUT else WARP_1)
    elsewhere = choose(table.look_up(16, 4096), demand, table.margin)
    assert elsewhere.evidence is Evidence.NONE


def test_runtimes_get_the_measured_plans_that_they_can_run() -> None:
    policy = _policy(survey_record({**COSTS, COPIES: Cost(0.0, 8e-3)}))
    table = _table(policy, Colocation.TIME_SLICED, Runtime.PEGAFLOW)
    options = table.look_up(SHAPE.merged_ranges, SHAPE.average_range_bytes)
    assert [option.plan for option in options] == [COPIES]
    assert options[0].predicted.stall_s is not None
    unmeasured = _table(_policy(survey_record(COSTS)), Colocation.TIME_SLICED, Runtime.PEGAFLOW)
    idle = _table(_policy(), Colocation.IDLE, Runtime.PEGAFLOW)
    assert unmeasured.cells == idle.cells


def test_a_runtime_whose_measured_plan_misses_the_period_keeps_what_is_known_without_decode() -> None:
    late = _policy(survey_record({**COSTS, COPIES: Cost(0.0, 80e-3)}))
    table = _table(late, Colocation.TIME_SLICED, Runtime.PEGAFLOW)
    options = table.look_up(SHAPE.merged_ranges, SHAPE.average_range_bytes)
    idle = _table(late, Colocation.IDLE, Runtime.PEGAFLOW).look_up(SHAPE.merged_ranges, SHAPE.average_range_bytes)
    assert {option.plan for option in options} == {COPIES} | {option.plan for option in idle}
    (measured,) = [option for option in options if option.plan == COPIES]
    assert measured.predicted.latency_s > 0.05
    assert all(option.predicted.stall_s is None for option in options if option is not measured)


def test_layouts_that_a_look_up_does_not_know_are_reported_and_make_no_table() -> None:
    special = survey_record(COSTS, layout=HOST_ORDERED)
    assert [survey.key for survey in surveys([special])] == [special.key]
    assert {table.colocation for table in _policy(special).tables} == {Colocation.IDLE}


def test_finalists_count_by_the_worst_process_and_alone_may_be_chosen() -> None:
    flattered = {**COSTS, WIDE: Cost(5e-5, 3e-3)}
    blocks = [survey_record(flattered), *_finals(COSTS, {**COSTS, WARP_1: Cost(3e-3, 4e-3)})]
    (survey,) = surveys(blocks)
    assert (survey.finals, {cost.plan for cost in survey.costs}) == (2, set(flattered))
    by_plan = {cost.plan: cost for cost in survey.contenders}
    assert by_plan.keys() == COSTS.keys()
    assert by_plan[WARP_1].option.predicted.stall_s == pytest.approx(3e-3)
    assert len(by_plan[WARP_1].summaries) == 3


def test_a_finalist_that_failed_in_a_process_is_no_longer_one() -> None:
    (survey,) = surveys([survey_record(COSTS), *_finals(COSTS, {WARP_16: COSTS[WARP_16]})])
    assert [cost.plan for cost in survey.contenders] == [WARP_16]


def test_finals_belong_to_their_survey_whatever_layouts_lie_between() -> None:
    # By name alone `.../host-ordered` comes between a survey and its finals.
    special = survey_record(COSTS, layout=HOST_ORDERED)
    seen = surveys([*_finals(COSTS), special, survey_record(COSTS)])
    assert [(survey.key, survey.finals) for survey in seen] == [(survey_record(COSTS).key, 1), (special.key, 0)]


def test_finals_without_a_survey_say_nothing() -> None:
    assert surveys(_finals(COSTS)) == ()


def test_a_fast_plan_that_was_not_confirmed_is_there_for_throughput_alone() -> None:
    quick = {**COSTS, WIDE: Cost(5e-5, 1e-3)}
    table = _table(_policy(survey_record(quick), *_finals(COSTS, COSTS)), Colocation.TIME_SLICED)
    options = table.look_up(SHAPE.merged_ranges, SHAPE.average_range_bytes)
    chosen = {o: choose(options, Demand(o, step_s=table.step_s), table.margin) for o in Objective}
    assert (chosen[Objective.THROUGHPUT].option.plan, chosen[Objective.THROUGHPUT].evidence) == (WIDE, Evidence.NONE)
    assert {chosen[o].option.plan for o in Objective if o is not Objective.THROUGHPUT} == {WARP_1}


def test_a_cell_has_at_most_four_options_the_fastest_first() -> None:
    legs = {grid: kernel(Variant.WARP, grid, 256) for grid in range(1, 8)}
    many = {PlanPair(leg, leg): Cost(1e-3 / grid, 1e-3 * grid) for grid, leg in legs.items()}
    policy = compile_policy([*_idle(), block(SHAPE, [cell(p, [1e-3] * 7) for p in many]), survey_record(many)]).policy
    options = _table(policy, Colocation.TIME_SLICED).look_up(SHAPE.merged_ranges, SHAPE.average_range_bytes)
    times = [option.predicted.time_s for option in options]
    assert len(options) == MAX_OPTIONS
    assert times == sorted(times)


def test_the_policy_can_be_stored_and_is_published() -> None:
    blocks = [*_idle(), survey_record(COSTS), *_finals(COSTS, COSTS)]
    policy = compile_policy(blocks).policy
    assert encode(decode(encode(policy))) == encode(policy)
    assert judge(policy, blocks, ()).reasons == ()


def test_serialised_serving_blocks_make_a_draft() -> None:
    survey = survey_record(COSTS)
    flagged = replace(survey, flags=(BlockFlag.SERIALISED,))
    blocks = [*_idle(), flagged]
    (reason,) = judge(compile_policy(blocks).policy, blocks, ()).reasons
    assert reason == "1 of 5 blocks were measured where transfers and decode do not run at once"
