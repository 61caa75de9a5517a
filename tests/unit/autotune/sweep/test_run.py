from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from pega_tune.autotune.engine import Engine, EngineLostError, MemoryLimitError, TransferBlock
from pega_tune.autotune.sweep.events import (
    BlockFinished,
    BlockSkipped,
    CellFailed,
    SweepEvent,
    SweepFinished,
    SweepStarted,
)
from pega_tune.autotune.sweep.planner import plan_sweep
from pega_tune.autotune.sweep.request import SweepRequest
from pega_tune.autotune.sweep.run import Surroundings, resume_sweep, run_sweep
from pega_tune.errors import DataError, DeviceError, UsageError
from pega_tune.kernels.shape import TransferShape
from pega_tune.profiles.policy.compiled import decode
from pega_tune.profiles.policy.terms import Colocation, ProfileState, Runtime
from pega_tune.profiles.store.records import SweepState
from pega_tune.profiles.store.store import Store
from tests.helpers.sweeps import MIB, HookedEngine, ManualClock, sim_engine

# Little memory leaves few and small shapes, in each direction.
SMALL = SweepRequest(max_device_bytes=34 * MIB)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(f"sqlite:///{tmp_path / 'sweeps.db'}") as opened:
        yield opened


class FullDiskError(Exception):
    pass


def _finished(events: list[SweepEvent]) -> SweepFinished:
    last = events[-1]
    assert isinstance(last, SweepFinished)
    return last


def _only(store: Store) -> str:
    (summary,) = store.sweeps()
    return summary.sweep.sweep_id


def _stopped_by(error: BaseException, at: int, store: Store) -> str:
    """Runs a sweep that ends with an error as block `at` begins; its id."""

    def hook(begun: int, _block: TransferBlock) -> None:
        if begun == at:
            raise error

    with pytest.raises(type(error)):
        list(run_sweep(SMALL, HookedEngine(sim_engine(), hook), store))
    return _only(store)


def test_a_whole_sweep_is_stored_and_published(store: Store) -> None:
    engine = HookedEngine(sim_engine())
    events = list(run_sweep(SMALL, engine, store))

    planned = [b.block.key for b in plan_sweep(SMALL, engine.capabilities()).blocks]
    started = events[0]
    assert isinstance(started, SweepStarted)
    assert (started.blocks, started.finished) == (len(planned), 0)
    blocks = [e for e in events if isinstance(e, BlockFinished)]
    assert [b.key for b in blocks] == planned
    assert [b.number for b in blocks] == list(range(1, len(planned) + 1))
    assert all(b.best and b.ratio_to_ceiling and 0 < b.ratio_to_ceiling < 1.2 for b in blocks)
    assert len(events) == len(planned) + 2

    end = _finished(events)
    assert (end.state, end.reasons, end.blocks) == (ProfileState.PUBLISHED, (), len(planned))
    summary = store.sweep(end.sweep_id)
    assert summary.sweep.state is SweepState.FINISHED
    assert (summary.blocks, summary.cells, summary.profile_id) == (end.blocks, end.cells, end.profile_id)
    assert summary.sweep.planned_blocks == len(planned)
    assert engine.closed


def test_the_profile_answers_for_every_runtime_and_keeps_the_link_under_load(store: Store) -> None:
    end = _finished(list(run_sweep(SMALL, sim_engine(), store)))
    assert end.profile_id
    profile = store.profile(end.profile_id)
    policy = decode(profile.compiled)
    for runtime in Runtime:
        for table in (policy.find(d, Colocation.IDLE, runtime) for d in {t.direction for t in policy.tables}):
            assert table is not None
    assert profile.device.simulated
    assert profile.device.staleness.trained_link == profile.device.identity.max_link
    assert profile.fits


def test_nothing_happens_before_the_first_event(store: Store) -> None:
    run_sweep(SMALL, sim_engine("busy"), store)
    assert store.sweeps() == ()


def test_a_busy_device_is_refused_before_anything_is_stored(store: Store) -> None:
    engine = HookedEngine(sim_engine("busy"))
    with pytest.raises(DeviceError, match="in use by other processes") as refusal:
        list(run_sweep(SMALL, engine, store))
    assert "--allow-busy" in refusal.value.hint
    assert store.sweeps() == ()
    assert engine.closed


def test_a_busy_device_may_be_allowed_and_makes_a_draft(store: Store) -> None:
    request = SweepRequest(max_device_bytes=34 * MIB, allow_busy=True)
    end = _finished(list(run_sweep(request, sim_engine("busy"), store)))
    assert end.state is ProfileState.DRAFT
    assert "while other processes used the device" in end.reasons[0]


