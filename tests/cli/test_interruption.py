"""Sweeps that are interrupted, killed, resumed, or run at the same time: nothing that was finished is lost."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.cli import Program, wait_until
from tests.helpers.processes import runs
from tests.helpers.store import rows

SLOW = ("sweep", "--device", "sim:h200+slow", "--json")
RESUME_FAST = ("--device", "sim:h200", "--json")


def begin(program: Program, *arguments: str, blocks: int = 2) -> subprocess.Popen[str]:
    """Starts a slow sweep and waits until it has stored some blocks."""
    process = program.start(*SLOW, *arguments)
    wait_until(lambda: process.poll() is not None or stored(program) >= blocks, "a stored block")
    assert process.poll() is None, program.finish(process)
    return process


def stored(program: Program) -> int:
    """Blocks in the database; the program would take half a second to tell, and time from the sweep that is watched."""
    if not program.database.exists() or not rows(program.database, "SELECT 1 FROM sqlite_master WHERE name = 'block'"):
        return 0
    ((blocks,),) = rows(program.database, "SELECT count(*) FROM block")
    return int(blocks)


def only_sweep(program: Program) -> dict[str, object]:
    (sweep,) = program("sweeps", "list", "--json").json["sweeps"]
    return dict(sweep)


def engines(pid: int) -> list[int]:
    """Engine processes of a running sweep."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(child) for child in children if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes()]


def resumes_what_is_missing(program: Program) -> None:
    """Resumes the only sweep: all of it is there afterwards, and what was there was not measured again."""
    before = only_sweep(program)
    assert before["state"] == "interrupted"
    result = program("sweep", "--resume", str(before["sweep"]), *RESUME_FAST)
    assert result.code in (0, 5), result.stderr
    planned, kept = int(str(before["planned_blocks"])), int(str(before["blocks"]))
    told = re.search(r"(\d+) of (\d+) blocks to measure \((\d+) are there already\)", result.stderr)
    assert told is not None
    assert [int(number) for number in told.groups()] == [planned - kept, planned, kept]
    assert result.json["blocks"] == planned
    assert only_sweep(program)["state"] == "finished"


@pytest.mark.parametrize(("signum", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_ends_a_sweep_in_good_order(program: Program, signum: signal.Signals, code: int) -> None:
    process = begin(program)
    (engine,) = engines(process.pid)
    os.killpg(process.pid, signum)  # as a terminal does
    result = program.finish(process)
    assert result.code == code
    assert result.json["error"]["code"] == "interrupted"
    assert f"--resume {only_sweep(program)['sweep']}" in result.json["error"]["hint"]
    assert "Traceback" not in result.stderr
    assert not runs(engine)
    resumes_what_is_missing(program)


def test_a_second_signal_ends_it_at_once(program: Program) -> None:
    process = begin(program)
    (engine,) = engines(process.pid)
    os.kill(process.pid, signal.SIGINT)
    os.kill(process.pid, signal.SIGINT)
    assert program.finish(process).code == 130
    wait_until(lambda: not runs(engine), "the end of the engine")
    resumes_what_is_missing(program)


def test_a_killed_sweep_is_resumed(program: Program) -> None:
    process = begin(program, blocks=3)
    (engine,) = engines(process.pid)
    process.kill()
    assert program.finish(process).code == -signal.SIGKILL
    wait_until(lambda: not runs(engine), "the end of the engine")
    resumes_what_is_missing(program)


def test_a_killed_engine_is_replaced_and_its_cell_recorded(program: Program) -> None:
    process = begin(program, "--budget", "8s")
    for _ in range(2):  # one of them may hit an engine between two candidates, which costs none
        (engine,) = engines(process.pid)
        before = stored(program)
        os.kill(engine, signal.SIGKILL)
        wait_until(lambda before=before: stored(program) > before, "a block of the next engine")  # type: ignore[misc]
    result = program.finish(process)
    assert result.code == 5  # out of time
    shown = program("sweeps", "show", result.json["sweep"], "--json").json
    assert shown["blocks"] > 4
    assert shown["statuses"]["ok"] > 0
    assert shown["statuses"]["crashed"] >= 1


def test_an_engine_that_dies_of_a_candidate_loses_that_candidate(program: Program) -> None:
    result = program("sweep", "--device", "sim:h200+crash=idle/h2d/256x", "--json")
    assert result.code in (0, 5), result.stderr
    (lost,) = result.json["lost"]
    assert "crashed, in " in lost
    assert "idle/h2d/256x" in lost
    shown = program("sweeps", "show", result.json["sweep"], "--json").json
    assert shown["statuses"]["crashed"] >= 1
    assert shown["blocks"] == shown["planned_blocks"]


def test_what_was_lost_is_told_in_the_last_lines(program: Program) -> None:
    result = program("sweep", "--device", "sim:h200+crash=idle/h2d/256x", "--budget", "3s")
    (line,) = [line for line in result.stdout.splitlines() if line.startswith("lost:")]
    assert "crashed, in " in line


def test_two_sweeps_at_once_both_arrive(program: Program) -> None:
    together = [program.start("sweep", "--device", "sim:h200", "--seed", str(seed), "--json") for seed in (1, 2)]
    results = [program.finish(process) for process in together]
    assert [result.code for result in results] == [0, 0], [result.stderr for result in results]
    sweeps = program("sweeps", "list", "--json").json["sweeps"]
    assert {sweep["sweep"] for sweep in sweeps} == {result.json["sweep"] for result in results}
    assert all(sweep["blocks"] == sweep["planned_blocks"] for sweep in sweeps)


def test_a_running_sweep_is_not_resumed_by_another(program: Program) -> None:
    process = begin(program)
    refused = program("sweep", "--resume", str(only_sweep(program)["sweep"]), *RESUME_FAST)
    os.killpg(process.pid, signal.SIGTERM)
    program.finish(process)
    assert refused.code == 4
    assert "running" in refused.json["error"]["message"]


def test_a_resumed_sweep_keeps_its_request(program: Program) -> None:
    process = begin(program)
    process.send_signal(signal.SIGINT)
    program.finish(process)
    name = str(only_sweep(program)["sweep"])
    other = program("sweep", "--resume", name, "--preset", "thorough", *RESUME_FAST)
    assert other.code == 2
    assert "preset" in other.json["error"]["message"]
    same = program("sweep", "--resume", name, "--preset", "quick", *RESUME_FAST)
    assert same.json["blocks"] > 2


def test_a_finished_sweep_is_not_resumed(informed: Program) -> None:
    result = informed("sweep", "--resume", str(only_sweep(informed)["sweep"]))
    assert result.code in (2, 4)
    assert "finished" in result.errors[0]


def test_a_database_that_takes_no_more_leaves_a_sweep_to_resume(program: Program) -> None:
    limited = "import resource as r, runpy; r.setrlimit(r.RLIMIT_FSIZE, (400_000, r.RLIM_INFINITY)); "
    limited += "runpy.run_module('pega_tune', run_name='__main__')"
    command = [sys.executable, "-c", limited, "--db", str(program.database), "sweep", "--device", "sim:h200"]
    process = subprocess.run(command, env=program.environment, capture_output=True, text=True, check=False)
    assert process.returncode == 4, process.stderr
    name = str(only_sweep(program)["sweep"])
    assert f"sweep --resume {name}" in process.stderr.splitlines()[-1]
    assert program("sweep", "--resume", name, *RESUME_FAST).code == 0
