"""Decode in a process of its own, which takes turns with ours on the device, or shares it under MPS."""

import json
import mmap
import os
import subprocess
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from typing import Final

from pega_tune.autotune.cuda.serving.decode import (
    RING_STEPS,
    DecodeStartError,
    ProbeMaker,
    RunningDecode,
    Workload,
)
from pega_tune.autotune.cuda.serving.decode_child import maker_name, workload_text
from pega_tune.autotune.isolation.messages import Failure
from pega_tune.errors import PegaTuneError
from pega_tune.kernels.decode.ring import StepRing
from pega_tune.kernels.driver import DriverCallError
from pega_tune.kernels.interpreter import command_of, signal_name
from pega_tune.profiles.policy.settings import environment_with

_CHILD: Final = "pega_tune.autotune.cuda.serving.decode_child"
_STOP_TIMEOUT_S: Final = 5.0
_REAP_S: Final = 5.0  # a process that the kernel cannot end within this is stuck in a driver
_LAST_OUTPUT: Final = 1 << 14  # bytes that are looked at
_LONGEST_REASON: Final = 300  # characters


class ProcessDecode(RunningDecode):
    """A probe in a child process.

    The memory through which it tells its steps has no name, and it watches who started it: nothing of it is left,
    however this process ends.
    """

    def __init__(
        self, workload: Workload, make_probe: ProbeMaker, environment: Mapping[str, str | None] | None = None
    ) -> None:
        """Starts it, and returns when its first steps are done.

        Args:
            workload: what decodes.
            make_probe: makes the probe, in the child.
            environment: variables that differ from ours there; those without a value are not set.

        Raises:
            PegaTuneError: it does not start.
        """
        nbytes = StepRing.nbytes(RING_STEPS)
        with ExitStack() as stack:
            memory = _anonymous_file("steps", stack)
            os.ftruncate(memory, nbytes)
            super().__init__(StepRing.create(memoryview(mmap.mmap(memory, nbytes))))
            self._output = _anonymous_file("output", stack)
            arguments = str(os.getpid()), str(memory), maker_name(make_probe), workload_text(workload)
            self._child = subprocess.Popen(  # noqa: S603 - our own interpreter and code
                command_of(_CHILD, "live", *arguments),
                stdin=subprocess.PIPE,
                stdout=self._output,  # a file, which never fills up, and is read only if the child has died
                stderr=self._output,
                env=environment_with(environment or {}),
                pass_fds=(memory,),
                start_new_session=True,  # a terminal's Ctrl-C is for us alone
            )
            self.pid = self._child.pid
            stack.callback(self._end)
            self.wait_until_warm()
            self._resources = stack.pop_all()

    def failure(self) -> PegaTuneError | None:
        """As `RunningDecode.failure`."""
        code = self._child.poll()
        return None if code is None else self._reason(code)

    def close(self) -> None:
        """Ends the process, and waits for that; calling it again does nothing."""
        self._resources.close()

    def _end(self) -> None:
        assert self._child.stdin is not None
        with suppress(OSError):
            self._child.stdin.close()  # which tells it to stop
        if not self._ends_within(_STOP_TIMEOUT_S):
            self._child.kill()
            self._ends_within(_REAP_S)

    def _ends_within(self, timeout_s: float) -> bool:
        try:
            self._child.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return False
        return True

    def _reason(self, code: int) -> PegaTuneError:
        """Why the process has ended: what it said, or how it died."""
        last = _last_line(self._output)
        if code > 0:
            with suppress(ValueError, KeyError, TypeError):
                told = json.loads(last)
                classes = tuple((str(module), str(name)) for module, name in told["classes"])
                error = Failure(classes, told["message"], told["hint"]).error()
                if isinstance(error, DriverCallError):  # of which only the text has come across, and not of our context
                    return DecodeStartError(error.message, error.hint)
                if isinstance(error, PegaTuneError):
                    return error
        how = f"was killed by {signal_name(-code)}" if code < 0 else f"ended with code {code}"
        words = " ".join(last.split())[:_LONGEST_REASON]
        return DecodeStartError(f"the decode process {how}" + (f": {words}" if words else ""))


def _anonymous_file(name: str, stack: ExitStack) -> int:
    """A file descriptor of memory without a name in any file system; the stack closes it."""
    descriptor = os.memfd_create(f"pega-tune-{name}")
    stack.callback(os.close, descriptor)
    return descriptor


def _last_line(descriptor: int) -> str:
    size = os.fstat(descriptor).st_size
    said = os.pread(descriptor, _LAST_OUTPUT, max(0, size - _LAST_OUTPUT))
    return said.decode(errors="replace").strip().rpartition("\n")[2]
