"""One timed transfer."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter_ns
from typing import Protocol, Self, TypeVar


class Run(Protocol):
    """One direction of a transfer, ready to go."""

    def rehearse(self) -> None:
        """Does what comes before the first byte moves, for the sake of the caches alone."""

    def prepare(self) -> None:
        """Compiles the batch into a program: orders, merges, writes descriptors."""

    def submit(self) -> None:
        """Hands the work to the driver, up to where a chunk has to wait for another one; never waits."""

    def wait(self, others: Sequence[Self] = ()) -> float:
        """Returns when its work and that of others is done, one thread seeing to all of them as the plan says.

        Returns:
            Seconds of processor time that it took.
        """

    def device_s(self) -> float:
        """Seconds between the device events around the work, after `wait`."""


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds that one transfer took, as in `Measurement`."""

    transfer_s: float
    prepare_s: float
    submit_s: float
    device_s: float
    wait_cpu_s: float = 0.0


R = TypeVar("R", bound=Run)


def time_transfer(
    runs: Sequence[R],
    clock_ns: Callable[[], int] = perf_counter_ns,
    meanwhile: Callable[[], None] | None = None,
) -> Timing:
    """Prepares all runs, submits them back to back, and waits for all of them.

    Every run is rehearsed before the clock starts. The caller of a transfer engine has just written the addresses, and
    the engine moves one batch after another, so that caches hold both; what measuring does in between two samples would
    otherwise evict them and add tens of microseconds that no engine spends.

    Args:
        runs: one per direction, at least one.
        clock_ns: a monotonic clock, nanoseconds.
        meanwhile: called when everything is submitted; what it takes is in the transfer time, so time nothing then.
    """
    for run in runs:
        run.rehearse()
    begin = clock_ns()
    for run in runs:
        run.prepare()
    prepared = clock_ns()
    for run in runs:
        run.submit()
    submitted = clock_ns()
    if meanwhile is not None:
        meanwhile()
    wait_cpu_s = runs[0].wait(runs[1:])
    end = clock_ns()
    return Timing(
        transfer_s=(end - begin) / 1e9,
        prepare_s=(prepared - begin) / 1e9,
        submit_s=(submitted - prepared) / 1e9,
        device_s=max(run.device_s() for run in runs),
        wait_cpu_s=wait_cpu_s,
    )
