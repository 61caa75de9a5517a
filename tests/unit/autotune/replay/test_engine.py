"""What an engine answers from a recording, and what it refuses."""

from dataclasses import replace

import numpy as np
import pytest

from pega_tune.autotune.engine import (
    Candidate,
    CandidateKind,
    EngineLostError,
    Measurement,
    Phase,
    SamplingLimits,
    Status,
    TransferBlock,
)
from pega_tune.autotune.measuring.schedule import BlockSchedule
from pega_tune.autotune.replay.engine import ReplayEngine
from pega_tune.autotune.replay.errors import NotRecordedError
from pega_tune.autotune.replay.recording import Recording
from pega_tune.kernels.plan import Backend, CopyPlan, Variant, direct, kernel
from pega_tune.kernels.shape import Direction, TransferShape
from pega_tune.profiles.policy.matching import fit
from pega_tune.profiles.policy.terms import Colocation
from pega_tune.profiles.store.records import BlockFlag, BlockRecord, CellRecord, Metric
from tests.helpers.recordings import load, measured, serving_block, transfer_block
from tests.helpers.sweeps import block as idle_block
from tests.helpers.sweeps import cell

SMALL = TransferShape(256, 1 << 20, Direction.H2D)
FAST, SLOW = direct(), kernel(Variant.BLOCK, 8, 256)
EVERYTHING = SamplingLimits(budget_s=1e9, min_rounds=1000, max_rounds=1000, drop_ratio=1e9)


def _blocks(colocation: Colocation) -> list[BlockRecord]:
    return [
        block for block in load().blocks if (block.colocation is Colocation.IDLE) == (colocation is Colocation.IDLE)
    ]


def _with(cells: list[CellRecord], *flags: BlockFlag) -> ReplayEngine:
    return ReplayEngine(replace(load(), blocks=(idle_block(SMALL, cells, *flags),)))


def _ask(*plans: CopyPlan, limits: SamplingLimits = EVERYTHING) -> TransferBlock:
    candidates = tuple(Candidate(plan.key, CandidateKind.PLAN, plan) for plan in plans)
    return TransferBlock("idle/h2d/256x1048576", SMALL, candidates, limits, 1)


def _timed(taken: list[Measurement], candidate: int) -> list[float]:
    return [
        m.transfer_s for m in taken if m.candidate == candidate and m.phase is Phase.TIMED and m.status is Status.OK
    ]


def test_every_recorded_transfer_block_comes_out_as_it_was() -> None:
    engine = ReplayEngine(load())
    recorded = _blocks(Colocation.IDLE)
    assert len(recorded) > 100
    for block in recorded:
        assert measured(block, engine) == block, block.key


@pytest.mark.parametrize("record", _blocks(Colocation.SAME_CONTEXT), ids=lambda record: record.key)
def test_every_recorded_serving_block_comes_out_but_for_missed_deadlines(record: BlockRecord) -> None:
    again = measured(record, ReplayEngine(load()))
    assert [replace(c, measurements=()) for c in again.cells] == [replace(c, measurements=()) for c in record.cells]
    assert replace(again, cells=(), period_s=None) == replace(record, cells=(), period_s=None)
    assert again.period_s == pytest.approx(record.period_s, rel=0.02)  # of a last burst that was late
    for new, old in zip(again.cells, record.cells, strict=True):
        there, here = ({m.metric: m for m in c.measurements if m.metric is not Metric.MISSED} for c in (old, new))
        assert here.keys() == there.keys()
        for metric, series in there.items():
            assert np.allclose(here[metric].samples, series.samples, rtol=0, atol=2e-8), (new.name, metric)
            assert (here[metric].status, here[metric].flags) == (series.status, series.flags)


def test_the_order_is_that_of_the_schedule() -> None:
    engine = ReplayEngine(load())
    asked = transfer_block(load().blocks[0])
    schedule = BlockSchedule(asked)
    for measurement in engine.transfer(asked):
        schedule.record(measurement)  # refuses a measurement that is not due
    assert schedule.next() is None


def test_a_few_of_the_plans_have_their_own_samples() -> None:
    record = next(b for b in load().blocks if b.key == "idle/h2d/1024x1048576")
    chosen = record.cells[2:5]
    asked = transfer_block(replace(record, cells=chosen))
    taken = list(ReplayEngine(load()).transfer(replace(asked, limits=EVERYTHING)))
    for index, one in enumerate(chosen):
        assert tuple(_timed(taken, index)) == one.measurements[0].samples


def test_a_candidate_without_more_samples_leaves_and_the_others_go_on() -> None:
    engine = _with([cell(FAST, [1e-3] * 9), cell(SLOW, [1.1e-3, 1.2e-3])])
    taken = list(engine.transfer(_ask(FAST, SLOW)))
    assert (len(_timed(taken, 0)), _timed(taken, 1)) == (9, [1.1e-3, 1.2e-3])
    assert {m.status for m in taken} == {Status.OK}


