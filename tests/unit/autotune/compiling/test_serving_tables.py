"""Tables beside decode, on blocks of a simulated H200: transfers for real, decode by a law that the fits must find."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import median

import pytest

from pega_tune.autotune.compiling.latency import kind_of
from pega_tune.autotune.engine import SamplingLimits, TransferBlock
from pega_tune.autotune.layouts import HOST_ORDERED, SHUFFLED, STRIDED, NamedLayout
from pega_tune.autotune.sweep.keys import block_key
from pega_tune.autotune.sweep.observations import transfer_samples, usable
from pega_tune.autotune.sweep.plans import candidates, hinted_candidates
from pega_tune.autotune.sweep.policy import Learnt, compile_policy
from pega_tune.autotune.sweep.recording import Measured, block_record
from pega_tune.kernels.plan import AnyPlan, PlanPair, Variant, direct, kernel
from pega_tune.kernels.shape import Direction, TransferShape
from pega_tune.profiles.policy.choose import Demand, choose
from pega_tune.profiles.policy.table import Table
from pega_tune.profiles.policy.terms import Colocation, Evidence, Hint, Objective, Runtime
from pega_tune.profiles.store.records import BlockRecord
from tests.helpers.serving_records import Cost, survey_record
from tests.helpers.sweeps import sim_engine

CANONICAL = TransferShape(16_384, 64 << 20, Direction.BOTH)
COUNTS = [(n, s) for n in (16, 256, 4096) for s in (1024, 4096, 65_536)]
LAYOUTS = (SHUFFLED, HOST_ORDERED, STRIDED)
KERNEL = PlanPair(kernel(Variant.WARP, 32, 256), kernel(Variant.WARP, 32, 256))


def _measure(shape: TransferShape, layout: NamedLayout = SHUFFLED) -> BlockRecord:
    engine = sim_engine()
    described = layout.described(shape)
    if layout == SHUFFLED:
        chosen = candidates(shape, engine.capabilities(), full=False, dense=False, hints=shape == CANONICAL)
    else:
        chosen = hinted_candidates(described, engine.capabilities())
    key = block_key(shape, Colocation.IDLE, layout)
    planned = TransferBlock(key, shape, chosen, SamplingLimits(0.05), seed=3, layout=layout)
    measured = Measured(planned, tuple(engine.transfer(planned)), engine.conditions())
    return block_record(measured, engine.facts.identity.max_link)


@pytest.fixture(scope="module")
def idle() -> list[BlockRecord]:
    """Transfers alone, of few shapes that lie anywhere, and of the canonical one in every layout."""
    plain = [_measure(TransferShape(n, n * s, d)) for n, s in COUNTS for d in Direction]
    return [*plain, *(_measure(CANONICAL, layout) for layout in LAYOUTS)]


def _serving(idle: Sequence[BlockRecord], most: int, share: float = 1 / 8) -> list[BlockRecord]:
    """Surveys of the canonical shape: a plan disturbs a step for a share of its time and takes a millisecond longer."""
    records = []
    for layout in LAYOUTS:
        (alone,) = (b for b in idle if b.key == block_key(CANONICAL, Colocation.IDLE, layout))
        times = {c.plan: median(transfer_samples(c)) for c in alone.cells if usable(c)}
        quick = sorted((plan for plan in times if times[plan] < 5e-3), key=lambda plan: times[plan])
        costs: dict[AnyPlan, Cost] = {plan: Cost(times[plan] * share, times[plan] + 1e-3) for plan in quick[:most]}
        key = block_key(CANONICAL, Colocation.TIME_SLICED, layout)
        records.append(replace(survey_record(costs, layout=layout, shape=CANONICAL), key=key))
    return records


@pytest.fixture(scope="module")
def learnt(idle: list[BlockRecord]) -> Learnt:
    """What surveys of many plans teach."""
    return compile_policy([*idle, *_serving(idle, 8)])


def _small(costs: Mapping[AnyPlan, Cost]) -> list[BlockRecord]:
    """Surveys of two small shapes, in which each plan costs as it is told."""
    shapes = (TransferShape(256, 256 * 4096), TransferShape(4096, 4096 * 1024))
    return [survey_record(costs, shape=shape) for shape in shapes]


def test_small_surveys_let_short_copies_be_claimed(idle: list[BlockRecord]) -> None:
    copies = PlanPair(direct(), direct())
    large = _serving(idle, 8)
    small = _small({copies: Cost(2e-5, 2e-2), KERNEL: Cost(1e-4, 2e-3)})
    for blocks, known in (([*idle, *large], False), ([*idle, *large, *small], True)):
        cell = _table(compile_policy(blocks)).look_up(64, 4096)
        claimed = [option for option in cell if option.plan == copies and option.fitted]
        assert [2e-5 <= (option.predicted.stall_s or 0.0) < 2e-4 for option in claimed] == [True] * known


def _table(learnt: Learnt, direction: Direction = Direction.BOTH, hint: Hint = Hint.NONE) -> Table:
    table = learnt.policy.find(direction, Colocation.TIME_SLICED, Runtime.FULL, hint)
    assert table is not None
    return table


def _stall_fits(learnt: Learnt) -> list[str]:
    return [fit.reason for fit in learnt.fits if fit.family == "stall"]


def test_enough_plans_make_a_fit_and_cells_with_claims(learnt: Learnt) -> None:
    assert _stall_fits(learnt) == [""]
    fitted = [o for cell in _table(learnt).cells for o in cell if o.fitted]
    assert fitted
    for option in fitted:
        assert option.predicted.stall_s is not None
        assert option.predicted.extra_s is not None
        assert option.predicted.latency_s > option.predicted.time_s


def test_no_claim_is_less_than_the_law(learnt: Learnt) -> None:
    """The law is an eighth of the transfer time, and a millisecond of latency."""
    for cell in _table(learnt).cells:
        for option in cell:
            if option.fitted:
                assert option.predicted.stall_s is not None
                assert option.predicted.stall_s >= option.predicted.time_s / 8 * 0.98
                assert option.predicted.latency_s >= option.predicted.time_s + 0.98e-3


def test_the_measured_cell_stays_measured(learnt: Learnt) -> None:
    for hint, layout in ((Hint.NONE, SHUFFLED), (Hint.HOST_ORDERED, HOST_ORDERED), (Hint.STRIDED, STRIDED)):
        table = _table(learnt, hint=hint)
        cell = table.index(CANONICAL.merged_ranges, CANONICAL.average_range_bytes)
        assert not any(option.fitted for option in table.cells[cell])
        assert any(option.predicted.stall_s is not None for option in table.cells[cell])
        assert table.sources[table.evidence[cell]] == block_key(CANONICAL, Colocation.TIME_SLICED, layout)


def test_one_direction_takes_the_claims_of_both(learnt: Learnt) -> None:
    for direction in Direction.BOTH.legs:
        assert any(option.fitted for cell in _table(learnt, direction).cells for option in cell)


def test_nothing_is_claimed_outside_what_was_measured(learnt: Learnt) -> None:
    table = _table(learnt)
    for n in (1, 16, 16_384, 10**6):
        for s in (16, 1024, 4096, 1 << 26):
            if not table.covers(*table.centre(n, s)):
                assert not any(option.fitted for option in table.look_up(n, s))


def test_plans_of_a_kind_that_was_not_measured_beside_decode_have_no_claim(
    idle: list[BlockRecord], learnt: Learnt
) -> None:
    surveyed = {kind_of(c.plan) for b in _serving(idle, 8) for c in b.cells}
    options = [option for cell in _table(learnt).cells for option in cell]
    assert {kind_of(option.plan) for option in options if option.fitted} <= surveyed
    assert {kind_of(option.plan) for option in options if not option.fitted} - surveyed


@pytest.mark.parametrize("objective", [Objective.STRICT, Objective.TAIL_BOUNDED, Objective.BALANCED])
def test_objectives_find_what_they_would_take_of_all_claims(learnt: Learnt, objective: Objective) -> None:
    table = _table(learnt)
    demand = Demand(objective, step_s=table.step_s)
    for cell in table.cells:
        if any(option.fitted for option in cell):
            assert choose(cell, demand, table.margin).evidence is Evidence.FITTED


def test_heavy_claims_do_not_hide_copy_engines_of_which_nothing_is_claimed(idle: list[BlockRecord]) -> None:
    heavy = _table(compile_policy([*idle, *_serving(idle, 8, share=1.5)]))
    demand = Demand(Objective.STRICT, step_s=heavy.step_s)
    for cell in heavy.cells:
        copies = [o for o in cell if o.plan.resident_threads == 0 and o.predicted.time_s < demand.period_s]
        answer = choose(cell, demand, heavy.margin)
        if copies and answer.evidence is not Evidence.MEASURED:
            assert (answer.evidence, answer.option.plan.resident_threads) == (Evidence.NONE, 0)


def test_few_plans_are_no_fit_and_leave_the_cells_without_claims(idle: list[BlockRecord]) -> None:
    few = compile_policy([*idle, *_serving(idle, 2)])
    (reason,) = _stall_fits(few)
    assert "it needs at least" in reason
    assert not any(option.fitted for table in few.policy.tables for cell in table.cells for option in cell)
    assert _table(few).step_s is not None
