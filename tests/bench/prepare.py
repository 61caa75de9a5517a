"""Times the native preparation of a transfer beside `numpy.argsort` of the same addresses, in the same run.

    python tests/bench/prepare.py [--json] [--ranges N] [--rounds N]

In order, `merge` is one pass that finds so and looks for ranges to join; else it sorts, looks and joins. `descriptors`
writes those of the warp kernel for h2d. All times are in microseconds, seen from Python, minimum and median.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pega_tune.kernels.descriptors import DescriptorSpace, descriptor_bound, write_descriptors
from pega_tune.kernels.ordering import Sorter
from pega_tune.kernels.prepare import Workspace
from pega_tune.kernels.ranges import DeviceRegion, HostRegion, RangeBatch
from pega_tune.kernels.shape import Direction

PAGE = 4096
WARM_UP = 10


@dataclass(frozen=True, slots=True)
class Timing:
    """Microseconds of one operation."""

    min_us: float
    median_us: float


@dataclass(frozen=True, slots=True)
class Row:
    """One layout of ranges."""

    layout: str
    merged_ranges: int
    sort: Timing
    merge: Timing
    descriptors: Timing
    argsort: Timing


def layouts(ranges: int, seed: int = 0) -> dict[str, NDArray[np.uint64]]:
    """Host offsets of ranges of one page, one page apart."""
    random = np.random.default_rng(seed)
    pages = np.arange(ranges, dtype=np.uint64) * np.uint64(2 * PAGE)
    shuffled = random.permutation(pages)
    within_page = random.integers(0, PAGE, ranges).astype(np.uint64)
    return {
        "in order": pages,
        "in order, touching": pages // np.uint64(2),
        "reversed": pages[::-1].copy(),
        "shuffled, 4 KiB aligned": shuffled,
        "shuffled, misaligned": shuffled + within_page,
        "shuffled over 1 TiB, misaligned": shuffled * np.uint64(2**40 // (2 * PAGE * ranges)) + within_page,
    }


def interleaved(operations: dict[str, Callable[[], Any]], rounds: int) -> dict[str, Timing]:
    """Times operations in turn, so that a busy moment meets all of them."""
    samples: dict[str, list[float]] = {name: [] for name in operations}
    for number in range(WARM_UP + rounds):
        for name, operation in operations.items():
            start = time.perf_counter_ns()
            operation()
            elapsed = time.perf_counter_ns() - start
            if number >= WARM_UP:
                samples[name].append(elapsed / 1e3)
    return {name: Timing(min(values), median(values)) for name, values in samples.items()}


def measure(layout: str, host_offsets: NDArray[np.uint64], rounds: int) -> Row:
    """One row; the device side is in the order of the host side, or shuffled with gaps."""
    ranges = len(host_offsets)
    nbytes = np.full(ranges, PAGE, np.uint64)
    device_offsets = host_offsets if "touching" in layout else np.random.default_rng(1).permutation(host_offsets)
    size = int(host_offsets.max()) + PAGE
    batch = RangeBatch.within(
        DeviceRegion(2**47, size, 0), HostRegion(2**46, 2**46, size, 0), device_offsets, host_offsets, nbytes
    )
    capacity = descriptor_bound(ranges, batch.total_bytes, PAGE)
    pinned = np.zeros((capacity, 3), np.uint64)
    space = DescriptorSpace(pinned, pinned.ctypes.data, 0, capacity)
    sorter, workspace = Sorter(ranges), Workspace(ranges)
    merged = Workspace(ranges).merge(batch)
    timings = interleaved(
        {
            "sort": lambda: sorter.order(batch.host),
            "merge": lambda: workspace.merge(batch),
            "descriptors": lambda: write_descriptors(batch, Direction.H2D, space, PAGE),
            "argsort": lambda: np.argsort(batch.host),
        },
        rounds,
    )
    return Row(layout, len(merged), **timings)


def table(rows: list[Row]) -> str:
    """The rows as aligned text."""
    names = ("sort", "merge", "descriptors", "argsort")
    lines = [f"{'us, min / median':34}{'merged':>8}" + "".join(f"{name:>18}" for name in names)]
    for row in rows:
        timings = (getattr(row, name) for name in names)
        cells = "".join(f"{f'{timing.min_us:.1f} / {timing.median_us:.1f}':>18}" for timing in timings)
        lines.append(f"{row.layout:34}{row.merged_ranges:>8}{cells}")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="one JSON document instead of a table")
    parser.add_argument("--ranges", type=int, default=16_384)
    parser.add_argument("--rounds", type=int, default=500)
    options = parser.parse_args()
    rows = [measure(layout, offsets, options.rounds) for layout, offsets in layouts(options.ranges).items()]
    answer = {"ranges": options.ranges, "rounds": options.rounds, "rows": [asdict(row) for row in rows]}
    sys.stdout.write((json.dumps(answer, indent=2) if options.json else table(rows)) + "\n")


if __name__ == "__main__":
    main()
