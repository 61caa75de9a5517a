import pytest

from pega_tune.autotune.sweep.events import SweepFinished, SweepStarted
from pega_tune.autotune.sweep.keys import confirms
from pega_tune.autotune.sweep.run import Resumption, Surroundings, resume_sweep, run_sweep
from pega_tune.errors import DataError, DeviceError, UsageError
from pega_tune.profiles.policy.terms import ProfileState
from pega_tune.profiles.store.records import SweepState
from pega_tune.profiles.store.store import Store
from tests.helpers.sweeps import QUICK, Block, Hook, HookedEngine, ManualClock, finished, planned_keys, sim_engine


class FullDiskError(Exception):
    pass


def _raise_at(at: int, error: BaseException) -> Hook:
    def hook(begun: int, _block: Block) -> None:
        if begun == at:
            raise error

    return hook


def _stopped_by(error: BaseException, at: int, store: Store) -> str:
    """Runs a sweep that ends with an error as block `at` begins; its id."""
    with pytest.raises(type(error)):
        list(run_sweep(QUICK, HookedEngine(_raise_at(at, error)), store))
    return _only(store)


def _only(store: Store) -> str:
    (summary,) = store.sweeps()
    return summary.sweep.sweep_id


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(143), FullDiskError("disk full")], ids=repr)
def test_what_ends_a_sweep_loses_no_block_and_goes_on(error: BaseException, store: Store) -> None:
    sweep_id = _stopped_by(error, 5, store)
    summary = store.sweep(sweep_id)
    expected = SweepState.FAILED if isinstance(error, Exception) else SweepState.INTERRUPTED
    assert (summary.sweep.state, summary.blocks, summary.profile_id) == (expected, 5, None)
    assert type(error).__name__ in summary.sweep.reasons[0]


def test_a_caller_that_takes_no_more_events_interrupts(store: Store) -> None:
    engine = HookedEngine()
    events = run_sweep(QUICK, engine, store)
    for _ in range(4):
        next(events)
    events.close()
    summary = store.sweep(_only(store))
    assert (summary.sweep.state, summary.blocks) == (SweepState.INTERRUPTED, 3)
    assert engine.closed


def test_a_caller_that_leaves_after_the_last_event_interrupts_nothing(store: Store) -> None:
    events = run_sweep(QUICK, HookedEngine(), store)
    end = next(event for event in events if isinstance(event, SweepFinished))
    events.close()
    assert store.sweep(end.sweep_id).sweep.state is SweepState.FINISHED


@pytest.mark.parametrize("error", [KeyboardInterrupt(), FullDiskError()], ids=repr)
def test_resuming_measures_the_missing_blocks_alone(error: BaseException, store: Store) -> None:
    sweep_id = _stopped_by(error, 5, store)
    stored = store.finished_blocks(sweep_id)
    engine = HookedEngine()
    events = list(resume_sweep(Resumption(sweep_id[:6]), engine, store))

    planned = planned_keys(QUICK, engine)
    assert engine.keys == planned[5:]
    assert stored == set(planned[:5])
    started, end = events[0], finished(events)
    assert isinstance(started, SweepStarted)
    assert (started.blocks, started.finished) == (len(planned), 5)
    assert (end.sweep_id, end.state, end.blocks) == (sweep_id, ProfileState.PUBLISHED, len(planned))
    assert store.sweep(sweep_id).sweep.state is SweepState.FINISHED
    assert engine.closed


def test_a_resumed_sweep_learns_what_an_undisturbed_one_does(store: Store) -> None:
    interrupted = _stopped_by(KeyboardInterrupt(), 7, store)
    resumed = finished(list(resume_sweep(Resumption(interrupted), HookedEngine(), store)))
    whole = finished(list(run_sweep(QUICK, HookedEngine(), store)))
    assert whole.profile_id
    assert resumed.profile_id
    assert store.profile(whole.profile_id).digest == store.profile(resumed.profile_id).digest


