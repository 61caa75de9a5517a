"""The child's side: build the engine, answer requests, and never outlive the parent."""

import ctypes
import os
import signal
import sys
from multiprocessing.connection import Connection

from pega_tune.autotune.engine import Capabilities, Conditions, Engine, EngineFactory, TransferBlock
from pega_tune.autotune.isolation.messages import Ask, Done, Failure

_PR_SET_PDEATHSIG = 1  # <linux/prctl.h>
_STDOUT, _STDERR = 1, 2


def serve(connection: "Connection[object, object]", factory: EngineFactory, parent_pid: int) -> None:
    """Runs an engine until the parent asks to close, or is gone.

    Args:
        connection: the child's end of the pipe.
        factory: builds the engine.
        parent_pid: of the process that is to outlive this one.
    """
    _die_with(parent_pid)
    os.dup2(_STDERR, _STDOUT)  # stdout carries the parent's answer alone
    try:
        engine = factory()
        connection.send(engine.facts)
    except Exception as error:
        connection.send(Failure.of(error))
        return
    try:
        _answer(connection, engine)
    except (EOFError, BrokenPipeError, ConnectionResetError):
        pass  # the parent is gone
    finally:
        engine.close()


def _answer(connection: "Connection[object, object]", engine: Engine) -> None:
    while (request := connection.recv()) is not Ask.CLOSE:
        try:
            if isinstance(request, TransferBlock):
                for measurement in engine.transfer(request):
                    connection.send(measurement)
                connection.send(Done.BLOCK)
            else:
                connection.send(_asked(engine, request))
        except (BrokenPipeError, ConnectionResetError):
            raise
        except Exception as error:
            connection.send(Failure.of(error))


def _asked(engine: Engine, request: object) -> Capabilities | Conditions:
    if request is Ask.CAPABILITIES:
        return engine.capabilities()
    if request is Ask.CONDITIONS:
        return engine.conditions()
    raise TypeError(f"not a request: {request!r}")


def _die_with(parent_pid: int) -> None:
    """A busy child does not read its pipe, so the kernel is asked to end it when the parent ends, however it ends."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
        if os.getppid() != parent_pid:
            os._exit(1)  # the parent ended before it was watched
