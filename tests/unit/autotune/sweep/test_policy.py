from dataclasses import replace
from statistics import median

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pega_tune.autotune.engine import SamplingLimits, TransferBlock
from pega_tune.autotune.layouts import HOST_ORDERED, STRIDED, NamedLayout
from pega_tune.autotune.sweep.keys import confirm_key
from pega_tune.autotune.sweep.observations import transfer_samples, usable
from pega_tune.autotune.sweep.plans import allowed, candidates, launched, pegaflow_kernel
from pega_tune.autotune.sweep.policy import Learnt, compile_policy
from pega_tune.autotune.sweep.recording import Measured, block_record
from pega_tune.kernels.plan import AnyPlan, Backend, CopyPlan, KernelOptions, PlanPair, Variant, direct, kernel
from pega_tune.kernels.shape import Direction, TransferShape
from pega_tune.profiles.policy.choose import Demand, choose
from pega_tune.profiles.policy.compiled import decode, encode
from pega_tune.profiles.policy.table import Table
from pega_tune.profiles.policy.terms import Colocation, Hint, Objective, Runtime
from pega_tune.profiles.store.records import BlockRecord
from tests.helpers.sweeps import MIB, block, cell, sim_engine

WARP = kernel(Variant.WARP, 2, 1024)
WIDE = kernel(Variant.BLOCK, 64, 512)  # launches what WARP does at no shape
COUNTS = [(n, s) for n in (1, 16, 256, 4096) for s in (256, 4096, 65_536)]


def _table(learnt: Learnt, runtime: Runtime = Runtime.FULL, direction: Direction = Direction.H2D) -> Table:
    table = learnt.policy.find(direction, Colocation.IDLE, runtime)
    assert table is not None
    return table


def _model(plan: AnyPlan, shape: TransferShape) -> float:
    commands = shape.merged_ranges if plan == direct() else 5
    return 5e-6 + 2.4e-6 * commands + shape.total_bytes / 50e9


def _blocks(*plans: CopyPlan) -> list[BlockRecord]:
    shapes = [TransferShape(n, n * s, Direction.H2D) for n, s in COUNTS]
    return [block(s, [cell(p, [_model(p, s)] * 7) for p in plans]) for s in shapes]


def test_each_plan_wins_where_it_is_faster() -> None:
    table = _table(compile_policy(_blocks(direct(), WARP)))
    assert table.look_up(1, 4096)[0].plan == direct()
    assert table.look_up(4096, 4096)[0].plan == WARP
    assert (table.measured_ranges, table.measured_sizes) == ((1, 4096), (256, 65_536))
    assert table.measured_bytes == (256, 4096 * 65_536)


def test_predictions_reproduce_what_was_measured() -> None:
    table = _table(compile_policy(_blocks(direct(), WARP)))
    for n, s in COUNTS:
        fastest = table.look_up(n, s)[0]
        assert fastest.predicted.time_s == pytest.approx(_model(fastest.plan, TransferShape(n, n * s)), rel=1e-3)


def test_a_plan_seen_at_one_shape_wins_nowhere_far_from_it() -> None:
    blocks = _blocks(direct(), WARP)
    lucky = TransferShape(4096, 4096 * 4096, Direction.H2D)
    blocks = [
        block(b.shape, [*b.cells, cell(WIDE, [_model(WARP, lucky) / 2] * 7)]) if b.shape == lucky else b for b in blocks
    ]
    table = _table(compile_policy(blocks))
    assert table.look_up(4096, 4096)[0].plan == WIDE
    winners = {(n, s): table.look_up(n, s)[0].plan for n in (1, 64, 512, 16_384) for s in (256, 1024, 65_536, MIB)}
    assert WIDE not in winners.values()


def test_a_plan_wins_nowhere_near_a_shape_where_it_failed() -> None:
    blocks = _blocks(direct(), WARP)
    failed = TransferShape(4096, 4096 * 4096, Direction.H2D)
    blocks = [
        block(b.shape, [b.cells[0], cell(WARP, [], status="mismatch")]) if b.shape == failed else b for b in blocks
    ]
    table = _table(compile_policy(blocks))
    assert [o.plan for o in table.look_up(4096, 4096)] == [direct()]
    assert table.look_up(256, 4096)[0].plan == WARP


