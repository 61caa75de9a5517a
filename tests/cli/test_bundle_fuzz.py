"""Some damaged bundles through `import`; `tests.helpers.bundle_fuzz` says how to run as many as one likes."""

import json
import subprocess
import sys
from collections import deque
from pathlib import Path

from tests.helpers.bundle_fuzz import corpus
from tests.helpers.bundle_mutants import ODD, mutants
from tests.helpers.cli import REPOSITORY

MUTANTS = 5000
THROUGH_CLI = 8


def test_damaged_bundles_are_refused_without_a_trace_in_little_memory() -> None:
    command = [sys.executable, "-m", "tests.helpers.bundle_fuzz", "--mutants", MUTANTS, "--through-cli", THROUGH_CLI]
    done = subprocess.run(list(map(str, command)), cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    outcome = json.loads(done.stdout)
    peaks = outcome.pop("peak_bytes"), outcome.pop("children_peak_bytes")
    assert sum(outcome.values()) == MUTANTS + THROUGH_CLI
    assert all(peak < 200_000_000 for peak in peaks)
    assert outcome["refused"] > outcome["added"] > 0


def test_mutants_leave_what_they_are_made_of_as_it_is(tmp_path: Path) -> None:
    before = repr(ODD)
    deque(mutants(corpus(tmp_path).texts, 8000, seed=0), maxlen=0)
    assert repr(ODD) == before
