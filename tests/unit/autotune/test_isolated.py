"""Real child processes: they crash, hang, are killed, and never outlive their parent."""

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pega_tune.autotune.engine import Engine, EngineLostError, Measurement, Phase, Status
from pega_tune.autotune.isolated import IsolatedEngine
from pega_tune.autotune.isolation.messages import Failure, RemoteError
from pega_tune.autotune.isolation.timeouts import Timeouts
from pega_tune.autotune.sim.devices import sim_factory
from pega_tune.errors import DeviceError, PegaTuneError
from pega_tune.kernels.probe import NoDeviceError
from tests.helpers.engines import (
    Deed,
    FailingFactory,
    MisbehavingFactory,
    Misdeed,
    OnceFactory,
    SleepingFactory,
    transfer_block,
    wait_for,
)
from tests.helpers.processes import eventually, runs

ROOT = Path(__file__).parents[3]
SHORT = Timeouts(start_s=60, step_s=1.0)

Start = Callable[..., IsolatedEngine]


@pytest.fixture
def start() -> Iterator[Start]:
    engines = []

    def make(*misdeeds: Misdeed, folder: Path = Path(), timeouts: Timeouts | None = None) -> IsolatedEngine:
        engines.append(IsolatedEngine(MisbehavingFactory(misdeeds, folder), timeouts))
        return engines[-1]

    yield make
    for engine in engines:
        engine.close()
    assert multiprocessing.active_children() == []


def _failed(measurements: list[Measurement]) -> list[tuple[int, Phase, Status, str]]:
    return [(m.candidate, m.phase, m.status, m.detail) for m in measurements if m.status is not Status.OK]


def _measured(measurements: list[Measurement]) -> set[int]:
    return {m.candidate for m in measurements if m.status is Status.OK}


def test_measurements_are_those_of_the_engine_itself() -> None:
    block = transfer_block()
    engine = IsolatedEngine(sim_factory("sim:h200"))
    try:
        assert list(engine.transfer(block)) == list(sim_factory("sim:h200")().transfer(block))
        assert engine.facts == sim_factory("sim:h200").facts
    finally:
        engine.close()


def test_measurements_are_watched_as_they_come() -> None:
    watched: list[Measurement] = []
    engine = IsolatedEngine(sim_factory("sim:h200"), watch=watched.append)
    try:
        assert list(engine.transfer(transfer_block())) == watched
    finally:
        engine.close()


def test_a_crash_is_blamed_on_the_candidate_and_the_others_are_measured_in_a_fresh_child(start: Start) -> None:
    engine = start(Misdeed(2, Deed.EXIT))
    first = engine.pid
    measurements = list(engine.transfer(transfer_block()))
    assert _failed(measurements) == [(2, Phase.TIMED, Status.CRASHED, "the engine process ended with code 3")]
    assert _measured(measurements) == {0, 1, 3}
    assert engine.pid not in (None, first)


def test_measurements_of_a_dead_child_are_discarded(start: Start) -> None:
    measurements = list(start(Misdeed(2, Deed.EXIT)).transfer(transfer_block()))
    verified = [m.candidate for m in measurements if m.phase is Phase.VERIFY]
    assert sorted(verified) == [0, 1, 3]


def test_a_crash_in_verification_is_blamed_on_its_phase(start: Start) -> None:
    measurements = list(start(Misdeed(1, Deed.EXIT, Phase.VERIFY)).transfer(transfer_block()))
    assert _failed(measurements) == [(1, Phase.VERIFY, Status.CRASHED, "the engine process ended with code 3")]


def test_a_child_that_kills_itself_is_reported_with_the_signal() -> None:
    engine = IsolatedEngine(sim_factory("sim:h200+crash"))
    try:
        measurements = list(engine.transfer(transfer_block()))
    finally:
        engine.close()
    assert _failed(measurements) == [(3, Phase.TIMED, Status.CRASHED, "killed by SIGKILL")]


def test_a_hang_is_timed_out_and_the_others_are_measured() -> None:
    engine = IsolatedEngine(sim_factory("sim:h200+hang"), SHORT)
    try:
        pid = engine.pid
        measurements = list(engine.transfer(transfer_block()))
        assert pid is not None
        assert not runs(pid)
    finally:
        engine.close()
    assert _failed(measurements) == [(3, Phase.TIMED, Status.TIMED_OUT, "no answer within 1 s")]
    assert _measured(measurements) == {0, 1, 2}


