"""The transfer worker on a real device, in processes of its own, because an illegal address costs the process."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pega_tune.kernels.facts import DeviceFacts

pytestmark = pytest.mark.gpu

ROOT = Path(__file__).parents[2]


def _run(*arguments: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "tests.helpers.gpu_worker", *arguments]
    child = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=280, check=False)
    assert child.returncode == 0, child.stderr
    found: dict[str, Any] = json.loads(child.stdout)
    return found


def test_a_thousand_mixed_jobs_of_which_every_tenth_is_cancelled(gpu: DeviceFacts) -> None:
    found = _run("mix", "1000")
    assert found["wrong"] == []
    assert sum(found["states"].values()) == 1000
    assert found["states"].get("failed", 0) == 0
    assert found["states"]["done"] >= 900
    assert found["empty"] > 0
    assert 0 < found["cancelled"] <= 100  # one whose commands are all submitted ends as done


def test_jobs_of_many_chunks_arrive_and_tell_what_they_cost_the_host(gpu: DeviceFacts) -> None:
    found = _run("chunks", "2")
    assert {name: (job["wrong"], job["failed"]) for name, job in found.items()} == dict.fromkeys(found, (0, 0))
    assert {name: job["chunks"] for name, job in found.items()} == {
        "kernel h2d": [256, 256],
        "kernel d2h": [256, 256],
        "dma h2d": [16, 16],
        "dma d2h": [16, 16],
    }
    assert all(host_s > 0 for job in found.values() for host_s in job["host_s"])


def test_a_copy_that_the_driver_refuses_fails_alone(gpu: DeviceFacts) -> None:
    found = _run("bad-copy")
    assert found["name"] == "CUDA_ERROR_INVALID_VALUE"
    assert found["after"]["wrong"] == []
    assert found["after"]["states"].get("failed", 0) == 0
