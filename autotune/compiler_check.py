"""Whether the CUDA compiler works here, found out in a child process: it may crash, hang, or take a context."""

import multiprocessing
import signal
import time
from multiprocessing.connection import Connection
from typing import ClassVar

from pega_tune.errors import DeviceError, PegaTuneError
from pega_tune.kernels.plan import Variant

LIMIT_S = 180.0


class CompilerError(DeviceError):
    """The copy kernels cannot be compiled here."""

    code: ClassVar[str] = "compiler"


def check_compiler(compute_capability: tuple[int, int], limit_s: float = LIMIT_S) -> float:
    """Compiles and links one copy kernel in a spawned child; no GPU is needed.

    Returns:
        Seconds that it took, the start of the child included.

    Raises:
        CompilerError: it failed, or took longer than `limit_s`.
    """
    began_s = time.monotonic()
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    child = context.Process(target=_compile, args=(theirs, compute_capability), daemon=True)
    child.start()
    theirs.close()
    try:
        reason, hint = _answer(ours, limit_s)
    finally:
        child.kill()
        child.join()
        ours.close()
    if reason:
        raise CompilerError(reason, hint)
    return time.monotonic() - began_s


def _answer(connection: Connection, limit_s: float) -> tuple[str, str]:
    if not connection.poll(limit_s):
        return f"the compiler did not end within {limit_s:.0f} s", ""
    try:
        reason, hint = connection.recv()
    except EOFError:
        return "the compiler's process died", ""
    return reason, hint


def _compile(answer: Connection, compute_capability: tuple[int, int]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends us
    try:
        from pega_tune.kernels.compiling import compile_ptx, link_cubin

        link_cubin(compile_ptx(Variant.WARP, compute_capability), compute_capability)
    except PegaTuneError as error:
        answer.send((error.message, error.hint))
    except Exception as error:
        answer.send((" ".join(f"{type(error).__name__}: {error}".split()), ""))
    else:
        answer.send(("", ""))
