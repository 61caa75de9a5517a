"""A poisoned context; a memory checker reports it, so it is run without this file."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pega_tune.kernels.facts import DeviceFacts

pytestmark = pytest.mark.gpu

ROOT = Path(__file__).parents[2]
ILLEGAL_ADDRESS = "CUDA_ERROR_ILLEGAL_ADDRESS"


def test_an_illegal_address_costs_the_context_and_nothing_else(gpu: DeviceFacts) -> None:
    command = [sys.executable, "-m", "tests.helpers.gpu_crash"]
    child = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=240, check=False)
    assert child.returncode == 0, child.stderr
    found = json.loads(child.stdout)
    assert found.get("name") == "CUDA_ERROR_ILLEGAL_ADDRESS", found
    assert found["sticky"] is True
    assert "the context is lost" in found["engine"]
    assert found["closed"] is True


def test_a_job_with_an_illegal_address_fails_with_its_name_and_the_next_process_works(gpu: DeviceFacts) -> None:
    found = _worker("bad-kernel")
    assert (found["name"], found["sticky"], found["later"]) == (ILLEGAL_ADDRESS, True, ILLEGAL_ADDRESS)
    assert found["states"] == ["failed", "failed"]
    assert _worker("mix", "20")["wrong"] == []


def _worker(*arguments: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "tests.helpers.gpu_worker", *arguments]
    child = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=240, check=False)
    assert child.stdout, child.stderr  # what is closed in a lost context may complain
    found: dict[str, Any] = json.loads(child.stdout)
    return found