def test_a_child_killed_from_outside_costs_the_candidate_that_ran(start: Start, tmp_path: Path) -> None:
    engine = start(Misdeed(2, Deed.WAIT), folder=tmp_path)
    victim = engine.pid
    assert victim is not None

    def kill_when_started() -> None:
        wait_for(tmp_path / "started")
        os.kill(victim, signal.SIGKILL)

    killer = threading.Thread(target=kill_when_started)
    killer.start()
    measurements = list(engine.transfer(transfer_block()))
    killer.join()
    assert _failed(measurements) == [(2, Phase.TIMED, Status.CRASHED, "killed by SIGKILL")]
    assert _measured(measurements) == {0, 1, 3}


def test_a_child_killed_between_blocks_costs_nobody(start: Start) -> None:
    engine = start()
    list(engine.transfer(transfer_block()))
    assert engine.pid is not None
    os.kill(engine.pid, signal.SIGKILL)
    assert eventually(lambda: bool(engine.conditions().unknown))
    measurements = list(engine.transfer(transfer_block()))
    assert _failed(measurements) == []
    assert _measured(measurements) == {0, 1, 2, 3}


@pytest.mark.parametrize(("deed", "detail"), [(Deed.LOST, "an illegal address"), (Deed.REFUSE, "not now")])
def test_an_engine_that_fails_on_its_way_is_replaced(start: Start, deed: Deed, detail: str) -> None:
    engine = start(Misdeed(1, deed))
    first = engine.pid
    measurements = list(engine.transfer(transfer_block()))
    assert _failed(measurements) == [(1, Phase.TIMED, Status.CRASHED, detail)]
    assert engine.pid != first


def test_a_refusal_before_anything_has_run_is_raised_here_and_keeps_the_child(start: Start) -> None:
    engine = start(Misdeed(0, Deed.REFUSE, Phase.VERIFY))
    first = engine.pid
    with pytest.raises(DeviceError, match="not now") as caught:
        list(engine.transfer(transfer_block()))
    assert caught.value.hint == "try later"
    assert engine.pid == first
    assert engine.capabilities().max_threads == 1024


def test_a_bug_in_the_engine_is_no_crashed_cell(start: Start) -> None:
    engine = start(Misdeed(1, Deed.BUG))
    with pytest.raises(RemoteError, match=r"(?s)_commit.*ZeroDivisionError: a bug of ours"):
        list(engine.transfer(transfer_block()))


def test_three_losses_in_a_row_end_the_engine(start: Start) -> None:
    engine = start(*(Misdeed(candidate, Deed.EXIT) for candidate in (0, 1, 2, 3)))
    with pytest.raises(EngineLostError, match=r"lost 3 times in a row, the last time: .* code 3") as caught:
        list(engine.transfer(transfer_block()))
    assert "doctor" in caught.value.hint


def test_a_whole_block_between_losses_starts_the_count_again(start: Start) -> None:
    engine = start(Misdeed(1, Deed.EXIT), Misdeed(3, Deed.EXIT))
    for _ in range(2):
        assert _measured(list(engine.transfer(transfer_block()))) == {0, 2}


def test_an_interrupt_here_ends_the_child_and_the_next_block_is_whole(start: Start, tmp_path: Path) -> None:
    engine = start(Misdeed(1, Deed.WAIT), folder=tmp_path)
    pid = engine.pid

    def interrupt_when_started() -> None:
        wait_for(tmp_path / "started")
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    thread = threading.Thread(target=interrupt_when_started)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        list(engine.transfer(transfer_block()))
    thread.join()
    assert pid is not None
    assert not runs(pid)
    (tmp_path / "released").touch()
    assert _failed(list(engine.transfer(transfer_block()))) == []


def test_errors_of_the_factory_keep_class_message_and_hint() -> None:
    with pytest.raises(NoDeviceError, match="no GPU at all") as caught:
        IsolatedEngine(FailingFactory(NoDeviceError("no GPU at all", "buy one")))
    assert caught.value.hint == "buy one"
    assert multiprocessing.active_children() == []


def test_an_unexpected_error_of_the_factory_brings_its_traceback() -> None:
    with pytest.raises(RemoteError, match=r"(?s)Traceback.*OSError: no such thing"):
        IsolatedEngine(FailingFactory(OSError("no such thing")))


def test_a_child_that_dies_at_its_start_is_tried_three_times() -> None:
    with pytest.raises(EngineLostError, match=r"3 times in a row.*code 9"):
        IsolatedEngine(FailingFactory())
    assert multiprocessing.active_children() == []


def test_a_child_that_does_not_start_in_time_is_given_up() -> None:
    with pytest.raises(EngineLostError, match=r"does not start: no answer within 0\.5 s"):
        IsolatedEngine(SleepingFactory(), Timeouts(start_s=0.5))
    assert multiprocessing.active_children() == []


