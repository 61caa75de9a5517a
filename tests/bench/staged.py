"""Times the host work of staged transfers, without a GPU: driver calls do nothing, and every event has happened.

    python tests/bench/staged.py [--ranges N] [--rounds N]

The ranges have 4 KiB and are shuffled on the device. Times are in microseconds, seen from Python, minimum and median:
of preparing; of preparing and submitting up to the first command that moves bytes; of that and everything else that
the program does, most of it while bytes move already. The last column is how much of all host work comes before that.
"""

import argparse
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from statistics import median

import numpy as np
from numba import types

from pega_tune.kernels.backends.staged import StagedBackend, staged
from pega_tune.kernels.commands import Op
from pega_tune.kernels.descriptors import DescriptorSpace
from pega_tune.kernels.driver import DriverFunction, DriverTable
from pega_tune.kernels.executor import Execution, Progress
from pega_tune.kernels.native import callback
from pega_tune.kernels.plan import CopyPlan, PlanPair, Variant
from pega_tune.kernels.program import Program, Route
from pega_tune.kernels.ranges import Addresses, DeviceRegion, HostRegion, RangeBatch
from pega_tune.kernels.shape import Direction
from pega_tune.kernels.staging import StagingBuffer

PAGE = 4096
WARM_UP = 20
MOVING = (Op.COPIES_TO_DEVICE, Op.COPIES_TO_HOST, Op.LAUNCH)

Prepare = Callable[[], Program]


class Handles:
    """Events that are never recorded."""

    def take(self) -> int:
        return 1

    def give_back(self, events: Iterable[int]) -> None:
        """Nothing was taken."""


@callback(types.int32(types.uint64))
def succeed(_argument: int) -> int:
    """Whatever other arguments a driver function gets, the caller takes them away again."""
    return 0


def layouts(ranges: int) -> dict[str, Addresses]:
    """Host offsets."""
    pages = np.arange(ranges, dtype=np.uint64) * np.uint64(PAGE)
    return {
        "host ordered, one run": pages,
        "host shuffled, one run": np.random.default_rng(1).permutation(pages),
        "host ordered, runs of 4 ranges": pages + pages // np.uint64(4 * PAGE) * np.uint64(PAGE),
        "host ordered, a run each": pages * np.uint64(2),
    }


def ways(backend: StagedBackend, batch: RangeBatch) -> dict[str, Prepare]:
    """What is prepared, by name."""
    route = Route(1, 2, Handles())

    def one(direction: Direction, plan: CopyPlan) -> Prepare:
        return lambda: backend.prepare(batch, direction, plan, route)

    plan, chunked = staged(), staged(chunk_bytes=2 << 20)
    pair = PlanPair(plan, plan, fused=True)
    return {
        "load": one(Direction.H2D, plan),
        "save": one(Direction.D2H, plan),
        "load by 2 MiB": one(Direction.H2D, chunked),
        "fused": lambda: backend.prepare_fused(batch, batch, pair, route),
    }


def timed(operation: Callable[[], object], rounds: int) -> tuple[float, float]:
    """Least and median."""
    samples = []
    for _ in range(WARM_UP + rounds):
        start = time.perf_counter_ns()
        operation()
        samples.append((time.perf_counter_ns() - start) / 1e3)
    return min(samples[WARM_UP:]), median(samples[WARM_UP:])


def measure(table: DriverTable, prepare: Prepare, rounds: int) -> str:
    """One row."""

    def submit(end: int | None) -> None:
        program = prepare()
        execution = Execution(table, program if end is None else replace(program, commands=program.commands[:end]))
        while execution.advance() is Progress.PENDING:  # it gives way; all events have happened
            pass

    commands = prepare().commands["op"].tolist()
    first = 1 + next(row for row, op in enumerate(commands) if op in MOVING)
    cells = [timed(operation, rounds) for operation in (prepare, lambda: submit(first), lambda: submit(None))]
    texts = [f"{least:.1f} / {middle:.1f}" for least, middle in cells]
    return "".join(f"{text:>20}" for text in (*texts, f"{cells[1][0] / cells[2][0]:.2f}"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranges", type=int, default=16_384)
    parser.add_argument("--rounds", type=int, default=500)
    options = parser.parse_args()
    ranges, size = options.ranges, 2 * options.ranges * PAGE
    device = np.random.default_rng(0).permutation(ranges).astype(np.uint64) * np.uint64(2 * PAGE)
    pinned = np.zeros((8 * ranges, 3), np.uint64)
    space = DescriptorSpace(pinned, pinned.ctypes.data, 2**45, len(pinned), pinned.ctypes.data)
    backend = StagedBackend({Variant.WARP: 1}, space, StagingBuffer(2**44), ranges)
    table = DriverTable.of(dict.fromkeys(DriverFunction, succeed.address))
    heads = ("prepare", "to first command", "all host work", "share")
    sys.stdout.write(f"{'us, min / median':46}{''.join(f'{head:>20}' for head in heads)}\n")
    for name, host in layouts(ranges).items():
        sides = DeviceRegion(2**43, size, 0), HostRegion(2**46, 2**46, size, 0)
        batch = RangeBatch.within(*sides, device, host, np.full(ranges, PAGE, np.uint64))
        for way, prepare in ways(backend, batch).items():
            sys.stdout.write(f"{name + ', ' + way:46}{measure(table, prepare, options.rounds)}\n")


if __name__ == "__main__":
    main()
