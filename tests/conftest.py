"""Set-up shared by all tests."""

import os
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


@pytest.fixture
def program(tmp_path: Path) -> Program:
    """The real program, with a database and a home of its own, on a machine without a GPU."""
    return Program(tmp_path)