def test_the_limits_of_the_block_that_is_asked_hold() -> None:
    engine = _with([cell(FAST, [1e-3] * 40), cell(SLOW, [9e-3] * 40)])
    taken = list(engine.transfer(_ask(FAST, SLOW, limits=SamplingLimits(budget_s=0.0, min_rounds=4, max_rounds=4))))
    assert (len(_timed(taken, 0)), len(_timed(taken, 1))) == (4, 2)


def test_a_failure_is_replayed_where_it_happened() -> None:
    wrong = replace(cell(SLOW, (), status="mismatch"), detail="byte 0 is wrong", verified=False)
    late = replace(cell(FAST, [1e-3, 2e-3], status="crashed"), detail="signal 9")
    taken = list(_with([wrong, late]).transfer(_ask(SLOW, FAST)))
    (mismatch,) = [m for m in taken if m.candidate == 0]
    assert (mismatch.phase, mismatch.status, mismatch.detail) == (Phase.VERIFY, Status.MISMATCH, "byte 0 is wrong")
    assert [(m.phase, m.status) for m in taken if m.candidate == 1] == [
        (Phase.VERIFY, Status.OK),
        (Phase.TIMED, Status.OK),
        (Phase.TIMED, Status.OK),
        (Phase.TIMED, Status.CRASHED),
    ]


def test_what_was_never_verified_cannot_win() -> None:
    (only,) = _with([replace(cell(FAST, [1e-3]), verified=False)]).transfer(_ask(FAST))
    assert (only.phase, only.status) == (Phase.VERIFY, Status.INVALID)


def test_flags_come_back_with_the_conditions() -> None:
    engine = _with([cell(FAST, [1e-3] * 3)], BlockFlag.CONTENDED)
    again = measured(idle_block(SMALL, [cell(FAST, [1e-3] * 3)]), engine)
    assert again.flags == (BlockFlag.CONTENDED,)


def test_another_key_of_the_same_shape_and_layout_is_answered() -> None:
    record = load().blocks[0]
    asked = transfer_block(record)
    assert list(ReplayEngine(load()).transfer(replace(asked, key="again"))) == list(
        ReplayEngine(load()).transfer(asked)
    )


@pytest.mark.parametrize(
    ("shape", "plan", "match"),
    [
        (replace(SMALL, merged_ranges=257), FAST, "257x1048576 is not in the recording"),
        (replace(SMALL, direction=Direction.D2H), FAST, "d2h"),
        (SMALL, replace(FAST, chunk_bytes=4096), "direct chunk_bytes=4096 was not recorded in idle/h2d"),
    ],
    ids=["shape", "direction", "plan"],
)
def test_what_was_not_recorded_is_refused(shape: TransferShape, plan: CopyPlan, match: str) -> None:
    engine = _with([cell(FAST, [1e-3] * 3)])
    with pytest.raises(NotRecordedError, match=match):
        engine.transfer(replace(_ask(plan), key="some", shape=shape))


def test_another_decode_or_colocation_is_refused() -> None:
    asked = serving_block(_blocks(Colocation.SAME_CONTEXT)[0])
    engine = ReplayEngine(load())
    with pytest.raises(NotRecordedError, match="beside builtin qwen3-4b, not torch qwen3-4b"):
        engine.beside_decode(replace(asked, decode=replace(asked.decode, source="torch")))
    with pytest.raises(NotRecordedError, match="mps/both"):
        engine.beside_decode(replace(asked, key="mps", colocation=Colocation.MPS))


def test_a_closed_engine_answers_nothing() -> None:
    engine = _with([cell(FAST, [1e-3] * 3)])
    engine.close()
    with pytest.raises(EngineLostError):
        engine.transfer(_ask(FAST))


def test_the_device_is_named_and_never_taken_for_one_that_is_here() -> None:
    facts, device = ReplayEngine(load()).facts, load().sweep.device
    assert facts.uuid == f"replay:{device.uuid}"
    assert (facts.replayed, facts.simulated, device.replayed) == (True, False, False)
    assert fit(facts, device) is fit(device, facts) is None
    assert fit(device, device) is not None
    assert fit(facts, facts) is not None
    assert facts.class_id != device.class_id
    assert facts.family_id != device.family_id


def test_a_simulated_device_keeps_its_name() -> None:
    simulated = replace(load().sweep.device, uuid="sim:h200")
    recording = Recording(replace(load().sweep, device=simulated), load().blocks, "", "")
    assert ReplayEngine(recording).facts.simulated


def test_capabilities_are_those_that_show() -> None:
    capabilities = ReplayEngine(load()).capabilities()
    assert set(capabilities.backends) == set(Backend)
    assert capabilities.priorities == (0, -1, -2, -3, -4, -5)
    assert capabilities.max_threads == 1024
    assert capabilities.partitions.sizes is not None
    assert [capabilities.partitions.sizes.rounded(sms) for sms in (8, 16, 32, 64)] == [8, 16, 32, 64]
    assert capabilities.device_bytes > 1 << 36
    assert capabilities.kernel_digest == load().sweep.kernel_digest
    alone = replace(load(), blocks=(idle_block(SMALL, [cell(FAST, [1e-3])]),))
    few = ReplayEngine(alone).capabilities()
    assert (few.backends, few.partitions.sizes) == ((Backend.DIRECT,), None)