def test_runtimes_get_what_they_can_run() -> None:
    bounded = kernel(Variant.BLOCK, 64, 256)
    learnt = compile_policy(_blocks(direct(), pegaflow_kernel(), bounded, WARP))
    named = {
        runtime: {o.plan for options in _table(learnt, runtime).cells for o in options}
        for runtime in (Runtime.PEGAFLOW, Runtime.KERNEL_OPTIONS, Runtime.FULL)
    }
    assert named[Runtime.PEGAFLOW] == {direct(), pegaflow_kernel()}
    assert bounded in named[Runtime.KERNEL_OPTIONS] <= {direct(), pegaflow_kernel(), bounded}
    assert WARP in named[Runtime.FULL]


def test_a_runtime_that_can_run_nothing_has_no_table() -> None:
    learnt = compile_policy(_blocks(WARP))
    assert learnt.policy.find(Direction.H2D, Colocation.IDLE, Runtime.PEGAFLOW) is None
    assert _table(learnt).look_up(1, 1)[0].plan == WARP


def test_each_cell_tells_the_block_that_it_rests_on() -> None:
    table = _table(compile_policy(_blocks(direct(), WARP)))
    for n, s in COUNTS:
        source = table.sources[table.evidence[table.index(n, s)]]
        assert source == f"idle/h2d/{n}x{n * s}"
    assert set(table.sources) == {f"idle/h2d/{n}x{n * s}" for n, s in COUNTS}


def test_what_is_known_of_the_ranges_makes_tables_of_its_own_for_the_runtime_that_can_use_it() -> None:
    staged = CopyPlan(Backend.STAGED, Variant.WARP, 256, KernelOptions(264))
    layouts = [HOST_ORDERED, STRIDED, NamedLayout.parse("runs:256")]
    shapes = [layout.described(TransferShape(4096, 4096 * 4096, Direction.H2D)) for layout in layouts]
    blocks = [block(shape, [cell(staged, [1e-4] * 7), cell(WARP, [2e-4] * 7)]) for shape in shapes]
    policy = compile_policy([*_blocks(direct(), WARP), *blocks]).policy
    hinted = [table for table in policy.tables if table.hint is not Hint.NONE]
    assert {(table.hint, table.runtime) for table in hinted} == {
        (hint, Runtime.FULL) for hint in Hint if hint != "none"
    }
    for table in hinted:
        assert table.look_up(4096, 4096)[0].plan == staged
        assert table.measured_bytes == (4096 * 4096, 4096 * 4096)
    plain = policy.find(Direction.H2D, Colocation.IDLE, Runtime.FULL)
    assert plain is not None
    assert staged not in {option.plan for options in plain.cells for option in options}


def test_a_second_pass_teaches_nothing() -> None:
    blocks = _blocks(direct(), WARP)
    again = [replace(b, key=confirm_key(Direction.H2D, n)) for n, b in enumerate(_blocks(WIDE), 1)]
    assert compile_policy([*blocks, *again]) == compile_policy(blocks)


def test_nothing_measured_is_no_table() -> None:
    assert compile_policy([]).policy.tables == ()
    shape = TransferShape(1, 1, Direction.H2D)
    assert compile_policy([block(shape, [cell(direct(), [], status="crashed")])]).fits == ()


def test_a_single_block_answers_with_what_it_measured() -> None:
    shape = TransferShape(16_384, 64 * MIB, Direction.BOTH)
    pair = PlanPair(WARP, WARP)
    learnt = compile_policy([block(shape, [cell(pair, [2e-3] * 7)])])
    (option,) = _table(learnt, direction=Direction.BOTH).look_up(1, 1)
    assert (option.plan, option.predicted.time_s) == (pair, 2e-3)


