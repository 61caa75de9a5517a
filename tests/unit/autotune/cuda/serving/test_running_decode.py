"""Decode on a thread and in a process: it starts, is watched, is stopped, and leaves nothing behind."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest

from pega_tune.autotune.cuda.serving.decode import DecodeLostError, DecodeStartError, RunningDecode, Workload
from pega_tune.autotune.cuda.serving.decode_process import ProcessDecode
from pega_tune.autotune.cuda.serving.same_context import SameContextDecode
from pega_tune.autotune.serving import DecodeSpec
from pega_tune.errors import DeviceError, PegaTuneError, UsageError
from tests.helpers.fake_probes import TICK_S, WARM_STEPS, make_fake_probe
from tests.helpers.processes import eventually, runs

ROOT = Path(__file__).parents[5]

Start = Callable[[str], RunningDecode]


@pytest.fixture(params=[SameContextDecode, ProcessDecode])
def start(request: pytest.FixtureRequest) -> Iterator[Start]:
    """Starts decode on a thread, or in a process."""
    with ExitStack() as stack:

        def make(source: str) -> RunningDecode:
            decode: RunningDecode = request.param(Workload(DecodeSpec(source), 2), make_fake_probe)
            return stack.enter_context(decode)

        yield make


def test_its_first_steps_are_done_when_it_has_started(start: Start) -> None:
    decode = start("ticking")
    assert decode.ring.count >= WARM_STEPS
    assert decode.failure() is None
    decode.check()


def test_steps_are_told_from_the_begin_of_an_interval_to_the_first_one_behind_it(start: Start) -> None:
    decode = start("ticking")
    begin_s = time.monotonic()
    end_s = begin_s + 20 * TICK_S
    ends = decode.ends_through(begin_s, end_s)
    assert ends[0] >= begin_s
    assert ends[-1] > end_s
    assert (np.diff(ends) > 0).all()


def test_what_the_probe_refuses_is_raised_with_its_class_and_hint(start: Start) -> None:
    with pytest.raises(UsageError, match="no such workload") as caught:
        start("refused")
    assert caught.value.hint == "take another one"
    with pytest.raises(DeviceError, match="no room on device 2"):
        start("too-large")


def test_a_driver_that_fails_is_quoted(start: Start) -> None:
    with pytest.raises(DeviceError, match=r"^cuDevicePrimaryCtxRetain failed with 46$"):
        start("unlucky")


def test_a_failure_of_another_process_does_not_pass_for_one_of_our_context() -> None:
    with pytest.raises(DecodeStartError, match="cuDevicePrimaryCtxRetain"):
        ProcessDecode(Workload(DecodeSpec("unlucky"), 0), make_fake_probe)


def test_a_bug_in_a_probe_is_one_line(start: Start) -> None:
    with pytest.raises(PegaTuneError, match=r"^a bug in the decode probe: ZeroDivisionError: a bug of ours$"):
        start("buggy")


def test_a_probe_that_ends_before_it_steps_has_not_started(start: Start) -> None:
    with pytest.raises(DecodeStartError, match="ended"):
        start("idle")


def test_decode_that_fails_later_is_lost_with_its_reason(start: Start) -> None:
    decode = start("short-lived")
    assert eventually(lambda: decode.failure() is not None)
    with pytest.raises(DecodeLostError, match=r"^decode has ended: an illegal address$") as caught:
        decode.check()
    assert caught.value.hint == "start again"


def test_steps_that_are_waited_for_in_vain_mean_that_decode_is_lost(start: Start) -> None:
    decode = start("short-lived")
    with pytest.raises(DecodeLostError, match="an illegal address"):
        decode.ends_through(time.monotonic(), time.monotonic() + 1.0)


def test_closing_ends_it_and_can_be_repeated(start: Start) -> None:
    decode = start("ticking")
    decode.close()
    count = decode.ring.count
    decode.close()
    time.sleep(5 * TICK_S)
    assert decode.ring.count == count


def test_an_external_program_does_not_decode_in_our_context() -> None:
    with pytest.raises(UsageError, match="external"):
        SameContextDecode(Workload(DecodeSpec("external:true"), 0), make_fake_probe)


def test_a_process_that_is_killed_says_by_what_and_what_it_said_last() -> None:
    with pytest.raises(DecodeStartError, match=r"^the decode process was killed by SIGKILL: a driver complains$"):
        ProcessDecode(Workload(DecodeSpec("crashing"), 0), make_fake_probe)


def test_a_process_that_dies_later_is_noticed() -> None:
    with ProcessDecode(Workload(DecodeSpec("mortal"), 0), make_fake_probe) as decode:
        assert eventually(lambda: decode.failure() is not None)
        with pytest.raises(DecodeLostError, match="the decode process ended with code 7"):
            decode.check()


def test_a_process_that_is_killed_from_outside_is_noticed() -> None:
    with ProcessDecode(Workload(DecodeSpec("ticking"), 0), make_fake_probe) as decode:
        os.kill(decode.pid, signal.SIGKILL)
        with pytest.raises(DecodeLostError, match="killed by SIGKILL"):
            decode.ends_through(time.monotonic(), time.monotonic() + 1.0)


def test_a_process_has_the_environment_that_it_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    workload = Workload(DecodeSpec("environment"), 0)
    monkeypatch.setenv("PEGA_TUNE_TEST", "ours")
    with pytest.raises(DeviceError, match=r"^ours$"):
        ProcessDecode(workload, make_fake_probe)
    with pytest.raises(DeviceError, match=r"^theirs$"):
        ProcessDecode(workload, make_fake_probe, {"PEGA_TUNE_TEST": "theirs"})
    with pytest.raises(DeviceError, match=r"^not set$"):
        ProcessDecode(workload, make_fake_probe, {"PEGA_TUNE_TEST": None})


def test_no_process_and_no_descriptor_is_left() -> None:
    before = len(os.listdir("/proc/self/fd"))
    decode = ProcessDecode(Workload(DecodeSpec("ticking"), 0), make_fake_probe)
    assert runs(decode.pid)
    decode.close()
    assert not runs(decode.pid)
    with pytest.raises(UsageError):
        ProcessDecode(Workload(DecodeSpec("refused"), 0), make_fake_probe)
    assert len(os.listdir("/proc/self/fd")) <= before + 1  # the mapped memory goes when nobody looks at it any more


SCRIPT = """
import sys, time
from pega_tune.autotune.cuda.serving.decode import Workload
from pega_tune.autotune.cuda.serving.decode_process import ProcessDecode
from pega_tune.autotune.serving import DecodeSpec
from tests.helpers.fake_probes import make_fake_probe
decode = ProcessDecode(Workload(DecodeSpec(sys.argv[1]), 0), make_fake_probe)
print(decode.pid, flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize("source", ["ticking", "deaf"])
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_process_never_outlives_who_started_it(source: str, number: signal.Signals) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, source],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    assert runs(child)
    parent.send_signal(number)
    parent.communicate()
    assert eventually(lambda: not runs(child))


def test_a_process_that_does_not_stop_is_killed() -> None:
    decode = ProcessDecode(Workload(DecodeSpec("deaf"), 0), make_fake_probe)
    decode.close()
    assert not runs(decode.pid)
