import re
from dataclasses import replace

import pytest

from pega_tune.autotune.engine import Conditions, EngineLostError, MemoryLimitError
from pega_tune.autotune.sweep.events import BlockFinished, BlockSkipped, CellFailed, SweepFinished, SweepStarted
from pega_tune.autotune.sweep.keys import confirms
from pega_tune.autotune.sweep.request import SweepRequest
from pega_tune.autotune.sweep.run import run_sweep
from pega_tune.autotune.sweep.runner import MAX_RETRIES
from pega_tune.errors import DeviceError
from pega_tune.kernels.shape import Direction, TransferShape
from pega_tune.profiles.policy.compiled import decode
from pega_tune.profiles.policy.terms import Colocation, ProfileState, Runtime
from pega_tune.profiles.store.records import BlockFlag, SweepState
from pega_tune.profiles.store.store import Store
from tests.helpers.sweeps import MIB, QUICK, Block, HookedEngine, finished, planned_keys, sim_engine


def test_a_whole_sweep_is_stored_and_published(store: Store) -> None:
    engine = sim_engine()
    events = list(run_sweep(QUICK, engine, store))

    planned = planned_keys(QUICK, engine)
    started = events[0]
    assert isinstance(started, SweepStarted)
    assert (started.blocks, started.finished) == (len(planned), 0)
    blocks = [e for e in events if isinstance(e, BlockFinished)]
    assert [b.key for b in blocks] == planned
    assert [b.number for b in blocks] == list(range(1, len(planned) + 1))
    assert all(b.best for b in blocks)
    (beside,) = (b for b in blocks if b.key.startswith("time-sliced/"))
    assert (beside.key, beside.ratio_to_ceiling) == ("time-sliced/both/16384x67108864", None)
    assert all(b.ratio_to_ceiling and 0 < b.ratio_to_ceiling < 1.2 for b in blocks if b is not beside)
    assert blocks[-1].key == "confirm/both/3"
    assert len(events) == len(planned) + 2

    end = finished(events)
    assert (end.state, end.reasons, end.blocks) == (ProfileState.PUBLISHED, (), len(planned))
    summary = store.sweep(end.sweep_id)
    assert summary.sweep.state is SweepState.FINISHED
    assert (summary.blocks, summary.cells, summary.profile_id) == (end.blocks, end.cells, end.profile_id)
    assert summary.sweep.planned_blocks == len(planned)


def test_the_profile_answers_for_every_runtime_and_keeps_the_link_under_load(store: Store) -> None:
    end = finished(list(run_sweep(QUICK, sim_engine(), store)))
    assert end.profile_id
    profile = store.profile(end.profile_id)
    policy = decode(profile.compiled)
    assert all(policy.find(d, Colocation.IDLE, runtime) for d in Direction for runtime in Runtime)
    assert profile.device.simulated
    assert profile.device.staleness.trained_link == profile.device.identity.max_link
    assert profile.fits


def test_nothing_happens_before_the_first_event(store: Store) -> None:
    run_sweep(QUICK, sim_engine("busy"), store)
    assert store.sweeps() == ()


def test_a_busy_device_is_refused_before_anything_is_stored(store: Store) -> None:
    engine = HookedEngine(engine=sim_engine("busy"))
    with pytest.raises(DeviceError, match="in use by other processes") as refusal:
        list(run_sweep(QUICK, engine, store))
    assert "--allow-busy" in refusal.value.hint
    assert store.sweeps() == ()
    assert engine.closed


def test_a_busy_device_may_be_allowed_and_makes_a_draft(store: Store) -> None:
    request = SweepRequest(allow_busy=True)
    end = finished(list(run_sweep(request, HookedEngine(engine=sim_engine("busy")), store)))
    assert end.state is ProfileState.DRAFT
    assert "while other processes used the device" in end.reasons[0]


def test_too_little_memory_is_refused_before_anything_is_stored(store: Store) -> None:
    with pytest.raises(DeviceError, match="too little memory"):
        list(run_sweep(SweepRequest(), sim_engine("nomem"), store))
    assert store.sweeps() == ()


def test_little_memory_is_published_with_what_it_left_out(store: Store) -> None:
    end = finished(list(run_sweep(SweepRequest(max_device_bytes=34 * MIB), HookedEngine(), store)))
    assert end.state is ProfileState.PUBLISHED
    (reason,) = end.reasons
    left_out = r"\d+ of \d+ shapes, from \d+MiB on, were left out: all of them need \d+MiB of device memory"
    assert re.fullmatch(left_out + r" \(--max-device-memory\)", reason)
    assert store.profile(end.profile_id or "").reasons == end.reasons
    assert store.sweep(end.sweep_id).sweep.state is SweepState.FINISHED


def test_a_throttled_device_makes_a_draft(store: Store) -> None:
    end = finished(list(run_sweep(QUICK, HookedEngine(engine=sim_engine("throttled")), store)))
    assert end.state is ProfileState.DRAFT
    assert "throttled" in end.reasons[0]


