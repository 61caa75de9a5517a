from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest

from pega_tune.autotune.engine import EngineLostError
from pega_tune.autotune.layouts import SHUFFLED
from pega_tune.autotune.serving import DecodeSpec, ServingBlock
from pega_tune.autotune.sweep.events import BlockSkipped
from pega_tune.autotune.sweep.keys import block_key, is_final, survey_key
from pega_tune.autotune.sweep.presets import ServingPreset
from pega_tune.autotune.sweep.request import SweepRequest
from pega_tune.autotune.sweep.run import Resumption, Surroundings, resume_sweep, run_sweep
from pega_tune.autotune.sweep.serving_costs import costs_of, finalists
from pega_tune.autotune.sweep.serving_tasks import NothingToCompareError, PlannedServing, Source, plan_serving
from pega_tune.kernels.plan import AnyPlan, PlanPair, Variant, kernel
from pega_tune.profiles.policy.terms import Colocation, ProfileState
from pega_tune.profiles.store.records import BlockRecord, CellRecord, MeasurementRecord, Metric
from pega_tune.profiles.store.store import Store
from tests.helpers.serving_records import COPIES, SHAPE, WARP_1, WARP_16, WIDE, Cost, survey_record
from tests.helpers.sweeps import Block, HookedEngine, ManualClock, block, cell, finished

IDLE = block_key(SHAPE, Colocation.IDLE)
PRESET = ServingPreset((Colocation.TIME_SLICED,), (SHUFFLED,), 3, 4, 2, finalists=2, final_rounds=1, processes=2)
STANDARD = SweepRequest("standard")
FAST = {WARP_1: 2e-3, WARP_16: 1e-3, WIDE: 3e-3}


def _tasks() -> tuple[PlannedServing, ...]:
    sources = [Source(SHAPE, SHUFFLED, PRESET)]
    return plan_serving(sources, [Colocation.TIME_SLICED], DecodeSpec(model="small"), seed=3)


def _idle(times: Mapping[AnyPlan, float] = FAST) -> BlockRecord:
    return block(SHAPE, [_cell(plan, time_s) for plan, time_s in times.items()])


def _cell(plan: AnyPlan, time_s: float) -> CellRecord:
    seen = cell(plan, [time_s] * 7)
    known = (MeasurementRecord(Metric.SPAN, (time_s,)), MeasurementRecord(Metric.SM, (time_s,)))
    return replace(seen, measurements=(*seen.measurements, *known))


def _asked(task: PlannedServing, stored: dict[str, BlockRecord]) -> ServingBlock:
    engine = HookedEngine()
    record = task.measure(engine, stored)
    assert record.key == task.key
    (asked,) = engine.serving
    return asked


def test_a_survey_measures_what_nothing_dominates_alone() -> None:
    asked = _asked(_tasks()[0], {IDLE: _idle()})
    # The widest is the slowest, too.
    assert [candidate.plan for candidate in asked.candidates] == [WARP_1, WARP_16]
    assert (asked.colocation, asked.shape, asked.decode.model) == (Colocation.TIME_SLICED, SHAPE, "small")
    assert (asked.pacing.period_s, asked.pacing.bursts, asked.limits.max_rounds) == (None, 4, 2)


def test_a_survey_has_no_more_candidates_than_the_preset_says() -> None:
    legs = [kernel(Variant.WARP, 2**k, 1024) for k in range(8)]
    wider = {PlanPair(leg, leg): 1e-3 * 0.9**k for k, leg in enumerate(legs)}
    assert len(_asked(_tasks()[0], {IDLE: _idle(wider)}).candidates) == PRESET.candidates


def test_what_takes_longer_than_the_reference_period_is_measured_only_if_all_does() -> None:
    (survey, *_) = _tasks()
    with_slow = _asked(survey, {IDLE: _idle({**FAST, COPIES: 0.08})})
    assert COPIES not in [candidate.plan for candidate in with_slow.candidates]
    slow_alone = _asked(survey, {IDLE: _idle({COPIES: 0.08})})
    assert [candidate.plan for candidate in slow_alone.candidates] == [COPIES]


def test_finals_measure_the_finalists_of_their_survey() -> None:
    survey, first, second = _tasks()
    stored = survey_record({WARP_1: Cost(1e-4, 5e-3), WARP_16: Cost(2e-3), WIDE: Cost(3e-4, 3e-3)})
    expected = [cost.plan for cost in finalists(costs_of([stored]), 2)]
    for final in (first, second):
        asked = _asked(final, {survey.key: stored})
        assert [candidate.plan for candidate in asked.candidates] == expected == [WARP_1, WIDE]
        assert asked.limits.max_rounds == PRESET.final_rounds
    assert (survey.process, first.process, second.process) == (0, 1, 2)
    assert len({_asked(final, {survey.key: stored}).seed for final in (first, second)}) == 2


