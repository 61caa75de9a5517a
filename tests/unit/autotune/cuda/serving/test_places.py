"""Where decode runs, and who may be measured there."""

import sys
import time
from pathlib import Path

import pytest

from pega_tune.autotune.cuda.serving.decode import Workload
from pega_tune.autotune.cuda.serving.places import ColocationError, probe_of, require_place, start_decode
from pega_tune.autotune.serving import DecodeSpec, MpsShare
from pega_tune.errors import PegaTuneError, UsageError
from pega_tune.profiles.policy.terms import Colocation

NO_SHARE = MpsShare()
WITHOUT = (Colocation.SAME_CONTEXT, Colocation.TIME_SLICED)

PROGRAM = """
import os, time
steps = open(int(os.environ["PEGA_TUNE_STEPS_FD"]), "w")
if os.environ.get("CUDA_MPS_CLIENT_PRIORITY"):
    raise SystemExit("what the transfer side is granted")
while True:
    time.sleep(0.001)
    print(f"{time.monotonic():.9f}", file=steps, flush=True)
"""


@pytest.fixture(autouse=True)
def _no_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CUDA_MPS_PIPE_DIRECTORY", "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "CUDA_MPS_CLIENT_PRIORITY"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def program(tmp_path: Path) -> str:
    """A program that ticks."""
    path = tmp_path / "ticking.py"
    path.write_text(PROGRAM)
    return f"external:{sys.executable} {path}"


@pytest.mark.parametrize("colocation", WITHOUT)
def test_without_mps_everything_else_may_be_measured(colocation: Colocation) -> None:
    require_place(colocation, NO_SHARE, under_mps=False)
    with pytest.raises(ColocationError, match=f"client of MPS, where nothing is {colocation}"):
        require_place(colocation, NO_SHARE, under_mps=True)


def test_mps_is_measured_under_mps_alone() -> None:
    require_place(Colocation.MPS, NO_SHARE, under_mps=True)
    with pytest.raises(ColocationError, match="no client of MPS"):
        require_place(Colocation.MPS, NO_SHARE, under_mps=False)


def test_a_client_with_another_share_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    share = MpsShare(active_thread_percentage=20, client_priority=1)
    with pytest.raises(ColocationError, match="CUDA_MPS_ACTIVE_THREAD_PERCENTAGE is not set in this process, not 20"):
        require_place(Colocation.MPS, share, under_mps=True)
    monkeypatch.setenv("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "20")
    with pytest.raises(ColocationError, match="CUDA_MPS_CLIENT_PRIORITY is not set"):
        require_place(Colocation.MPS, share, under_mps=True)
    monkeypatch.setenv("CUDA_MPS_CLIENT_PRIORITY", "1")
    require_place(Colocation.MPS, share, under_mps=True)
    with pytest.raises(ColocationError, match="CUDA_MPS_ACTIVE_THREAD_PERCENTAGE is 20 in this process, not unset"):
        require_place(Colocation.MPS, NO_SHARE, under_mps=True)


def test_an_unknown_workload_is_refused() -> None:
    with pytest.raises(UsageError, match="nonsense"):
        probe_of(DecodeSpec("nonsense"), 0)
    with pytest.raises(UsageError, match="no-such-model"):
        probe_of(DecodeSpec(model="no-such-model"), 0)


@pytest.mark.parametrize("colocation", [Colocation.SAME_CONTEXT, Colocation.TIME_SLICED])
def test_what_a_probe_refuses_is_said_wherever_it_was_to_run(colocation: Colocation) -> None:
    with pytest.raises(UsageError, match="no-such-model"):
        start_decode(Workload(DecodeSpec(model="no-such-model"), 0), colocation)


@pytest.mark.parametrize("colocation", [Colocation.TIME_SLICED, Colocation.MPS])
def test_an_external_program_decodes_in_a_process_of_its_own(colocation: Colocation, program: str) -> None:
    with start_decode(Workload(DecodeSpec(program), 0), colocation) as decode:
        begin_s = time.monotonic()
        ends = decode.ends_through(begin_s, begin_s + 0.05)
        assert len(ends) > 2
        assert ends[0] >= begin_s


def test_decode_is_not_granted_what_the_transfers_are(program: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_MPS_CLIENT_PRIORITY", "1")
    with start_decode(Workload(DecodeSpec(program), 0), Colocation.MPS) as decode:
        decode.check()
    with pytest.raises(PegaTuneError, match="what the transfer side is granted"):
        start_decode(Workload(DecodeSpec(program), 0), Colocation.TIME_SLICED)
