"""Signals as exceptions, so that what was being done is left in order."""

import os
import signal
from types import FrameType
from typing import NoReturn

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interruption(KeyboardInterrupt):
    """The user or the system asked the program to end.

    Attributes:
        signum: the signal.
        hint: what to do to go on, filled in by whoever knows.
    """

    def __init__(self, signum: int) -> None:
        super().__init__(f"signal {signum}")
        self.signum = signum
        self.hint = ""


def raise_on_signals() -> None:
    """The first SIGINT, SIGTERM or SIGHUP raises `Interruption`; another one ends the process at once.

    Under `nohup` SIGHUP stays ignored. SIGINT does not, though scripts start background jobs with it ignored: whoever
    sends it to us by name means it.
    """
    for signum in _ENDING:
        if signum != signal.SIGHUP or signal.getsignal(signum) is not signal.SIG_IGN:
            signal.signal(signum, _interrupt)


def _interrupt(signum: int, _frame: FrameType | None) -> NoReturn:
    for other in _ENDING:
        signal.signal(other, _leave)
    raise Interruption(signum)


def _leave(signum: int, _frame: FrameType | None) -> NoReturn:
    os._exit(128 + signum)
