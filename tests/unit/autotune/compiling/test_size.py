"""All tables of a device together: every block that a standard sweep plans, everywhere that decode can run."""

from dataclasses import replace
from statistics import median

from pega_tune.autotune.engine import SamplingLimits
from pega_tune.autotune.layouts import HOST_ORDERED, SHUFFLED, STRIDED
from pega_tune.autotune.sweep.keys import block_key
from pega_tune.autotune.sweep.observations import transfer_samples, usable
from pega_tune.autotune.sweep.planner import PlannedBlock, plan_sweep
from pega_tune.autotune.sweep.policy import compile_policy
from pega_tune.autotune.sweep.recording import Measured, block_record
from pega_tune.autotune.sweep.request import SweepRequest
from pega_tune.kernels.plan import AnyPlan
from pega_tune.kernels.shape import Direction, TransferShape
from pega_tune.profiles.policy.compiled import decode, encode
from pega_tune.profiles.policy.terms import Colocation, Hint, Runtime
from pega_tune.profiles.store.records import BlockRecord
from tests.helpers.serving_records import Cost, survey_record
from tests.helpers.sweeps import sim_engine

MOST_BYTES = 512 << 10
CANONICAL = TransferShape(16_384, 64 << 20, Direction.BOTH)
BESIDE = tuple(colocation for colocation in Colocation if colocation is not Colocation.IDLE)


def _idle() -> list[BlockRecord]:
    engine = sim_engine()
    request = SweepRequest("standard", colocations=BESIDE)
    records = []
    for task in plan_sweep(request, engine.capabilities()).blocks:
        if isinstance(task, PlannedBlock):
            block = replace(task.block, limits=SamplingLimits(0.0, min_rounds=3, max_rounds=3))
            measured = Measured(block, tuple(engine.transfer(block)), engine.conditions())
            records.append(block_record(measured, engine.facts.identity.max_link))
    return records


def _surveys(idle: list[BlockRecord]) -> list[BlockRecord]:
    records = []
    for layout in (SHUFFLED, HOST_ORDERED, STRIDED):
        (alone,) = (b for b in idle if b.key == block_key(CANONICAL, Colocation.IDLE, layout))
        times = {c.plan: median(transfer_samples(c)) for c in alone.cells if usable(c)}
        quick = sorted(times, key=lambda plan: times[plan])[:18:2]
        costs: dict[AnyPlan, Cost] = {plan: Cost(1e-4 + times[plan] / 16, times[plan] + 1e-3) for plan in quick}
        for colocation in BESIDE:
            record = survey_record(costs, "", colocation, layout, CANONICAL)
            records.append(replace(record, key=block_key(CANONICAL, colocation, layout)))
    return records


def test_all_tables_of_a_device_take_at_most_512_kib() -> None:
    idle = _idle()
    policy = compile_policy([*idle, *_surveys(idle)]).policy
    kinds = {(t.colocation, t.runtime, t.hint) for t in policy.tables}
    assert len(kinds) == len(Colocation) * (len(Runtime) + len(Hint) - 1)
    assert len(policy.tables) == len(kinds) * len(Direction)
    fitted = {t.colocation for t in policy.tables for cell in t.cells for option in cell if option.fitted}
    assert fitted == set(BESIDE)
    blob = encode(policy)
    assert len(blob) <= MOST_BYTES
    assert len(decode(blob).tables) == len(policy.tables)