def test_an_error_of_an_unknown_class_comes_as_its_nearest_known_base() -> None:
    failure = Failure((("no.such.module", "Odd"), (DeviceError.__module__, "DeviceError")), "gone", "look")
    error = failure.error()
    assert type(error) is DeviceError
    assert isinstance(error, PegaTuneError)
    assert (error.message, error.hint) == ("gone", "look")


def test_renewing_gives_another_process_with_the_same_device(start: Start) -> None:
    engine = start()
    before, facts = engine.pid, engine.facts
    engine.renew()
    assert engine.pid not in (None, before)
    assert engine.facts == facts
    assert _measured(list(engine.transfer(transfer_block()))) == {0, 1, 2, 3}


def test_renewing_does_not_wait_for_the_start_and_the_next_question_does(tmp_path: Path) -> None:
    engine = IsolatedEngine(OnceFactory(tmp_path / "began"), Timeouts(start_s=5.0))
    before = engine.pid
    engine.renew()
    assert engine.pid not in (None, before)
    with pytest.raises(EngineLostError, match="does not start: no answer within 5 s"):
        engine.capabilities()
    engine.close()
    assert multiprocessing.active_children() == []


def test_a_child_that_still_starts_is_ended_at_once_when_nobody_wants_it(tmp_path: Path) -> None:
    engine = IsolatedEngine(OnceFactory(tmp_path / "began"), Timeouts(close_s=1000))
    engine.renew()
    engine.close()  # would wait for an hour until it has started
    assert multiprocessing.active_children() == []


def test_close_reaps_the_child_and_is_final(start: Start) -> None:
    engine = start()
    pid = engine.pid
    assert pid is not None
    engine.close()
    engine.close()
    with pytest.raises(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)
    with pytest.raises(EngineLostError, match="closed"):
        list(engine.transfer(transfer_block()))


def test_it_is_an_engine(start: Start) -> None:
    engine: Engine = start()
    assert engine.facts.simulated


SCRIPT = """
import signal, sys
from pathlib import Path
from pega_tune.autotune.isolated import IsolatedEngine
from tests.helpers.engines import Deed, MisbehavingFactory, Misdeed, transfer_block

if __name__ == "__main__":
    folder = Path(sys.argv[1])
    signal.signal(signal.SIGINT, lambda *_: None)
    signal.signal(signal.SIGTERM, lambda *_: None)
    engine = IsolatedEngine(MisbehavingFactory((Misdeed(1, Deed.WAIT),), folder))
    print(engine.pid, flush=True)
    print(sorted({str(m.status) for m in engine.transfer(transfer_block())}), flush=True)
    if len(sys.argv) > 2:
        engine.close()
    print(sorted(m for m in sys.modules if m.partition(".")[0] in ("numba", "cuda")), flush=True)
"""


@pytest.fixture
def run_script(tmp_path: Path) -> Iterator[Callable[..., "subprocess.Popen[str]"]]:
    """Runs `SCRIPT` as the leader of its own process group."""
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    running = []

    def run(*arguments: str) -> "subprocess.Popen[str]":
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        command = [sys.executable, str(script), str(tmp_path), *arguments]
        process = subprocess.Popen(
            command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True, start_new_session=True
        )
        running.append(process)
        return process

    yield run
    for process in running:
        process.kill()
        process.communicate()


def _child_of(process: "subprocess.Popen[str]") -> int:
    assert process.stdout is not None
    return int(process.stdout.readline())


def test_a_busy_child_dies_with_its_parent(run_script: Callable[..., "subprocess.Popen[str]"], tmp_path: Path) -> None:
    parent = run_script()
    child = _child_of(parent)
    wait_for(tmp_path / "started")
    assert runs(child)
    parent.kill()
    assert eventually(lambda: not runs(child))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_to_the_group_is_the_parents_business(
    run_script: Callable[..., "subprocess.Popen[str]"], tmp_path: Path, number: signal.Signals
) -> None:
    parent = run_script("close")
    child = _child_of(parent)
    wait_for(tmp_path / "started")
    os.killpg(parent.pid, number)
    (tmp_path / "released").touch()
    output, _ = parent.communicate(timeout=60)
    assert parent.returncode == 0
    assert output.splitlines() == ["['ok']", "[]"]  # nothing the engine prints, no numba and no CUDA
    assert eventually(lambda: not runs(child))


def test_an_engine_left_open_does_not_keep_its_parent(
    run_script: Callable[..., "subprocess.Popen[str]"], tmp_path: Path
) -> None:
    (tmp_path / "released").touch()
    parent = run_script()
    child = _child_of(parent)
    parent.communicate(timeout=60)
    assert parent.returncode == 0
    assert eventually(lambda: not runs(child))