@pytest.fixture(scope="module")
def simulated() -> list[BlockRecord]:
    """Core blocks of a simulated H200 on a small lattice."""
    engine = sim_engine()
    records = []
    for direction in Direction:
        for n, s in [*COUNTS, (16_384, 4096), (1, 64 * MIB), (64, MIB)]:
            shape = TransferShape(n, n * s, direction)
            chosen = candidates(shape, engine.capabilities(), full=False, dense=False)
            planned = TransferBlock(f"{shape}", shape, chosen, SamplingLimits(0.1), seed=n + s)
            measured = Measured(planned, tuple(engine.transfer(planned)), engine.conditions())
            records.append(block_record(measured, engine.facts.identity.max_link))
    return records


def test_winners_are_within_the_noise_of_the_best_measured(simulated: list[BlockRecord]) -> None:
    learnt = compile_policy(simulated)
    for record in simulated:
        shape = record.shape
        table = _table(learnt, direction=shape.direction)
        times = {c.plan: median(transfer_samples(c)) for c in record.cells if usable(c)}
        first = table.look_up(shape.merged_ranges, shape.average_range_bytes)[0]
        assert first.predicted.time_s == pytest.approx(min(times.values()), rel=table.margin)


@pytest.mark.parametrize("runtime", Runtime)
def test_throughput_is_within_one_margin_of_the_fastest_that_the_runtime_can_run(
    simulated: list[BlockRecord], runtime: Runtime
) -> None:
    learnt = compile_policy(simulated)
    demand = Demand(Objective.THROUGHPUT)
    for record in simulated:
        shape = record.shape
        table = _table(learnt, runtime, shape.direction)
        cells = [c for c in record.cells if usable(c)]
        times = {launched(c.plan, shape): median(transfer_samples(c)) for c in cells}
        fastest_s = min(median(transfer_samples(c)) for c in cells if allowed(runtime, c.plan))
        options = table.look_up(shape.merged_ranges, shape.average_range_bytes)
        chosen = choose(options, demand, table.margin).option.plan
        assert times[launched(chosen, shape)] <= fastest_s * (1 + table.margin) * (1 + 1e-9)


CLOSE = [kernel(Variant.BLOCK, grid, 256, p) for grid in (2, 4) for p in (0, -5)]


@given(st.lists(st.floats(1.0, 1.05), min_size=len(CLOSE), max_size=len(CLOSE)))
@settings(max_examples=40)
@example([1.046875, 1.02015, 1.0, 1.0])  # which is 1.02 in a table
@example([1.03, 1.03, 1.018, 1.0])  # the margin applied from the second to the first would be applied twice
def test_plans_that_are_close_cost_one_margin_at_most(factors: list[float]) -> None:
    shape = TransferShape(16, 16 * 4096, Direction.H2D)
    times = {plan: 1e-3 * factor for plan, factor in zip(CLOSE, factors, strict=True)}
    table = _table(compile_policy([block(shape, [cell(plan, [s] * 7) for plan, s in times.items()])]))
    chosen = choose(table.look_up(16, 4096), Demand(Objective.THROUGHPUT), table.margin).option.plan
    assert isinstance(chosen, CopyPlan)
    # Tables keep four digits of each of the two times.
    assert times[chosen] <= min(times.values()) * (1 + table.margin) * (1 + 1e-3)


def test_a_device_like_an_h200_gets_the_known_answers(simulated: list[BlockRecord]) -> None:
    table = _table(compile_policy(simulated))
    for option in table.look_up(16_384, 4096)[1:-1]:
        assert isinstance(option.plan, CopyPlan)
        assert option.plan.options
        assert option.plan.options.max_grid_blocks <= 64
    assert [o.plan for o in table.look_up(1, 64 * MIB)] == [direct()]


def test_a_compiled_policy_can_be_stored(simulated: list[BlockRecord]) -> None:
    policy = compile_policy(simulated).policy
    assert len(policy.tables) == len(Direction) * len(Runtime)
    assert len(decode(encode(policy)).tables) == len(policy.tables)
