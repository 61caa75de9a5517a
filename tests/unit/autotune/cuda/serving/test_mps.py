"""The daemon of MPS with a stand-in for the driver's program: found, started, stopped, and never left behind."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pega_tune.autotune.cuda.serving.mps import MpsControl, MpsDaemon, MpsError
from pega_tune.autotune.cuda.serving.mps_clients import MpsClients
from pega_tune.autotune.serving import MpsShare
from pega_tune.profiles.policy.terms import Colocation
from tests.helpers.fake_mps import FakeMps
from tests.helpers.processes import eventually, runs

ROOT = Path(__file__).parents[5]
NO_SHARE = MpsShare()


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeMps:
    """The program alone on the PATH; temporary directories are in a folder of their own."""
    for name in ("bin", "tmp", "pipes"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    monkeypatch.setenv("CUDA_MPS_PIPE_DIRECTORY", str(tmp_path / "pipes"))
    return FakeMps(tmp_path / "bin")


@pytest.fixture
def foreign(fake: FakeMps, tmp_path: Path) -> Iterator[int]:
    """A daemon of somebody else, where we look for one."""
    pid = fake.run_daemon(tmp_path / "pipes")
    yield pid
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def _left(tmp_path: Path) -> list[str]:
    return os.listdir(tmp_path / "tmp")


def test_a_daemon_is_started_with_directories_of_its_own_and_stopped(fake: FakeMps, tmp_path: Path) -> None:
    with MpsDaemon.start() as daemon:
        pipes = daemon.control.pipe_directory
        assert pipes.is_relative_to(tmp_path / "tmp")
        assert fake.environment["CUDA_MPS_PIPE_DIRECTORY"] == str(pipes)
        assert Path(fake.environment["CUDA_MPS_LOG_DIRECTORY"]).is_relative_to(tmp_path / "tmp")
        assert daemon.control.is_running()
        assert runs(fake.pid)
    assert not runs(fake.pid)
    assert not daemon.control.is_running()
    assert _left(tmp_path) == []


def test_what_is_meant_for_clients_does_not_reach_the_daemon(fake: FakeMps, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    monkeypatch.setenv("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "20")
    with MpsDaemon.start():
        assert set(fake.environment) == {"CUDA_MPS_PIPE_DIRECTORY", "CUDA_MPS_LOG_DIRECTORY"}


def test_a_daemon_that_does_not_quit_is_killed(fake: FakeMps, tmp_path: Path) -> None:
    fake.tell("stubborn")
    daemon = MpsDaemon.start(patience_s=2.0)
    daemon.close()
    daemon.close()
    assert not runs(fake.pid)
    assert _left(tmp_path) == []


def test_a_daemon_that_does_not_start_says_why(fake: FakeMps, tmp_path: Path) -> None:
    fake.tell("refuse", "An instance of this daemon is already running")
    with pytest.raises(MpsError, match=r"does not start: An instance of this daemon is already running$"):
        MpsDaemon.start()
    assert _left(tmp_path) == []


def test_without_the_program_there_is_no_daemon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MpsError, match="nvidia-cuda-mps-control is not on the PATH"):
        MpsDaemon.start()
    assert not MpsControl(tmp_path).is_running()


SCRIPT = """
import sys, time
from pega_tune.autotune.cuda.serving.mps import MpsDaemon
daemon = MpsDaemon.start()
print(daemon.control.pipe_directory, flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_daemon_ends_however_its_owner_ends(fake: FakeMps, tmp_path: Path, number: signal.Signals) -> None:
    owner = subprocess.Popen(
        [sys.executable, "-c", SCRIPT],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert owner.stdout is not None
    assert owner.stdout.readline().startswith(str(tmp_path))
    assert runs(fake.pid)
    owner.send_signal(number)
    owner.communicate()
    assert eventually(lambda: not runs(fake.pid))
    assert eventually(lambda: _left(tmp_path) == [])


def test_a_daemon_that_runs_is_used_and_left_alone(foreign: int, tmp_path: Path) -> None:
    with MpsClients(may_start=True) as clients:
        environment = dict(clients(Colocation.MPS, MpsShare(active_thread_percentage=20, client_priority=1)))
    assert environment == {
        "CUDA_MPS_PIPE_DIRECTORY": str(tmp_path / "pipes"),
        "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "20",
        "CUDA_MPS_CLIENT_PRIORITY": "1",
    }
    assert runs(foreign)
    assert _left(tmp_path) == []


def test_a_process_that_must_not_be_a_client_is_kept_from_a_daemon_that_runs(foreign: int) -> None:
    with MpsClients() as clients:
        ((name, value),) = clients(Colocation.TIME_SLICED, NO_SHARE)
    assert name == "CUDA_MPS_PIPE_DIRECTORY"
    assert not Path(value or "").exists()


def test_without_a_daemon_nothing_is_changed_for_those_who_need_none(fake: FakeMps) -> None:
    with MpsClients() as clients:
        assert clients(Colocation.SAME_CONTEXT, NO_SHARE) == ()


def test_a_daemon_is_started_only_when_it_may_be(fake: FakeMps, tmp_path: Path) -> None:
    with MpsClients() as clients, pytest.raises(MpsError, match="no MPS daemon is running"):
        clients(Colocation.MPS, NO_SHARE)
    assert _left(tmp_path) == []


def test_one_daemon_of_our_own_serves_all_blocks_and_ends_with_them(fake: FakeMps, tmp_path: Path) -> None:
    with MpsClients(may_start=True) as clients:
        assert _left(tmp_path) == []
        first = dict(clients(Colocation.MPS, NO_SHARE))
        pid = fake.pid
        second = dict(clients(Colocation.MPS, MpsShare(client_priority=0)))
        assert (fake.pid, second["CUDA_MPS_PIPE_DIRECTORY"]) == (pid, first["CUDA_MPS_PIPE_DIRECTORY"])
        assert first["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] is first["CUDA_MPS_CLIENT_PRIORITY"] is None
        assert second["CUDA_MPS_CLIENT_PRIORITY"] == "0"
    assert not runs(pid)
    assert _left(tmp_path) == []


def test_a_daemon_of_our_own_is_stopped_when_something_else_is_measured(fake: FakeMps, tmp_path: Path) -> None:
    with MpsClients(may_start=True) as clients:
        clients(Colocation.MPS, NO_SHARE)
        first = fake.pid
        assert clients(Colocation.IDLE, NO_SHARE) == ()
        assert not runs(first)
        assert _left(tmp_path) == []
        clients(Colocation.MPS, NO_SHARE)
        assert runs(fake.pid)


def test_servers_are_told(fake: FakeMps, foreign: int, tmp_path: Path) -> None:
    control = MpsControl(tmp_path / "pipes")
    assert control.server_pids() == ()
    fake.tell("servers", "4711\n4712")
    assert control.server_pids() == (4711, 4712)


def test_who_looks_for_a_daemon_loads_neither_numba_nor_cuda(fake: FakeMps) -> None:
    script = (
        "import sys; from pega_tune.autotune.cuda.serving.mps_clients import MpsClients; MpsClients().close(); "
        "print(sorted(m for m in sys.modules if m.partition('.')[0] in ('numba', 'cuda')))"
    )
    command = [sys.executable, "-c", script]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    assert subprocess.check_output(command, cwd=ROOT, env=environment, text=True) == "[]\n"
