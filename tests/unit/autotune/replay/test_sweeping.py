"""A sweep over a recording in place of a device, and who may use what it learns."""

from dataclasses import replace
from pathlib import Path

import pytest

from pega_tune.autotune.replay.codec import decode, encode
from pega_tune.autotune.replay.engine import ReplayEngine
from pega_tune.autotune.replay.recording import Recording, record_sweep
from pega_tune.autotune.sweep.planner import plan_sweep
from pega_tune.autotune.sweep.request import SweepRequest
from pega_tune.autotune.sweep.run import run_sweep
from pega_tune.kernels.shape import Direction, TransferShape
from pega_tune.profiles.policy.auto import Auto
from pega_tune.profiles.policy.terms import Tier
from pega_tune.profiles.store.store import Store
from tests.helpers.recordings import load
from tests.helpers.sweeps import finished, sim_engine

SHAPES = tuple(TransferShape(n, n * 4096, direction) for n in (16, 64) for direction in Direction)
MEMORY_BYTES = 1 << 30
REQUEST = SweepRequest(shapes=SHAPES, exhaustive=True, max_device_bytes=MEMORY_BYTES, max_host_bytes=MEMORY_BYTES)


@pytest.fixture(scope="module")
def recording() -> Recording:
    """As if an H200 had answered as its model does: all plans at a few shapes."""
    engine = sim_engine()
    blocks = tuple(task.measure(engine, {}) for task in plan_sweep(REQUEST, engine.capabilities()).blocks)
    sweep = replace(load().sweep, preset=REQUEST.preset, request=REQUEST.to_json())
    return decode(encode(Recording(sweep, blocks, "abc", "pega-tune sweep")))


def test_it_measures_what_was_recorded(recording: Recording, tmp_path: Path) -> None:
    with Store.open(f"sqlite:///{tmp_path / 'replayed.db'}") as store:
        result = finished(list(run_sweep(REQUEST, ReplayEngine(recording), store)))
        again = record_sweep(store, result.sweep_id, "", "")
    assert [replace(block, seconds=0.0) for block in again.blocks] == list(recording.blocks)


def test_what_it_learns_names_the_device_and_answers_for_nobody(recording: Recording, tmp_path: Path) -> None:
    database, nothing = tmp_path / "replayed.db", tmp_path / "nothing"
    nothing.mkdir()
    engine = ReplayEngine(recording)
    with Store.open(f"sqlite:///{database}") as store:
        profile_id = finished(list(run_sweep(REQUEST, engine, store))).profile_id
        assert profile_id is not None
        device = store.profile(profile_id).device
    here = load().sweep.device
    assert device.uuid == f"replay:{here.uuid}"
    assert not device.simulated
    assert device.provenance == here.provenance

    def decided_by(facts_are_replayed: bool) -> tuple[Tier, str | None]:
        facts = engine.facts if facts_are_replayed else here
        auto = Auto.for_device(facts, database, allow_drafts=True, packaged=nothing)
        decision = auto.decide(64, 64 * 4096, Direction.H2D)
        return decision.tier, decision.profile

    assert decided_by(facts_are_replayed=False) == (Tier.RULE, None)
    assert decided_by(facts_are_replayed=True) == (Tier.BOARD, profile_id)
