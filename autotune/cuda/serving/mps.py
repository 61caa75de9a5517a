"""The MPS control daemon: found where one runs, started where that is asked for, and stopped again for certain."""

import json
import os
import select
import shutil
import subprocess
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final, Self

from pega_tune.errors import DeviceError
from pega_tune.kernels.closing import Closing
from pega_tune.kernels.interpreter import command_of
from pega_tune.profiles.policy.settings import MPS_PIPE_VARIABLE, environment_with, mps_pipe_directory

CONTROL: Final = "nvidia-cuda-mps-control"
"""The program that is the daemon, and that talks to it; it comes with the driver."""

START_TIMEOUT_S: Final = 30.0
ANSWER_TIMEOUT_S: Final = 10.0
PATIENCE_S: Final = 8.0
"""For a daemon to quit; a driver takes a second or two to take a device back."""

_LONGEST_ANSWER: Final = 1 << 16  # bytes


class MpsError(DeviceError):
    """There is no MPS daemon, or it does not do what it should."""

    code: ClassVar[str] = "mps"


@dataclass(frozen=True, slots=True)
class MpsControl:
    """Talks to the daemon of a pipe directory.

    Attributes:
        pipe_directory: where the daemon, its servers and their clients meet.
    """

    pipe_directory: Path

    def is_running(self) -> bool:
        """Whether a daemon answers there."""
        return self._ask("get_server_list") is not None

    def server_pids(self) -> tuple[int, ...]:
        """Process ids of its servers, each of which holds a context on the device; none before the first client."""
        answer = self._ask("get_server_list") or ""
        return tuple(int(word) for word in answer.split() if word.isdecimal())

    def _ask(self, command: str) -> str | None:
        """What the daemon says; None if there is none."""
        program = shutil.which(CONTROL)
        if program is None or not self.pipe_directory.is_dir():
            return None
        try:
            done = subprocess.run(  # noqa: S603 - the driver's own program
                [program],
                input=command + "\n",
                env=environment_with({MPS_PIPE_VARIABLE: str(self.pipe_directory)}),
                capture_output=True,
                text=True,
                timeout=ANSWER_TIMEOUT_S,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired):
            return None
        return done.stdout if done.returncode == 0 else None


class MpsDaemon(Closing):
    """A daemon of our own, in temporary directories of its own, under the eye of a guard.

    The guard is a process that outlives this one just long enough to stop the daemon and to remove its directories,
    however this one ends.

    Attributes:
        control: talks to it.
    """

    def __init__(self, guard: "subprocess.Popen[bytes]", pipe_directory: Path, patience_s: float) -> None:
        self._guard = guard
        self._patience_s = patience_s
        self.control: Final = MpsControl(pipe_directory)

    @classmethod
    def start(cls, patience_s: float = PATIENCE_S) -> Self:
        """Starts a daemon.

        Args:
            patience_s: seconds that it has to quit before it is killed.

        Raises:
            MpsError: it does not start.
        """
        program = shutil.which(CONTROL)
        if program is None:
            raise MpsError(f"{CONTROL} is not on the PATH", "it comes with the NVIDIA driver; containers often lack it")
        guard = subprocess.Popen(  # noqa: S603 - our own interpreter and code
            command_of("pega_tune.autotune.cuda.serving.mps_guard", "guard", program, str(patience_s)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # a terminal's Ctrl-C is for those who use the daemon
        )
        try:
            return cls(guard, Path(_pipe_directory(guard)), patience_s)
        except BaseException:
            _end(guard, patience_s)
            raise

    def close(self) -> None:
        """Stops the daemon, whose clients should have ended, and waits for that."""
        _end(self._guard, self._patience_s)


def _pipe_directory(guard: "subprocess.Popen[bytes]") -> str:
    """Where the daemon is, as its guard says.

    Raises:
        MpsError: it says that there is none, or nothing.
    """
    assert guard.stdout is not None
    ready, _, _ = select.select([guard.stdout], [], [], START_TIMEOUT_S)
    if not ready:
        raise MpsError(f"the MPS daemon did not start within {START_TIMEOUT_S:g} s")
    try:
        said = json.loads(os.read(guard.stdout.fileno(), _LONGEST_ANSWER))
        if "pipes" in said:
            return str(said["pipes"])
        reason = str(said["reason"])
    except (ValueError, KeyError, TypeError):
        reason = "its guard ended"
    raise MpsError(f"the MPS daemon does not start: {reason}", "a daemon that runs already is used without being asked")


def _end(guard: "subprocess.Popen[bytes]", patience_s: float) -> None:
    """Lets the guard do its duty; it is killed only when it is stuck."""
    assert guard.stdin is not None
    assert guard.stdout is not None
    with suppress(OSError):
        guard.stdin.close()
    with suppress(subprocess.TimeoutExpired):
        guard.wait(3 * patience_s)  # to start, to be told, and to do it
    if guard.poll() is None:
        guard.kill()
        guard.wait()
    guard.stdout.close()


def running_daemon() -> MpsControl | None:
    """The daemon that CUDA programs started from here become clients of; None if there is none."""
    control = MpsControl(mps_pipe_directory())
    return control if control.is_running() else None