@pytest.mark.parametrize(
    ("stored", "says"),
    [
        ({}, f"{IDLE} was not measured"),
        ({IDLE: block(SHAPE, [cell(WARP_1, [], status="crashed")])}, f"{IDLE} gave no plan"),
    ],
    ids=["absent", "empty"],
)
def test_without_anything_to_compare_a_survey_says_why(stored: dict[str, BlockRecord], says: str) -> None:
    engine = HookedEngine()
    with pytest.raises(NothingToCompareError, match=says):
        _tasks()[0].measure(engine, stored)
    assert engine.keys == []


def test_a_survey_of_failures_leaves_nothing_to_its_finals() -> None:
    survey = survey_record({WARP_1: Cost(1e-3)})
    failed = replace(survey, cells=tuple(replace(c, status="crashed", measurements=()) for c in survey.cells))
    with pytest.raises(NothingToCompareError, match="gave no plan"):
        _tasks()[1].measure(HookedEngine(), {failed.key: failed})


def _at(matches: Callable[[str], bool], error: Exception) -> Callable[[int, Block], None]:
    def hook(_begun: int, asked: Block) -> None:
        if matches(asked.key):
            raise error

    return hook


def test_each_number_of_a_process_gets_one_fresh_process(store: Store) -> None:
    engine = HookedEngine()
    end = finished(list(run_sweep(STANDARD, engine, store)))
    assert (end.state, end.reasons) == (ProfileState.PUBLISHED, ())
    begins = [engine.keys[renewed] for renewed in engine.renewals]
    assert begins == [*(f"time-sliced/both/16384x67108864/process-{n}" for n in range(1, 6)), "confirm/h2d/1"]
    blocks = {record.key: record for record in store.blocks(end.sweep_id)}
    assert [b.key for b in engine.serving] == [key for key in blocks if not key.startswith(("idle", "confirm"))]
    for record in blocks.values():
        if is_final(record.key):
            survey = blocks[survey_key(record.key)]
            assert {c.plan for c in record.cells} <= {c.plan for c in survey.cells}
        assert (record.decode is None) == (record.colocation is Colocation.IDLE) == (record.period_s is None)


def test_a_survey_that_cannot_run_costs_its_finals_alone(store: Store) -> None:
    failing = "time-sliced/both/16384x67108864"
    engine = HookedEngine(_at(lambda key: key == failing, NothingToCompareError("no")))
    events = list(run_sweep(STANDARD, engine, store))
    skipped = [event for event in events if isinstance(event, BlockSkipped)]
    assert [event.key for event in skipped] == [failing, *(f"{failing}/process-{n}" for n in range(1, 6))]
    assert {event.reason for event in skipped[1:]} == {
        f"there is nothing to measure beside decode: {failing} was not measured"
    }
    end = finished(events)
    assert end.state is ProfileState.PARTIAL
    assert "same-context/both/16384x67108864/strided/process-5" in engine.keys


def test_three_surveys_in_a_row_without_a_source_are_no_failing_device(store: Store) -> None:
    engine = HookedEngine(_at(lambda key: key.startswith("idle/both/16384x67108864"), NothingToCompareError("no")))
    events = list(run_sweep(STANDARD, engine, store))
    assert len([event for event in events if isinstance(event, BlockSkipped)]) == 3 + 36
    assert {survey_key(block.key).split("/")[2] for block in engine.serving} == {"256x4194304", "1024x16777216"}


def test_a_sweep_goes_on_among_its_finals(store: Store) -> None:
    clock = ManualClock()
    last = "same-context/both/16384x67108864/strided/process-3"
    lost = HookedEngine(_at(lambda key: key == last, EngineLostError("gone")))
    part = finished(list(run_sweep(STANDARD, lost, store, Surroundings(clock))))
    assert part.state is ProfileState.PARTIAL
    engine = HookedEngine()
    whole = finished(list(resume_sweep(Resumption(part.sweep_id), engine, store, Surroundings(clock))))
    assert whole.state is ProfileState.PUBLISHED
    assert engine.keys[0] == last
    assert [engine.keys[renewed] for renewed in engine.renewals] == [
        last,
        *(f"time-sliced/both/16384x67108864/process-{n}" for n in (4, 5)),
        "confirm/h2d/1",
    ]
    assert len({record.key for record in store.blocks(whole.sweep_id)}) == whole.blocks
