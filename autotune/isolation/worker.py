"""The parent's side: start a child, talk to it with time-outs, and end it for certain."""

import atexit
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import connection, get_context, resource_tracker
from typing import cast

from pega_tune.autotune.engine import EngineFactory, Status
from pega_tune.autotune.isolation.child import serve
from pega_tune.autotune.isolation.environment import Environment
from pega_tune.autotune.isolation.messages import Ask, Reply, Request
from pega_tune.kernels.interpreter import signal_name

# A terminal and a service manager signal the whole process group. Only the parent knows how to end in good order.
_PARENTS_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

_REAP_S = 5.0  # a process that the kernel cannot end within this is stuck in a driver, and waiting longer is no use


@dataclass(frozen=True, slots=True)
class Loss:
    """How a child was lost.

    Attributes:
        status: `CRASHED` or `TIMED_OUT`.
        detail: signal, exit code or seconds, one line.
    """

    status: Status
    detail: str


class ChildLostError(Exception):
    """The child has died, or was killed because it did not answer in time."""

    def __init__(self, loss: Loss) -> None:
        super().__init__(loss.detail)
        self.loss = loss


class Worker:
    """One child process with an engine in it.

    The thread that makes it must live as long as it is to live: Linux ends the child with that thread.
    """

    def __init__(self, factory: EngineFactory, environment: Environment = ()) -> None:
        context = get_context("spawn")  # a forked child could not use CUDA if the parent ever had
        self._connection, theirs = context.Pipe()
        self._process = context.Process(
            target=serve, args=(theirs, factory, os.getpid(), environment), daemon=True, name="pega-tune-engine"
        )
        with _signals_blocked():
            self._process.start()
        theirs.close()
        self._pid = cast(int, self._process.pid)
        self._ended = False
        atexit.register(self.kill)

    @property
    def pid(self) -> int:
        """Process id of the child."""
        return self._pid

    @property
    def alive(self) -> bool:
        """Whether the child runs."""
        return not self._ended and self._process.is_alive()

    def send(self, request: Request) -> None:
        """Sends a request; that the child is dead is noticed when its answer is awaited."""
        with suppress(OSError):
            self._connection.send(request)

    def receive(self, timeout_s: float) -> Reply:
        """The next message of the child.

        Raises:
            ChildLostError: there is none, and the child has ended; it was killed if it did not answer in time.
        """
        ready = connection.wait([self._connection, self._process.sentinel], timeout_s)
        if not ready:
            self.kill()
            raise ChildLostError(Loss(Status.TIMED_OUT, f"no answer within {timeout_s:g} s"))
        try:
            return cast(Reply, self._connection.recv())
        except (EOFError, OSError):  # an OSError is a message cut short
            raise ChildLostError(Loss(Status.CRASHED, self._died())) from None

    def stop(self, timeout_s: float) -> None:
        """Asks the child to end, and kills it if it takes longer."""
        if self.alive:
            self.send(Ask.CLOSE)
            self._process.join(timeout_s)
        self.kill()

    def kill(self) -> None:
        """Ends the child at once and reaps it; nothing happens if it has ended."""
        if self._ended:
            return
        self._ended = True
        atexit.unregister(self.kill)
        self._connection.close()
        self._process.kill()
        self._process.join(_REAP_S)
        with suppress(ValueError):  # it is stuck in a driver, and dies when that lets it go
            self._process.close()

    def _died(self) -> str:
        self._process.join(_REAP_S)
        code = self._process.exitcode
        self.kill()
        if code is None:
            return "the engine process closed its pipe"
        return f"killed by {signal_name(-code)}" if code < 0 else f"the engine process ended with code {code}"


@contextmanager
def _signals_blocked() -> Iterator[None]:
    """A process started inside is never ended by the parent's signals, from its first instruction on."""
    # The tracker would unblock signals when it starts, so it has to run already.
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _PARENTS_SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
