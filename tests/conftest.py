"""Set-up shared by all tests."""

import os
import signal
from pathlib import Path

import pytest
from hypothesis import settings

from tests.helpers.cli import Program

# A slow machine is no reason for a test to fail.
settings.register_profile("pega-tune", deadline=None)
settings.load_profile("pega-tune")


@pytest.fixture(autouse=True, scope="session")
def _no_database_of_the_user() -> None:
    os.environ.pop("PEGA_TUNE_DB", None)


@pytest.fixture(autouse=True, scope="session")
def _signals_as_in_a_terminal() -> None:
    # Under nohup or in the background of a script they are ignored, and so they would be in the programs under test.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.fixture
def program(tmp_path: Path) -> Program:
    """The real program, with a database and a home of its own, on a machine without a GPU."""
    return Program(tmp_path)
