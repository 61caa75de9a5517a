"""Children that are plain interpreters: a daemonic process, which their parent may be, has no others."""

import ctypes
import json
import os
import signal
import sys
from typing import Final

_PR_SET_PDEATHSIG: Final = 1  # <linux/prctl.h>

_BOOT: Final = (
    "import json, sys, importlib; sys.path[:] = json.loads(sys.argv[1]); "
    "getattr(importlib.import_module(sys.argv[2]), sys.argv[3])(*sys.argv[4:])"
)


def command_of(module: str, function: str, *arguments: str) -> list[str]:
    """The command line of a child that calls a function of a module, with strings."""
    return [sys.executable, "-c", _BOOT, json.dumps(sys.path), module, function, *arguments]


def die_with(parent_pid: int) -> None:
    """Ends this process when its parent ends, however it ends.

    A busy child does not read its pipe, and one that hangs reads nothing at all, so the kernel is asked to do it.

    Args:
        parent_pid: of the process that is to outlive this one. It is the parent's thread that started this process
            whose end the kernel watches.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
        if os.getppid() != parent_pid:
            os._exit(1)  # the parent ended before it was watched


def signal_name(number: int) -> str:
    """What a signal is called, `SIGKILL`."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