def test_too_little_memory_is_refused_before_anything_is_stored(store: Store) -> None:
    with pytest.raises(DeviceError, match="too little memory"):
        list(run_sweep(SweepRequest(), sim_engine("nomem"), store))
    assert store.sweeps() == ()


def test_a_throttled_device_makes_a_draft(store: Store) -> None:
    end = _finished(list(run_sweep(SMALL, sim_engine("throttled"), store)))
    assert end.state is ProfileState.DRAFT
    assert "throttled" in end.reasons[0]


def test_wrong_bytes_are_reported_and_make_a_draft(store: Store) -> None:
    events = list(run_sweep(SMALL, sim_engine("mismatch=h2d/256x"), store))
    failed = [e for e in events if isinstance(e, CellFailed)]
    assert failed
    assert all(e.status == "mismatch" and "h2d/256x" in e.key for e in failed)
    end = _finished(events)
    assert end.state is ProfileState.DRAFT
    assert all("moved wrong bytes" in reason for reason in end.reasons)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(143), FullDiskError("disk full")], ids=repr)
def test_what_ends_a_sweep_loses_no_block_and_goes_on(error: BaseException, store: Store) -> None:
    sweep_id = _stopped_by(error, 5, store)
    summary = store.sweep(sweep_id)
    expected = SweepState.FAILED if isinstance(error, Exception) else SweepState.INTERRUPTED
    assert (summary.sweep.state, summary.blocks, summary.profile_id) == (expected, 5, None)
    assert type(error).__name__ in summary.sweep.reasons[0]


def test_a_caller_that_takes_no_more_events_interrupts(store: Store) -> None:
    engine = HookedEngine(sim_engine())
    events = run_sweep(SMALL, engine, store)
    for _ in range(4):
        next(events)
    events.close()
    summary = store.sweep(_only(store))
    assert (summary.sweep.state, summary.blocks) == (SweepState.INTERRUPTED, 3)
    assert engine.closed


@pytest.mark.parametrize("error", [KeyboardInterrupt(), FullDiskError()], ids=repr)
def test_resuming_measures_the_missing_blocks_alone(error: BaseException, store: Store) -> None:
    sweep_id = _stopped_by(error, 5, store)
    stored = store.finished_blocks(sweep_id)
    engine = HookedEngine(sim_engine())
    events = list(resume_sweep(sweep_id[:6], engine, store))

    planned = [b.block.key for b in plan_sweep(SMALL, engine.capabilities()).blocks]
    assert engine.keys == [key for key in planned if key not in stored] == planned[5:]
    started, end = events[0], _finished(events)
    assert isinstance(started, SweepStarted)
    assert (started.blocks, started.finished) == (len(planned), 5)
    assert (end.sweep_id, end.state, end.blocks) == (sweep_id, ProfileState.PUBLISHED, len(planned))
    assert store.sweep(sweep_id).sweep.state is SweepState.FINISHED


def test_a_resumed_sweep_learns_what_an_undisturbed_one_does(store: Store) -> None:
    whole = _finished(list(run_sweep(SMALL, sim_engine(), store)))
    engine = HookedEngine(sim_engine(), lambda begun, _: _interrupt() if begun == 7 else None)
    with pytest.raises(KeyboardInterrupt):
        list(run_sweep(SMALL, engine, store))
    (interrupted,) = [s.sweep.sweep_id for s in store.sweeps() if s.sweep.state is SweepState.INTERRUPTED]
    resumed = _finished(list(resume_sweep(interrupted, sim_engine(), store)))
    assert whole.profile_id
    assert resumed.profile_id
    assert store.profile(whole.profile_id).digest == store.profile(resumed.profile_id).digest


def _interrupt() -> None:
    raise KeyboardInterrupt


def test_seconds_of_all_runs_add_up(store: Store) -> None:
    clock = ManualClock()

    def hook(begun: int, _block: TransferBlock) -> None:
        if begun == 3:
            raise KeyboardInterrupt
        clock.elapsed_s += 2.0

    with pytest.raises(KeyboardInterrupt):
        list(run_sweep(SMALL, HookedEngine(sim_engine(), hook), store, Surroundings(clock)))
    assert store.sweep(_only(store)).sweep.seconds == 6.0

    def slow(_begun: int, _block: TransferBlock) -> None:
        clock.elapsed_s += 0.25

    engine = HookedEngine(sim_engine(), slow)
    end = _finished(list(resume_sweep(_only(store), engine, store, Surroundings(clock))))
    assert end.seconds == store.sweep(end.sweep_id).sweep.seconds == 6.0 + 0.25 * len(engine.keys)


