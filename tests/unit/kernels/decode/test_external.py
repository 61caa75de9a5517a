import os
import shlex
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pega_tune.errors import UsageError
from pega_tune.kernels.decode.external import DecodeProgramError, ExternalProbe
from pega_tune.kernels.decode.ring import RingState, StepRing

WRITER = """
import os, sys, time
pipe = os.fdopen(int(os.environ["PEGA_TUNE_STEPS_FD"]), "w", buffering=1)
def step():
    print(f"{time.monotonic():.9f}", file=pipe)
"""


def command(body: str) -> str:
    return shlex.join([sys.executable, "-c", WRITER + body])


@pytest.fixture
def ring() -> StepRing:
    return StepRing.private(4096)


@pytest.fixture
def probes() -> Iterator[list[ExternalProbe]]:
    started: list[ExternalProbe] = []
    yield started
    for probe in started:
        probe.close()


def start(body: str, ring: StepRing, probes: list[ExternalProbe]) -> ExternalProbe:
    probe = ExternalProbe(command(body))
    probes.append(probe)
    probe.start(ring)
    return probe


def test_the_steps_of_a_program_come_in_order(ring, probes):
    begin_s = time.monotonic()
    probe = start("for _ in range(40): step()\ntime.sleep(60)", ring, probes)
    probe.run(steps=40)
    ends = ring.ends_between(begin_s, time.monotonic())
    assert (len(ends), ring.count, ring.state) == (40, 40, RingState.STOPPED)
    assert sorted(ends) == ends.tolist()


def test_times_arrive_in_pieces_of_any_size(ring, probes):
    body = """
now = time.monotonic()
for byte in f"{now:.9f}\\n {now:.12f}\\n{now:.9f} \\n".encode():
    os.write(pipe.fileno(), bytes([byte]))
time.sleep(60)
"""
    start(body, ring, probes).run(steps=3)
    assert ring.count == 3


def test_it_stops_when_told_though_no_step_ends(ring, probes):
    probe = start("step()\ntime.sleep(60)", ring, probes)
    thread = threading.Thread(target=probe.run)
    thread.start()
    while not ring.count:
        time.sleep(0.001)
    ring.stop()
    thread.join()
    assert ring.state is RingState.STOPPED


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("step(); sys.exit(3)", "ended with exit code 3 after 1 steps$"),
        ("step(); raise RuntimeError('no weights')", "ended with exit code 1 after 1 steps: RuntimeError: no weights$"),
        ("os.kill(os.getpid(), 9)", "ended with signal 9 after 0 steps"),
        ("print('hello', file=pipe); time.sleep(60)", "line 1 of the decode program, 'hello', is no time"),
        ("step(); print(time.time(), file=pipe); time.sleep(60)", "line 2 .* is not between"),
        ("print('nan', file=pipe); time.sleep(60)", "line 1 .*'nan', is no"),
        ("print(0.5, file=pipe); time.sleep(60)", "line 1 .*'0.5', is not between"),
        ("pipe.write('1' * 10_000); pipe.flush(); time.sleep(60)", "line 1 "),
    ],
)
def test_a_program_that_fails_is_one_line(body, message, ring, probes):
    probe = start(body, ring, probes)
    with pytest.raises(DecodeProgramError, match=message) as caught:
        probe.run()
    assert "\n" not in caught.value.message
    assert len(caught.value.message) < 200
    assert ring.state is RingState.FAILED


def test_a_program_that_is_not_there_is_one_line(ring):
    probe = ExternalProbe("/nowhere/at-all --fast")
    with pytest.raises(DecodeProgramError, match="/nowhere/at-all cannot be run: No such file"):
        probe.start(ring)
    probe.close()


@pytest.mark.parametrize(("text", "message"), [("", "names no program"), ("  ", "names no"), ("a 'b", "quotation")])
def test_what_is_no_command_is_refused(text, message):
    with pytest.raises(UsageError, match=message):
        ExternalProbe(text)


def test_no_shell_sees_the_command(ring, tmp_path):
    probe = ExternalProbe(command("assert sys.argv[1:] == ['a;b', '$HOME']; step(); time.sleep(60)") + " 'a;b' '$HOME'")
    with probe:
        probe.start(ring)
        probe.run(steps=1)
    assert ring.count == 1


def test_closing_ends_the_whole_process_group(ring, probes, tmp_path):
    said = tmp_path / "child"
    body = f"""
import signal, subprocess
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
open({str(said)!r}, "w").write(f"{{os.getpid()}} {{child.pid}}")
step()
time.sleep(600)
"""
    probe = start(body, ring, probes)
    probe.run(steps=1)
    pids = [int(word) for word in said.read_text().split()]
    assert all(is_running(pid) for pid in pids)
    probe.close()
    while any(is_running(pid) for pid in pids):
        time.sleep(0.01)
    probe.close()


def is_running(pid: int) -> bool:
    """Whether a process is more than a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_no_descriptor_is_left_open(ring):
    before = set(os.listdir("/proc/self/fd"))
    with ExternalProbe(command("step(); time.sleep(60)")) as probe:
        probe.start(ring)
        probe.run(steps=1)
    assert set(os.listdir("/proc/self/fd")) == before
