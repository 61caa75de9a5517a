"""Runs the real program in processes of its own."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

REPOSITORY = Path(__file__).resolve().parents[2]
LIMIT_S = 120


@dataclass(frozen=True, slots=True)
class Result:
    """How a run ended.

    Attributes:
        code: exit code; negative for a signal.
        stdout, stderr: what it printed.
    """

    code: int
    stdout: str
    stderr: str

    @property
    def json(self) -> Any:
        """The one JSON document on stdout; NaN and infinities are no JSON."""
        return json.loads(self.stdout, parse_constant=_refuse)

    @property
    def errors(self) -> list[str]:
        """Lines on stderr that tell an error."""
        return [line for line in self.stderr.splitlines() if line.startswith("error:")]


class Program:
    """`pega-tune` with a database and a home of its own, which sees no GPU."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.database = folder / "test.db"
        self.environment = {
            name: value for name, value in os.environ.items() if not name.startswith(("PEGA_TUNE", "CUDA", "NUMBA"))
        } | {
            "PYTHONPATH": str(REPOSITORY),
            "HOME": str(folder),
            "XDG_DATA_HOME": str(folder / "data"),
            "CUDA_VISIBLE_DEVICES": "",
        }

    def __call__(self, *arguments: object, **variables: str) -> Result:
        """Runs the program to its end, with these environment variables on top."""
        return self.finish(self._start(arguments, variables, subprocess.PIPE))

    def start(self, *arguments: object, stdout: IO[str] | int = subprocess.PIPE) -> subprocess.Popen[str]:
        """Starts the program in a session of its own, so that signals to it spare the tests."""
        return self._start(arguments, {}, stdout)

    def _start(
        self, arguments: tuple[object, ...], variables: dict[str, str], stdout: IO[str] | int
    ) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "pega_tune", "--db", str(self.database), *map(str, arguments)],
            cwd=self.folder,
            env=self.environment | variables,
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def finish(self, process: subprocess.Popen[str]) -> Result:
        """Waits for a started program; kills it and what it started if it hangs."""
        try:
            stdout, stderr = process.communicate(timeout=LIMIT_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            stdout, stderr = process.communicate()
            raise AssertionError(f"{process.args!r} hangs\n{stdout}\n{stderr}") from None
        return Result(process.returncode, stdout or "", stderr)


def interrupted(program: Program, *arguments: object) -> Result:
    """Runs the program until it has a child, its engine, and interrupts it then."""
    process = program.start(*arguments)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    wait_until(lambda: bool(children.read_text()), "a child")
    process.send_signal(signal.SIGINT)
    return program.finish(process)


def wait_until(happens: Callable[[], bool], what: str) -> None:
    """Waits for something that another process does.

    Raises:
        AssertionError: it does not happen in two minutes.
    """
    end_s = time.monotonic() + LIMIT_S
    while not happens():
        assert time.monotonic() < end_s, f"{what} never happened"
        time.sleep(0.02)


def _refuse(word: str) -> None:
    raise ValueError(f"{word} is not JSON")