def test_out_of_time_leaves_a_part_that_can_be_completed(store: Store) -> None:
    clock = ManualClock()

    def slow(_begun: int, _block: TransferBlock) -> None:
        clock.elapsed_s += 10.0

    engine = HookedEngine(sim_engine(), slow)
    end = _finished(list(run_sweep(SMALL, engine, store, Surroundings(clock))))
    total = len(plan_sweep(SMALL, engine.capabilities()).blocks)
    assert 0 < len(engine.keys) < total
    assert clock.elapsed_s <= 50.0
    assert end.state is ProfileState.PARTIAL
    assert end.reasons[0] == f"out of time: {total - len(engine.keys)} of {total} blocks are missing"
    assert end.profile_id
    assert store.sweep(end.sweep_id).sweep.state is SweepState.INTERRUPTED

    end = _finished(list(resume_sweep(end.sweep_id, sim_engine(), store)))
    assert (end.state, end.blocks) == (ProfileState.PUBLISHED, total)


def test_a_lost_engine_ends_the_sweep_with_everything_saved(store: Store) -> None:
    def hook(begun: int, _block: TransferBlock) -> None:
        if begun == 6:
            raise EngineLostError("the context is poisoned")

    events = list(run_sweep(SMALL, HookedEngine(sim_engine(), hook), store))
    end = _finished(events)
    assert (end.state, end.blocks) == (ProfileState.PARTIAL, 6)
    assert "the context is poisoned" in end.reasons[0]
    assert isinstance(events[-2], BlockSkipped)


def test_a_block_without_memory_is_skipped(store: Store) -> None:
    def hook(begun: int, block: TransferBlock) -> None:
        if begun in (2, 3, 4, 5):
            raise MemoryLimitError(f"block {block.key} needs more")

    events = list(run_sweep(SMALL, HookedEngine(sim_engine(), hook), store))
    end = _finished(events)
    skipped = [e for e in events if isinstance(e, BlockSkipped)]
    assert len(skipped) == 4
    assert end.state is ProfileState.PARTIAL
    assert end.blocks == len([e for e in events if isinstance(e, BlockFinished)]) == len(events) - 6


def test_a_device_that_fails_again_and_again_ends_the_sweep(store: Store) -> None:
    def hook(begun: int, _block: TransferBlock) -> None:
        if begun >= 2:
            raise DeviceError("no more")

    engine = HookedEngine(sim_engine(), hook)
    end = _finished(list(run_sweep(SMALL, engine, store)))
    assert (len(engine.keys), end.blocks, end.state) == (5, 2, ProfileState.PARTIAL)


def test_users_shapes_are_measured_first(store: Store) -> None:
    mine = TransferShape(100, 100 * 3000)
    engine = HookedEngine(sim_engine())
    list(run_sweep(SweepRequest(max_device_bytes=34 * MIB, shapes=(mine,)), engine, store))
    assert engine.keys[0] == "idle/both/100x300000"


def test_two_sweeps_share_a_database(store: Store) -> None:
    first, second = (run_sweep(SMALL, sim_engine(), store) for _ in range(2))
    seen: list[SweepEvent] = []
    for pair in zip(first, second, strict=True):
        seen += pair
    ends = [e for e in seen if isinstance(e, SweepFinished)]
    assert len({e.sweep_id for e in ends}) == len({e.profile_id for e in ends}) == 2
    assert ends[0].blocks == ends[1].blocks == store.sweeps()[0].blocks == store.sweeps()[1].blocks


def _other_device() -> Engine:
    plain = sim_engine()
    return HookedEngine(plain, facts=replace(plain.facts, uuid="sim:other"))


def test_resuming_on_another_device_changes_nothing(store: Store) -> None:
    sweep_id = _stopped_by(KeyboardInterrupt(), 2, store)
    before = store.sweep(sweep_id)
    with pytest.raises(UsageError, match="begun with another device"):
        list(resume_sweep(sweep_id, _other_device(), store))
    assert store.sweep(sweep_id) == before


def test_a_finished_sweep_is_not_resumed(store: Store) -> None:
    end = _finished(list(run_sweep(SMALL, sim_engine(), store)))
    with pytest.raises(DataError, match="finished"):
        list(resume_sweep(end.sweep_id, sim_engine(), store))


def test_a_running_sweep_is_not_resumed(store: Store) -> None:
    events = run_sweep(SMALL, sim_engine(), store)
    next(events)
    with pytest.raises(DataError, match="running"):
        list(resume_sweep(_only(store), sim_engine(), store))
    events.close()


def test_an_unknown_sweep_is_refused(store: Store) -> None:
    engine = HookedEngine(sim_engine())
    with pytest.raises(DataError):
        list(resume_sweep("0123", engine, store))
    assert engine.closed
