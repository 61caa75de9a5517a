"""Bursts: one transfer after another, each when it is due."""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np

from pega_tune.autotune.pacing import PacedClock
from pega_tune.autotune.serving import Seconds

SPIN_S: Final = 200e-6
"""A thread that sleeps wakes up to this much too late; the rest of the time it spins, offering its processor."""


@dataclass(frozen=True, slots=True)
class HostClock:
    """What pacing asks of the host.

    Attributes:
        now_s: the system's monotonic clock.
        sleep: for so many seconds, or somewhat longer.
        give_way: offers the processor to others, for as long as a look at the clock takes.
        cpu_s: processor time of the threads that submit and wait.
    """

    now_s: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    give_way: Callable[[], None] = os.sched_yield
    cpu_s: Callable[[], float] = time.thread_time

    def wait_until(self, due_s: float) -> None:
        """Returns as soon as a time has come."""
        rest_s = due_s - self.now_s()
        if rest_s > SPIN_S:
            self.sleep(rest_s - SPIN_S)
        while self.now_s() < due_s:
            self.give_way()


class Burst(Protocol):
    """A transfer to run any number of times."""

    def run(self) -> float:
        """Prepares and submits it, and returns when all of it has completed.

        Returns:
            When that was seen, in seconds of the monotonic clock.

        Raises:
            DriverCallError: it failed.
        """


@dataclass(frozen=True, slots=True, eq=False)
class BurstTimes:
    """What became of b bursts, in seconds of the monotonic clock.

    Attributes:
        due: (b,) when each was due.
        submitted: (b,) when its preparation began.
        completed: (b,) when its end was seen.
        cpu_s: processor time of the threads that submitted and waited, of all bursts together.
    """

    due: Seconds
    submitted: Seconds
    completed: Seconds
    cpu_s: float


def run_bursts(clock: PacedClock, burst: Burst, count: int, host: HostClock) -> BurstTimes:
    """Runs a burst whenever it is due, or late, but never two at once.

    Args:
        clock: says when; nothing has been submitted yet.
        burst: what runs.
        count: how many.
        host: clock and processor.

    Raises:
        DriverCallError: as `Burst.run`.
    """
    due, submitted, completed = np.empty((3, count))
    cpu_s = 0.0
    for number in range(count):
        host.wait_until(clock.due_s)
        cpu_begin_s, now_s = host.cpu_s(), host.now_s()
        due_s = clock.submit(now_s)
        completed_s = burst.run()
        cpu_s += host.cpu_s() - cpu_begin_s
        clock.complete(completed_s)
        due[number], submitted[number], completed[number] = due_s, now_s, completed_s
    return BurstTimes(due, submitted, completed, cpu_s)
