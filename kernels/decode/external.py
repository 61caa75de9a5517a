"""The decode workload of somebody else's program, which tells when its steps end.

The program gets the number of an open pipe in the environment variable `PEGA_TUNE_STEPS_FD`. At the end of every step
it writes one line to it, at once: the time of `CLOCK_MONOTONIC` in seconds, with as many decimals as it has, such as
`12345.678901234` (`time.monotonic()` in Python, `clock_gettime` in C). It steps until it is told to end, by SIGTERM.
"""

import os
import select
import shlex
import signal
import subprocess
import tempfile
import time
from typing import IO, ClassVar, Final

from pega_tune.errors import DeviceError, UsageError
from pega_tune.kernels.closing import Closing
from pega_tune.kernels.decode.probe import WARM_STEPS
from pega_tune.kernels.decode.ring import RingState, StepRing

STEPS_FD_VARIABLE: Final = "PEGA_TUNE_STEPS_FD"

_POLL_S: Final = 0.05  # how long a request to stop may go unseen while no step ends
_GRACE_S: Final = 2.0  # between SIGTERM and SIGKILL
_LAST_WORDS_BYTES: Final = 4096  # of its standard error, in which to look for why it failed
_CHUNK_BYTES: Final = 1 << 16
_LONGEST_LINE_BYTES: Final = 64  # far more than a time takes


class DecodeProgramError(DeviceError):
    """The external decode program failed, or wrote something else than times."""

    code: ClassVar[str] = "decode-program"


class ExternalProbe(Closing):
    """Runs a program in a process group of its own, and writes down the steps that it tells of."""

    def __init__(self, command: str) -> None:
        """Nothing happens before `start`.

        Args:
            command: the program and its arguments, split as a shell would; no shell runs.

        Raises:
            UsageError: there is no program in it, or a quote is not closed.
        """
        try:
            self._arguments = shlex.split(command)
        except ValueError as error:
            raise UsageError(f"the decode program {command!r} cannot be split: {error}") from error
        if not self._arguments:
            raise UsageError("the decode workload external: names no program", "give external:CMD")
        self._process: subprocess.Popen[bytes] | None = None
        self._pipe = -1
        self._said: IO[bytes] | None = None
        self._ring: StepRing | None = None
        self._times = _TimeLines()

    def start(self, ring: StepRing) -> None:
        """As `DecodeProbe.start`: the program is running afterwards.

        Raises:
            DecodeProgramError: it cannot be run.
        """
        self._ring = ring
        self._times = _TimeLines()
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `close`
        self._pipe, writing = os.pipe()
        try:
            self._process = subprocess.Popen(  # noqa: S603 - running what the user names is what it is for
                self._arguments,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self._said,
                pass_fds=(writing,),
                env={**os.environ, STEPS_FD_VARIABLE: str(writing)},
                start_new_session=True,
            )
        except OSError as error:
            self.close()
            reason = error.strerror or error
            raise DecodeProgramError(f"the decode program {self._arguments[0]} cannot be run: {reason}") from error
        finally:
            os.close(writing)

    def run(self, steps: int | None = None) -> None:
        """As `DecodeProbe.run`; steps that ended before are told of as well.

        Raises:
            DecodeProgramError: the program ended, closed the pipe, or wrote something else than times.
        """
        if self._ring is None or self._process is None:
            raise UsageError("the decode probe has not been started")
        self._ring.begin(WARM_STEPS)
        try:
            self._follow(self._ring, steps)
        except BaseException:
            self._ring.end(RingState.FAILED)
            raise
        self._ring.end(RingState.STOPPED)

    def close(self) -> None:
        """Ends the program, and all that it has started in its process group."""
        if self._process is not None:
            self._signal(signal.SIGTERM)
            self._exit(_GRACE_S)
            self._signal(signal.SIGKILL)
            self._process.wait()
            self._process = None
        if self._pipe >= 0:
            os.close(self._pipe)
            self._pipe = -1
        if self._said is not None:
            self._said.close()
            self._said = None

    def _follow(self, ring: StepRing, steps: int | None) -> None:
        last = None if steps is None else ring.count + steps
        while not ring.stopping and ring.count != last:
            if not select.select([self._pipe], [], [], _POLL_S)[0]:
                continue
            chunk = os.read(self._pipe, _CHUNK_BYTES)
            if not chunk:
                raise self._ended(ring.count)
            for end_ns in self._times.feed(chunk):
                if ring.count != last:
                    ring.append(end_ns)

    def _ended(self, steps: int) -> DecodeProgramError:
        """Why there is nothing more to read."""
        exit_status = self._exit(_GRACE_S) or "closed its pipe"
        return DecodeProgramError(f"the decode program {exit_status} after {steps} steps{self._last_words()}")

    def _exit(self, timeout_s: float) -> str:
        """How it exited; empty if it did not in time. It stays a zombie, which keeps the group's number."""
        assert self._process is not None
        deadline = time.monotonic() + timeout_s
        while True:
            found = os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG)
            if found is not None:
                what = "exit code" if found.si_code == os.CLD_EXITED else "signal"
                return f"ended with {what} {found.si_status}"
            if time.monotonic() > deadline:
                return ""
            time.sleep(0.01)

    def _signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        try:
            os.killpg(self._process.pid, number)
        except (ProcessLookupError, PermissionError):  # all have ended, or only a zombie is left
            return

    def _last_words(self) -> str:
        """The last line that it wrote to its standard error."""
        assert self._said is not None
        end = self._said.seek(0, os.SEEK_END)
        self._said.seek(max(end - _LAST_WORDS_BYTES, 0))
        lines = self._said.read().decode(errors="replace").split("\n")
        words = next((line.strip() for line in reversed(lines) if line.strip()), "")
        return f": {words}" if words else ""


class _TimeLines:
    """Makes times of the bytes that come through the pipe."""

    def __init__(self) -> None:
        self._rest = b""
        self._lines = 0
        self._last_ns = time.monotonic_ns()  # no step ends before the program begins

    def feed(self, chunk: bytes) -> list[int]:
        """The times, in nanoseconds, of the lines that are complete by now.

        Raises:
            DecodeProgramError: a line is no time, is before the last one, or is in the future.
        """
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        if len(self._rest) > _LONGEST_LINE_BYTES:
            lines.append(self._rest)
        return [self._time_ns(line) for line in lines]

    def _time_ns(self, line: bytes) -> int:
        self._lines += 1
        text = line[:_LONGEST_LINE_BYTES].decode(errors="replace").strip()
        try:
            end_ns = round(float(text) * 1e9)
        except (ValueError, OverflowError):
            raise self._wrong(text, "is no time in seconds") from None
        if not self._last_ns <= end_ns <= time.monotonic_ns():
            raise self._wrong(text, "is not between the time before it and now")
        self._last_ns = end_ns
        return end_ns

    def _wrong(self, text: str, why: str) -> DecodeProgramError:
        hint = f"at the end of every step, write the seconds of CLOCK_MONOTONIC and a newline to {STEPS_FD_VARIABLE}"
        return DecodeProgramError(f"line {self._lines} of the decode program, {text!r}, {why}", hint)
