"""Who submits a transfer of both directions: one thread, or one for each where submitting is what takes long."""

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import Final, Protocol, TypeVar

from pega_tune.kernels.closing import Closing

BUSY_COPIES: Final = 1024
"""Copies of a direction from which on it has a thread of its own: a millisecond of driver calls, a small part of which
it takes to wake a thread. One thread that hands over 16,384 ranges of 4 KiB each way in batches takes 42 to 59 ms,
two take 12 to 28 (H200, 2026-12-01: see `kernels.batch_call.COPIES_PER_CALL`)."""

Result = TypeVar("Result")


class Copying(Protocol):
    """One direction of a transfer."""

    @property
    def copies(self) -> int:
        """Copies that the host asks for, one by one or in batches; 0 before it has been rehearsed."""


def is_busy(runs: Sequence[Copying]) -> bool:
    """Whether a direction keeps its thread so long that another one must not wait for it."""
    return len(runs) > 1 and any(run.copies >= BUSY_COPIES for run in runs)


class SubmissionThread(Closing):
    """A thread beside that of the engine, as engines with a worker for each direction have; for one work at a time.

    Attributes:
        cpu_s: processor time that its work has taken so far, in seconds.
    """

    def __init__(self, enter: Callable[[], object]) -> None:
        """Starts nothing yet.

        Args:
            enter: makes the context current, in the thread.
        """
        self._pool = ThreadPoolExecutor(1, "pega-tune-second-direction", enter)
        self.cpu_s = 0.0

    @contextmanager
    def beside(self, work: Callable[[], Result]) -> Iterator[Future[Result]]:
        """Does work while the block runs, and leaves when both have ended; what the work raises is the future's."""
        future = self._pool.submit(self._spend, work)
        try:
            yield future
        finally:
            wait((future,))

    def close(self) -> None:
        """Ends the thread."""
        self._pool.shutdown()

    def _spend(self, work: Callable[[], Result]) -> Result:
        begin_s = time.thread_time()
        try:
            return work()
        finally:
            self.cpu_s += time.thread_time() - begin_s
