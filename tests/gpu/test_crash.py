"""A poisoned context; a memory checker reports it, so it is run without this file."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from pega_tune.kernels.facts import DeviceFacts

pytestmark = pytest.mark.gpu

ROOT = Path(__file__).parents[2]


def test_an_illegal_address_costs_the_context_and_nothing_else(gpu: DeviceFacts) -> None:
    command = [sys.executable, "-m", "tests.helpers.gpu_crash"]
    child = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=240, check=False)
    assert child.returncode == 0, child.stderr
    found = json.loads(child.stdout)
    assert found.get("name") == "CUDA_ERROR_ILLEGAL_ADDRESS", found
    assert found["sticky"] is True
    assert "the context is lost" in found["engine"]
    assert found["closed"] is True