def test_seconds_of_all_runs_add_up(store: Store) -> None:
    clock = ManualClock()

    def hook(begun: int, _block: Block) -> None:
        if begun == 3:
            raise KeyboardInterrupt
        clock.elapsed_s += 2.0

    with pytest.raises(KeyboardInterrupt):
        list(run_sweep(QUICK, HookedEngine(hook), store, Surroundings(clock)))
    assert store.sweep(_only(store)).sweep.seconds == 6.0

    def slow(_begun: int, _block: Block) -> None:
        clock.elapsed_s += 0.25

    engine = HookedEngine(slow)
    end = finished(list(resume_sweep(Resumption(_only(store)), engine, store, Surroundings(clock))))
    assert end.seconds == store.sweep(end.sweep_id).sweep.seconds == 6.0 + 0.25 * len(engine.keys)


def test_out_of_time_leaves_a_part_that_can_be_completed(store: Store) -> None:
    clock = ManualClock()

    def slow(_begun: int, _block: Block) -> None:
        clock.elapsed_s += 10.0

    engine = HookedEngine(slow)
    end = finished(list(run_sweep(QUICK, engine, store, Surroundings(clock))))
    total = len(planned_keys(QUICK, engine))
    assert 0 < len(engine.keys) < total
    assert clock.elapsed_s <= 50.0
    assert end.state is ProfileState.PARTIAL
    waiting = sum(confirms(key) for key in planned_keys(QUICK, engine))
    late = total - len(engine.keys) - waiting
    assert end.reasons == (
        f"out of time: {late} of {total} blocks are missing",
        f"{waiting} more, of the second pass, wait for what is missing",
    )
    assert end.blocks + late + waiting == total
    assert end.profile_id
    assert store.sweep(end.sweep_id).sweep.state is SweepState.INTERRUPTED

    end = finished(list(resume_sweep(Resumption(end.sweep_id), HookedEngine(), store)))
    assert (end.state, end.blocks) == (ProfileState.PUBLISHED, total)


def test_a_sweep_may_be_given_more_time(store: Store) -> None:
    clock = ManualClock()

    def slow(_begun: int, _block: Block) -> None:
        clock.elapsed_s += 10.0

    end = finished(list(run_sweep(QUICK, HookedEngine(slow), store, Surroundings(clock))))
    assert end.state is ProfileState.PARTIAL
    longer = Resumption(end.sweep_id, budget_s=1e4)
    assert finished(list(resume_sweep(longer, HookedEngine(slow), store, Surroundings(clock)))).state is (
        ProfileState.PUBLISHED
    )


def test_a_sweep_begun_alone_is_resumed_beside_others_only_if_allowed(store: Store) -> None:
    sweep_id = _stopped_by(KeyboardInterrupt(), 2, store)
    busy = sim_engine("busy")
    with pytest.raises(DeviceError, match="in use by other processes"):
        list(resume_sweep(Resumption(sweep_id), HookedEngine(engine=busy), store))
    assert store.sweep(sweep_id).blocks == 2
    finished(list(resume_sweep(Resumption(sweep_id, allow_busy=True), HookedEngine(engine=busy), store)))


def test_resuming_on_another_device_changes_nothing(store: Store) -> None:
    sweep_id = _stopped_by(KeyboardInterrupt(), 2, store)
    before = store.sweep(sweep_id)
    engine = HookedEngine(name="sim:other")
    with pytest.raises(UsageError, match="begun with another device"):
        list(resume_sweep(Resumption(sweep_id), engine, store))
    assert store.sweep(sweep_id) == before
    assert engine.keys == []
    assert engine.closed


def test_a_finished_sweep_is_not_resumed(store: Store) -> None:
    end = finished(list(run_sweep(QUICK, HookedEngine(), store)))
    with pytest.raises(DataError, match="finished"):
        list(resume_sweep(Resumption(end.sweep_id), HookedEngine(), store))


def test_a_running_sweep_is_not_resumed(store: Store) -> None:
    events = run_sweep(QUICK, HookedEngine(), store)
    next(events)
    with pytest.raises(DataError, match="running"):
        list(resume_sweep(Resumption(_only(store)), HookedEngine(), store))
    events.close()


def test_an_unknown_sweep_is_refused(store: Store) -> None:
    engine = HookedEngine()
    with pytest.raises(DataError):
        list(resume_sweep(Resumption("0123"), engine, store))
    assert engine.closed