class PassingTrouble(HookedEngine):
    """A device that is throttled during the first block begun, and in order afterwards."""

    def conditions(self) -> Conditions:
        conditions = super().conditions()
        return replace(conditions, throttle_reasons=("thermal",)) if len(self.keys) == 1 else conditions


def test_a_block_that_was_disturbed_is_measured_once_more(store: Store) -> None:
    engine = PassingTrouble()
    end = finished(list(run_sweep(QUICK, engine, store)))
    assert engine.keys[0] == engine.keys[1]
    assert len(set(engine.keys)) == len(engine.keys) - 1
    assert not any(block.flags for block in store.blocks(end.sweep_id))
    assert end.state is ProfileState.PUBLISHED


def test_a_device_that_stays_disturbed_does_not_double_the_sweep(store: Store) -> None:
    engine = HookedEngine(engine=sim_engine("throttled"))
    end = finished(list(run_sweep(QUICK, engine, store)))
    assert len(engine.keys) - len(set(engine.keys)) == MAX_RETRIES
    assert all(BlockFlag.THROTTLED in block.flags for block in store.blocks(end.sweep_id))


def test_wrong_bytes_are_reported_and_make_a_draft(store: Store) -> None:
    events = list(run_sweep(QUICK, sim_engine("mismatch=h2d/256x"), store))
    failed = [e for e in events if isinstance(e, CellFailed)]
    assert failed
    assert all(e.status == "mismatch" and "h2d/256x" in e.key for e in failed)
    end = finished(events)
    assert end.state is ProfileState.DRAFT
    assert all("moved wrong bytes" in reason for reason in end.reasons)


def test_a_lost_engine_ends_the_sweep_with_everything_saved(store: Store) -> None:
    def hook(begun: int, _block: Block) -> None:
        if begun == 6:
            raise EngineLostError("the context is poisoned")

    events = list(run_sweep(QUICK, HookedEngine(hook), store))
    end = finished(events)
    assert (end.state, end.blocks) == (ProfileState.PARTIAL, 6)
    assert "the context is poisoned" in end.reasons[0]
    assert isinstance(events[-2], BlockSkipped)
    assert store.sweep(end.sweep_id).sweep.state is SweepState.INTERRUPTED


def test_blocks_without_memory_are_skipped(store: Store) -> None:
    def hook(begun: int, block: Block) -> None:
        if begun in (2, 3, 4, 5):
            raise MemoryLimitError(f"block {block.key} needs more")

    engine = HookedEngine(hook)
    events = list(run_sweep(QUICK, engine, store))
    end = finished(events)
    skipped = [e.key for e in events if isinstance(e, BlockSkipped)]
    waiting = [key for key in planned_keys(QUICK, engine) if confirms(key)]
    assert skipped[:-1] == engine.keys[2:6]
    assert skipped[-1] not in engine.keys  # it takes its plans from one of the others
    assert end.state is ProfileState.PARTIAL
    assert [reason.partition(":")[0] for reason in end.reasons[:3]] == skipped[:3]
    assert end.reasons[3].startswith("5 of ")
    assert end.blocks == len(engine.keys) - 4 == len(planned_keys(QUICK, engine)) - len(skipped + waiting)


def test_a_device_that_fails_again_and_again_ends_the_sweep(store: Store) -> None:
    def hook(begun: int, _block: Block) -> None:
        if begun >= 2:
            raise DeviceError("no more")

    engine = HookedEngine(hook)
    end = finished(list(run_sweep(QUICK, engine, store)))
    assert (len(engine.keys), end.blocks, end.state) == (5, 2, ProfileState.PARTIAL)


def test_an_engine_that_is_lost_at_once_teaches_nothing(store: Store) -> None:
    def hook(_begun: int, _block: Block) -> None:
        raise EngineLostError("gone")

    end = finished(list(run_sweep(QUICK, HookedEngine(hook), store)))
    assert (end.profile_id, end.state, end.blocks, end.cells) == (None, ProfileState.PARTIAL, 0, 0)


def test_users_shapes_are_measured_first(store: Store) -> None:
    mine = TransferShape(100, 100 * 3000)
    engine = HookedEngine()
    list(run_sweep(SweepRequest(shapes=(mine,)), engine, store))
    assert engine.keys[0] == "idle/both/100x300000"


def test_two_sweeps_share_a_database(store: Store) -> None:
    first, second = (run_sweep(QUICK, HookedEngine(), store) for _ in range(2))
    pairs = list(zip(first, second, strict=True))
    ends = [e for e in pairs[-1] if isinstance(e, SweepFinished)]
    assert len({e.sweep_id for e in ends}) == len({e.profile_id for e in ends}) == 2
    assert {e.blocks for e in ends} == {s.blocks for s in store.sweeps()} == {len(pairs) - 2}
