"""Whether batched copies work here, tried in a child process: drivers are known to crash and to hang in them."""

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, TypeAlias

from pega_tune.errors import PegaTuneError
from pega_tune.kernels.batch_call import BatchSignature
from pega_tune.kernels.interpreter import command_of, die_with, signal_name

TIMEOUT_S: Final = 60.0
"""A driver may take ten seconds to start on a host with many devices; the copies themselves take milliseconds."""

_REAP_S = 5.0  # a process that the kernel cannot end within this is stuck in a driver, and waiting longer is no use
_LONGEST_REASON = 200  # characters

Attempt: TypeAlias = Callable[[int], BatchSignature]
"""Copies in batches on the device of an ordinal, and returns the signature that worked, or raises. It is imported by
its name in the child, so it is a function of a module."""


@dataclass(frozen=True, slots=True)
class BatchSupport:
    """What the probe found.

    Attributes:
        supported: whether batched copies work in this process's environment.
        signature: which prototype to call; None if they do not.
        reason: why they do not, one line; empty if they do.
    """

    supported: bool
    signature: BatchSignature | None = None
    reason: str = ""

    @classmethod
    def no(cls, reason: str) -> "BatchSupport":
        """They do not work."""
        return cls(False, None, " ".join(reason.split())[:_LONGEST_REASON])


def probe_batch(ordinal: int, attempt: Attempt | None = None, timeout_s: float = TIMEOUT_S) -> BatchSupport:
    """Tries batched copies in a child process, which is killed when it takes too long.

    Args:
        ordinal: index of the device in CUDA's order.
        attempt: what the child does; None copies 1, 5 and 5,000 ranges both ways and looks at every byte.
        timeout_s: seconds from the start of the child to its answer.
    """
    name = (
        f"{attempt.__module__}:{attempt.__qualname__}" if attempt else "pega_tune.kernels.batch_trial:copy_and_verify"
    )
    command = command_of(__name__, "answer", str(os.getpid()), name, str(ordinal))
    try:
        child = subprocess.Popen(  # noqa: S603 - our own interpreter and code
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
    except OSError as error:
        return BatchSupport.no(f"the probe cannot be started: {error}")
    try:
        output, _ = child.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        return BatchSupport.no(f"the probe did not end within {timeout_s:g} s")
    finally:
        _end(child)
    return _read(output, child.returncode)


def answer(parent_pid: str, attempt: str, ordinal: str) -> None:
    """The child's side: makes the attempt, and says how it went as one line of JSON on stdout.

    Args:
        parent_pid: of the process that is to outlive this one.
        attempt: `module:function`.
        ordinal: index of the device.
    """
    die_with(int(parent_pid))
    try:
        signature = _find(attempt)(int(ordinal))
        message = {"signature": str(signature)}
    except PegaTuneError as error:
        message = {"reason": error.message}
    except Exception as error:
        message = {"reason": f"the probe failed: {type(error).__name__}: {error}"}
    sys.stdout.write("\n" + json.dumps(message) + "\n")
    sys.stdout.flush()


def _find(name: str) -> Attempt:
    """The function of a name `module:function`."""
    module, _, function = name.partition(":")
    attempt: Attempt = getattr(importlib.import_module(module), function)
    return attempt


def _read(output: str, code: int) -> BatchSupport:
    """What the child said, unless it died, be it behind a good answer: a driver that crashes on leaving is no good."""
    if code < 0:
        return BatchSupport.no(f"the probe was killed by {signal_name(-code)}")
    if code > 0:
        return BatchSupport.no(f"the probe ended with code {code}")
    try:
        said = json.loads(output.strip().rpartition("\n")[2])
        if "reason" in said:
            return BatchSupport.no(str(said["reason"]) or "the probe failed")
        return BatchSupport(True, BatchSignature(said["signature"]))
    except (ValueError, KeyError, TypeError):
        return BatchSupport.no("the probe ended without an answer")


def _end(child: "subprocess.Popen[str]") -> None:
    if child.poll() is None:
        child.kill()
        with suppress(subprocess.TimeoutExpired):
            child.wait(_REAP_S)
    if child.stdout:
        child.stdout.close()
