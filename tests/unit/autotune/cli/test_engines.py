"""Under which environment the engine of a command runs."""

from dataclasses import replace
from pathlib import Path

import pytest

from pega_tune.autotune.cli.engines import EngineOptions, started
from pega_tune.autotune.cuda.serving.mps import MpsError
from pega_tune.autotune.devices import DeviceChoice, find_device
from pega_tune.autotune.serving import Segment
from pega_tune.profiles.policy.terms import Colocation
from tests.helpers.serving_blocks import serving_block

MPS = serving_block(Colocation.MPS)


def _real() -> DeviceChoice:
    """What claims to be a GPU."""
    choice = find_device("sim:h200")
    return replace(choice, facts=replace(choice.facts, uuid="GPU-0"))


def test_a_simulated_device_simulates_mps_and_each_segment_is_seen() -> None:
    seen: list[Segment] = []
    with started(find_device("sim:h200"), EngineOptions(watch_segments=seen.append)) as engine:
        segments = list(engine.beside_decode(MPS))
    assert len(seen) == len(segments) > 0


def test_the_engine_ends_with_its_command() -> None:
    with started(find_device("sim:h200")) as engine:
        assert engine.pid is not None
    assert engine.pid is None


@pytest.mark.parametrize("start", [False, True])
def test_a_daemon_is_started_only_if_that_was_said(
    start: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))  # where there is no control program
    monkeypatch.setenv("CUDA_MPS_PIPE_DIRECTORY", str(tmp_path))
    with started(_real(), EngineOptions(start)) as engine:
        assert list(engine.beside_decode(serving_block(Colocation.TIME_SLICED)))
        with pytest.raises(MpsError, match="nvidia-cuda-mps-control" if start else "no MPS daemon is running"):
            list(engine.beside_decode(MPS))
