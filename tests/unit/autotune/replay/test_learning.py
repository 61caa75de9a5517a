"""Fits, tables and the gate on what an H200 has answered, replayed."""

from dataclasses import replace

import pytest

from pega_tune.autotune.engine import Status
from pega_tune.autotune.replay.engine import ReplayEngine
from pega_tune.autotune.sweep.gate import judge
from pega_tune.autotune.sweep.policy import Learnt, compile_policy
from pega_tune.kernels.shape import Direction
from pega_tune.profiles.policy.terms import Colocation
from pega_tune.profiles.store.records import BlockFlag, BlockRecord
from tests.helpers.recordings import load, measured


@pytest.fixture(scope="module")
def replayed() -> tuple[BlockRecord, ...]:
    engine = ReplayEngine(load())
    return tuple(measured(block, engine) for block in load().blocks if block.colocation is Colocation.IDLE)


@pytest.fixture(scope="module")
def learnt(replayed: tuple[BlockRecord, ...]) -> Learnt:
    return compile_policy(replayed)


def test_replayed_blocks_teach_what_the_recorded_ones_do(learnt: Learnt) -> None:
    recorded = compile_policy(block for block in load().blocks if block.colocation is Colocation.IDLE)
    assert learnt.policy.tables
    assert learnt == recorded


def test_plans_of_a_real_device_have_curves(learnt: Learnt) -> None:
    fitted = [fit for fit in learnt.fits if not fit.reason]
    assert {fit.direction for fit in fitted} == set(Direction)
    assert all(fit.parameters for fit in fitted)


def test_the_gate_finds_nothing_wrong_with_the_blocks_themselves(
    learnt: Learnt, replayed: tuple[BlockRecord, ...]
) -> None:
    reasons = judge(learnt.policy, replayed, ()).reasons
    assert not [reason for reason in reasons if "wrong bytes" in reason or "were measured" in reason]
    assert not [reason for reason in reasons if "never verified" in reason or "no plan" in reason]


def test_the_gate_finds_a_wrong_byte_and_a_neighbour(learnt: Learnt) -> None:
    first, *rest = load().blocks
    wrong = replace(first.cells[1], status=str(Status.MISMATCH), verified=False, measurements=())
    spoilt = replace(first, cells=(first.cells[0], wrong, *first.cells[2:]), flags=(BlockFlag.CONTENDED,))
    engine = ReplayEngine(replace(load(), blocks=(spoilt, *rest)))
    reasons = judge(learnt.policy, [measured(spoilt, engine)], ()).reasons
    assert f"{wrong.plan.key} moved wrong bytes" in reasons
    assert "1 of 1 blocks were measured while other processes used the device" in reasons
