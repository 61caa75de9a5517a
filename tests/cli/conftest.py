"""A finished sweep that many tests look at."""

import shutil
from pathlib import Path

import pytest

from tests.helpers.cli import Program


@pytest.fixture(scope="session")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with one finished sweep of the simulated device; copy it before writing to it."""
    program = Program(tmp_path_factory.mktemp("swept"))
    result = program("sweep", "--device", "sim:h200", "--preset", "quick")
    assert result.code == 0, result.stderr
    program("db", "backup", program.folder / "copy.db")
    return program.folder / "copy.db"


@pytest.fixture
def informed(program: Program, swept: Path) -> Program:
    """The program with a copy of that database."""
    shutil.copy(swept, program.database)
    return program
