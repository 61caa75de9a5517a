"""Set-up shared by all tests."""

import gc
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests.helpers.cli import Program
from tests.helpers.postgresql import Server, start_server

# A slow machine is no reason for a test to fail.
settings.register_profile("pega-tune", deadline=None)
settings.load_profile("pega-tune")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--fleet-seconds", type=float, default=3, help="how long publishers and pullers share a PostgreSQL server"
    )


def pytest_collection_finish() -> None:
    # What is loaded by now stays, and is not looked through again and again: compiling kernels takes a third less, most
    # of the rest a tenth. Collected it is all the same, but more seldom.
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 20, 20)


@pytest.fixture(autouse=True, scope="session")
def _no_database_of_the_user() -> None:
    for variable in ("PEGA_TUNE_DB", "PEGA_TUNE_FLEET"):
        os.environ.pop(variable, None)


@pytest.fixture(autouse=True, scope="session")
def _signals_as_in_a_terminal() -> None:
    # Under nohup or in the background of a script they are ignored, and so they would be in the programs under test.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.fixture
def program(tmp_path: Path) -> Program:
    """The real program, with a database and a home of its own, on a machine without a GPU."""
    return Program(tmp_path)


@pytest.fixture(scope="session")
def postgresql() -> Iterator[Server]:
    """A PostgreSQL server, started for the first test that needs one."""
    with start_server() as server:
        yield server
