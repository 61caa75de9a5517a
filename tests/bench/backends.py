"""Times the whole preparation of a transfer by every backend but `staged` (see `staged.py`), without a GPU.

    python tests/bench/backends.py [--ranges N] [--rounds N]

Times are in microseconds, seen from Python, minimum and median; caches are warm. Ranges have 4 KiB.
"""

import argparse
import sys
import time
from collections.abc import Callable, Iterable
from functools import partial
from statistics import median

import numpy as np

from pega_tune.kernels.backends.base import TransferBackend
from pega_tune.kernels.backends.batch import BatchBackend
from pega_tune.kernels.backends.direct import DirectBackend
from pega_tune.kernels.backends.kernel import KernelBackend
from pega_tune.kernels.backends.pitched import PitchedBackend
from pega_tune.kernels.batch_call import BatchSignature
from pega_tune.kernels.descriptors import DescriptorSpace
from pega_tune.kernels.plan import Backend, CopyPlan, Variant, direct, kernel
from pega_tune.kernels.prepare import Workspace
from pega_tune.kernels.program import Route
from pega_tune.kernels.progressions import ProgressionFinder
from pega_tune.kernels.ranges import DeviceRegion, HostRegion, RangeBatch
from pega_tune.kernels.shape import Direction

PAGE = 4096
WARM_UP = 10


class Handles:
    """Events that are never recorded."""

    def take(self) -> int:
        return 1

    def give_back(self, events: Iterable[int]) -> None:
        """Nothing was taken."""


def layouts(ranges: int) -> dict[str, RangeBatch]:
    """Batches by what lies where."""
    places = np.arange(ranges)
    shuffled = np.random.default_rng(0).permutation(places)
    sides = {
        "contiguous": (places, places),
        "strided on the device": (2 * places, places),
        "eight layers in turn": (places % 8 * ranges + places // 8 * 2, places),
        "forty layers in turn": (places % 40 * ranges + places // 40 * 2, places),
        "host ordered": (2 * shuffled, places),
        "host ordered, gaps": (2 * shuffled, 2 * places),
        "shuffled": (2 * shuffled, 2 * np.random.default_rng(1).permutation(places)),
    }
    return {name: _batch(device * PAGE, host * PAGE) for name, (device, host) in sides.items()}


def _batch(*offsets: np.ndarray) -> RangeBatch:
    size = int(max(column.max() for column in offsets)) + PAGE
    device, host = (column.astype(np.uint64) for column in offsets)
    regions = DeviceRegion(2**47, size, 0), HostRegion(2**46, 2**46, size, 0)
    return RangeBatch.within(*regions, device, host, np.full(len(host), PAGE, np.uint64))


def backends(ranges: int) -> dict[str, tuple[TransferBackend, CopyPlan]]:
    """What is timed, with its plan."""
    pinned = np.zeros((2 * ranges, 3), np.uint64)
    space = DescriptorSpace(pinned, pinned.ctypes.data, 2**45, len(pinned))
    batch, pitched = BatchBackend(BatchSignature.V2, Workspace(ranges)), PitchedBackend(ProgressionFinder(ranges))
    return {
        "direct": (DirectBackend(Workspace(ranges)), direct()),
        "batch": (batch, CopyPlan(Backend.BATCH)),
        "pitched": (pitched, CopyPlan(Backend.PITCHED)),
        "pitched by 4 MiB": (pitched, CopyPlan(Backend.PITCHED, chunk_bytes=4 << 20)),
        "kernel/warp": (KernelBackend({Variant.WARP: 1}, space), kernel(Variant.WARP, 32, 256)),
        "kernel/block": (KernelBackend({Variant.BLOCK: 1}, space), kernel(Variant.BLOCK, 65_535, 256)),
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
    parser.add_argument("--rounds", type=int, default=200)
    options = parser.parse_args()
    made = backends(options.ranges)
    route = Route(11, 12, Handles(), 13, 14)
    sys.stdout.write(f"{'us, min / median':26}{''.join(f'{name:>18}' for name in made)}\n")
    for name, batch in layouts(options.ranges).items():
        operations = (partial(backend.prepare, batch, Direction.H2D, plan, route) for backend, plan in made.values())
        cells = [timed(operation, options.rounds) for operation in operations]
        sys.stdout.write(f"{name:26}{''.join(f'{cell:>18}' for cell in cells)}\n")


if __name__ == "__main__":
    main()
