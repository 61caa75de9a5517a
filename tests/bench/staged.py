"""Times the preparation of staged transfers, whole and its native passes, without a GPU.

    python tests/bench/staged.py [--ranges N] [--rounds N]

The ranges have 4 KiB and are shuffled on the device. Times are in microseconds, seen from Python, minimum and median.
"""

import argparse
import sys
import time
from collections.abc import Callable, Iterable
from statistics import median

import numpy as np

from pega_tune.kernels.backends.staged import StagedBackend, staged
from pega_tune.kernels.descriptors import DescriptorSpace
from pega_tune.kernels.host_runs import RunFinder
from pega_tune.kernels.plan import PlanPair, Variant
from pega_tune.kernels.program import Route
from pega_tune.kernels.ranges import Addresses, DeviceRegion, HostRegion, RangeBatch
from pega_tune.kernels.shape import Direction
from pega_tune.kernels.staging import StagingBuffer

PAGE = 4096
WARM_UP = 20


class Handles:
    """Events that are never recorded."""

    def take(self) -> int:
        return 1

    def give_back(self, events: Iterable[int]) -> None:
        """Nothing was taken."""


def layouts(ranges: int) -> dict[str, Addresses]:
    """Host offsets."""
    pages = np.arange(ranges, dtype=np.uint64) * np.uint64(PAGE)
    return {
        "host ordered, one run": pages,
        "host shuffled, one run": np.random.default_rng(1).permutation(pages),
        "host ordered, runs of 4 ranges": pages + pages // np.uint64(4 * PAGE) * np.uint64(PAGE),
        "host ordered, a run each": pages * np.uint64(2),
    }


def timed(operation: Callable[[], object], rounds: int) -> str:
    samples = []
    for _ in range(WARM_UP + rounds):
        start = time.perf_counter_ns()
        operation()
        samples.append((time.perf_counter_ns() - start) / 1e3)
    return f"{min(samples[WARM_UP:]):.1f} / {median(samples[WARM_UP:]):.1f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranges", type=int, default=16_384)
    parser.add_argument("--rounds", type=int, default=500)
    options = parser.parse_args()
    ranges, size = options.ranges, 2 * options.ranges * PAGE
    device = np.random.default_rng(0).permutation(ranges).astype(np.uint64) * np.uint64(2 * PAGE)
    pinned = np.zeros((5 * ranges, 3), np.uint64)
    space = DescriptorSpace(pinned, pinned.ctypes.data, 2**45, len(pinned))
    backend = StagedBackend({Variant.WARP: 1}, space, StagingBuffer(2**44), ranges)
    finder, route, plan = RunFinder(ranges), Route(1, 2, Handles()), staged()
    pair, chunked = PlanPair(plan, plan, fused=True), staged(chunk_bytes=2 << 20)
    sys.stdout.write(f"{'us, min / median':34}{'h2d':>18}{'d2h':>18}{'h2d by 2 MiB':>18}{'fused':>18}{'runs':>18}\n")
    for name, host in layouts(ranges).items():
        sides = DeviceRegion(2**43, size, 0), HostRegion(2**46, 2**46, size, 0)
        batch = RangeBatch.within(*sides, device, host, np.full(ranges, PAGE, np.uint64))
        operations: list[Callable[[], object]] = [
            lambda batch=batch: backend.prepare(batch, Direction.H2D, plan, route),
            lambda batch=batch: backend.prepare(batch, Direction.D2H, plan, route),
            lambda batch=batch: backend.prepare(batch, Direction.H2D, chunked, route),
            lambda batch=batch: backend.prepare_fused(batch, batch, pair, route),
            lambda batch=batch: finder.find(batch),
        ]
        cells = (f"{timed(operation, options.rounds):>18}" for operation in operations)
        sys.stdout.write(f"{name:34}{''.join(cells)}\n")


if __name__ == "__main__":
    main()
