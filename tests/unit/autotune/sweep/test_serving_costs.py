from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pega_tune.autotune.sweep.serving_costs import ServingCost, best, costs_of, finalists
from pega_tune.kernels.plan import Variant, kernel
from pega_tune.profiles.policy.table import Option, Predicted
from pega_tune.profiles.policy.terms import Objective
from pega_tune.profiles.store.records import BlockRecord
from tests.helpers.serving_records import COPIES, STEP_S, WARP_1, WARP_16, Cost, survey_record

seconds = st.floats(1e-4, 2e-2)
options = st.lists(st.tuples(seconds, seconds, seconds), min_size=1, max_size=9)


def _costs(figures: list[tuple[float, float, float]]) -> tuple[ServingCost, ...]:
    plans = (kernel(Variant.WARP, grid, 256) for grid in range(1, len(figures) + 1))
    return tuple(
        ServingCost(plan, Option(plan, Predicted(time_s, stall_s, extra_s, time_s)), STEP_S, ())
        for plan, (time_s, stall_s, extra_s) in zip(plans, figures, strict=True)
    )


def test_a_block_tells_stall_extra_time_completion_and_step() -> None:
    (cost,) = costs_of([survey_record({WARP_1: Cost(1e-3, 2e-3)})])
    predicted = cost.option.predicted
    assert cost.plan == WARP_1
    assert cost.step_s == pytest.approx(STEP_S)
    assert predicted.stall_s == pytest.approx(1e-3)
    assert predicted.completion_p99_s == predicted.time_s == pytest.approx(2e-3)
    assert 1e-3 <= (predicted.extra_s or 0.0) <= 2e-3  # a burst of half a step overlaps one or two
    assert cost.p99_delta == pytest.approx(0.25)
    assert 0 < cost.mean_delta < cost.p99_delta


def test_of_several_processes_the_worst_counts_in_each_figure() -> None:
    seen = [survey_record({WARP_1: Cost(*figures)}) for figures in ((1e-3, 5e-3), (3e-3, 2e-3), (2e-3, 3e-3))]
    (cost,) = costs_of(seen)
    alone = [costs_of([block])[0].option.predicted for block in seen]
    predicted = cost.option.predicted
    assert predicted.stall_s == max(one.stall_s or 0.0 for one in alone) == pytest.approx(3e-3)
    assert predicted.extra_s == max(one.extra_s or 0.0 for one in alone)
    assert predicted.time_s == max(one.time_s for one in alone) == pytest.approx(5e-3)
    assert predicted.completion_p99_s == pytest.approx(5e-3)
    assert (len(cost.summaries), cost.p99_delta) == (3, pytest.approx(0.75))


def _without(block: BlockRecord, **changes: object) -> BlockRecord:
    return replace(block, cells=tuple(replace(cell, **changes) for cell in block.cells))  # type: ignore[arg-type]


@pytest.mark.parametrize("changes", [{"status": "crashed"}, {"verified": False}, {"measurements": ()}], ids=str)
def test_what_failed_in_one_process_is_left_out(changes: dict[str, object]) -> None:
    good = survey_record({WARP_1: Cost(1e-3)})
    assert costs_of([good, _without(good, **changes)]) == ()


def test_what_ran_in_one_of_two_processes_is_left_out() -> None:
    blocks = [survey_record({WARP_1: Cost(1e-3), WARP_16: Cost(2e-3)}), survey_record({WARP_16: Cost(2e-3)})]
    assert [cost.plan for cost in costs_of(blocks)] == [WARP_16]


def test_stalls_below_nothing_are_noise() -> None:
    (cost,) = costs_of([survey_record({COPIES: Cost(-1e-5)})])
    assert (cost.option.predicted.stall_s, cost.option.predicted.extra_s) == (0.0, 0.0)


def test_the_reference_budget_is_a_fraction_of_the_measured_step() -> None:
    seen = costs_of([survey_record({WARP_1: Cost(0.05 * STEP_S, 6e-3), WARP_16: Cost(0.2 * STEP_S, 2e-3)})])
    winner, choice = best(seen, Objective.TAIL_BOUNDED)
    assert (winner.plan, choice.budget_met) == (WARP_1, True)
    assert best(seen, Objective.THROUGHPUT)[0].plan == WARP_16


def test_finalists_are_what_the_objectives_take_in_turns() -> None:
    seen = _costs([(5e-3, 1e-4, 9e-3), (3e-3, 2e-4, 8e-3), (2e-3, 5e-3, 4e-4), (1e-3, 6e-3, 1e-2)])
    quietest, bounded, balanced, fastest = seen
    assert finalists(seen, 4) == (quietest, bounded, balanced, fastest)
    assert finalists(seen, 2) == (quietest, bounded)


@given(options, st.integers(1, 9))
def test_finalists_are_different_candidates_with_the_least_stall_first(
    figures: list[tuple[float, float, float]], most: int
) -> None:
    seen = _costs(figures)
    chosen = finalists(seen, most)
    assert len(chosen) == min(most, len(seen)) == len({cost.plan for cost in chosen})
    assert set(chosen) <= set(seen)
    assert chosen[0].option.predicted.stall_s == min(cost.option.predicted.stall_s or 0.0 for cost in seen)
