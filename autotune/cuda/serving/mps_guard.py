"""The process that starts an MPS daemon, and stops it when whoever asked for it is done, or gone."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final, NoReturn

from pega_tune.profiles.policy.settings import (
    MPS_LOG_VARIABLE,
    MPS_PIPE_VARIABLE,
    MPS_PRIORITY_VARIABLE,
    MPS_THREADS_VARIABLE,
    VISIBLE_DEVICES_VARIABLE,
    environment_with,
)

PID_FILE: Final = "nvidia-cuda-mps-control.pid"
"""What the daemon writes its process id into, in its pipe directory."""

_SIGNALS: Final = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
_LOOK_S: Final = 0.02
_LONGEST_REASON: Final = 300  # characters


def guard(program: str, patience_s: str) -> None:
    """Starts a daemon, says on stdout where it is or why there is none, waits for the end of stdin, and stops it.

    Args:
        program: path of `nvidia-cuda-mps-control`.
        patience_s: seconds that the daemon has to do as it is told.
    """
    for number in _SIGNALS:
        signal.signal(number, _leave)
    home = Path(tempfile.mkdtemp(prefix="pega-mps-"))  # sockets lie in it, whose paths must be short
    try:
        _Daemon(program, home, float(patience_s)).serve()
    finally:
        shutil.rmtree(home, ignore_errors=True)


class _Daemon:
    """A daemon in a directory of its own."""

    def __init__(self, program: str, home: Path, patience_s: float) -> None:
        self._program = program
        self._patience_s = patience_s
        self._pipes, self._logs = home / "pipe", home / "log"
        self._environment = environment_with(
            {
                MPS_PIPE_VARIABLE: str(self._pipes),
                MPS_LOG_VARIABLE: str(self._logs),
                # A daemon that sees some devices numbers these anew, and a client that is to see device 1 would look
                # for it among them. What is for whom is said to the clients alone.
                VISIBLE_DEVICES_VARIABLE: None,
                MPS_THREADS_VARIABLE: None,
                MPS_PRIORITY_VARIABLE: None,
            }
        )

    def serve(self) -> None:
        """From start to stop."""
        self._pipes.mkdir()
        self._logs.mkdir()
        try:
            failure = self._run("start", "-d")
            _say({"reason": failure} if failure else {"pipes": str(self._pipes)})
            if not failure:
                sys.stdin.buffer.read()
        finally:
            self._stop()

    def _stop(self) -> None:
        """Tells the daemon to quit, and kills it if it does not."""
        for number in _SIGNALS:
            signal.signal(number, signal.SIG_IGN)
        pid = self._pid()
        self._run("stop", said="quit\n")
        if pid is not None and not self._ends(pid):
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)

    def _pid(self) -> int | None:
        try:
            return int((self._pipes / PID_FILE).read_text())
        except (OSError, ValueError):  # it has not started
            return None

    def _run(self, log: str, *options: str, said: str = "") -> str:
        """Runs the control program; why it failed, empty if it did not.

        It writes to a file, because a daemon that it leaves behind may keep what it was given open for ever.
        """
        path = self._logs / log
        with path.open("wb") as output:
            try:
                done = subprocess.run(  # noqa: S603 - the driver's own program
                    [self._program, *options],
                    input=said.encode(),
                    env=self._environment,
                    stdout=output,
                    stderr=output,
                    timeout=self._patience_s,
                    check=False,
                )
            except (OSError, subprocess.TimeoutExpired) as error:
                return str(error)
        if done.returncode == 0:
            return ""
        words = " ".join(path.read_text(errors="replace").split())[:_LONGEST_REASON]
        return words or f"{self._program} ended with code {done.returncode}"

    def _ends(self, pid: int) -> bool:
        """Whether a process ends in time."""
        deadline = time.monotonic() + self._patience_s
        while _is_alive(pid):
            if time.monotonic() > deadline:
                return False
            time.sleep(_LOOK_S)
        return True


def _is_alive(pid: int) -> bool:
    """Whether a process runs; one that has ended may stay a zombie where nobody reaps it."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return False
    return state != "Z"


def _say(message: Mapping[str, str]) -> None:
    with suppress(BrokenPipeError):
        sys.stdout.write(json.dumps(message) + "\n")
        sys.stdout.flush()


def _leave(_number: int, _frame: object) -> NoReturn:
    raise SystemExit(0)
