"""Times batched copies of both directions by the copies of a call, submitted by one thread and by one per direction.

    python tests/gpu/batch_calls.py [--ranges N] [--range-bytes B] [--rounds N] [--copies 64,128,...]

All settings and contiguous DMA are timed in turns, in random order, in one process; every setting is verified first.
Columns: the rate without preparation over that of contiguous DMA, the same with preparation, and medians of the
submission of both directions and of its moving time.
"""

import argparse
import random
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from pega_tune.autotune.cuda.abilities import Abilities
from pega_tune.autotune.cuda.bench import Bench, Transfer
from pega_tune.autotune.cuda.buffers import Buffers
from pega_tune.autotune.cuda.comparing import POISON, Comparer
from pega_tune.autotune.cuda.lanes import Lane
from pega_tune.autotune.cuda.layout import GUARD_BYTES, Layout, equal_ranges, extent_bytes
from pega_tune.autotune.cuda.limits import MemoryLimits
from pega_tune.autotune.cuda.machinery import Machinery
from pega_tune.autotune.cuda.need import Need
from pega_tune.autotune.cuda.submission import SubmissionThread
from pega_tune.autotune.cuda.timing import Timing
from pega_tune.autotune.cuda.verifying import Verifier
from pega_tune.kernels.batch_call import COPIES_PER_CALL
from pega_tune.kernels.batch_probe import BatchSupport, probe_batch
from pega_tune.kernels.context import PrimaryContext
from pega_tune.kernels.driver import DriverTable
from pega_tune.kernels.plan import Backend, CopyPlan, PlanPair, direct
from pega_tune.kernels.shape import Direction, TransferShape
from pega_tune.kernels.stream import priority_range

MEMORY = MemoryLimits(2 << 30, 2 << 30)
BATCH = PlanPair(CopyPlan(Backend.BATCH), CopyPlan(Backend.BATCH))
CEILING = PlanPair(direct(), direct())
SEED = 408


@dataclass
class Setting:
    """One way of submitting, its transfer, and how long that took each time."""

    name: str
    bench: Bench
    transfer: Transfer
    timings: list[Timing] = field(default_factory=list)

    def median_s(self, part: str) -> float:
        return median(float(getattr(timing, part)) for timing in self.timings)


class Settings:
    """Benches with lanes of their own over the same memory."""

    def __init__(self, stack: ExitStack, shape: TransferShape, support: BatchSupport) -> None:
        self._stack = stack
        self._context = stack.enter_context(PrimaryContext(0))
        self._second = stack.enter_context(SubmissionThread(self._context.enter))
        self._table = DriverTable.resolve()
        self._support = support
        self._abilities = Abilities(priority_range(), 1024, support)
        self._buffers = stack.enter_context(Buffers(MEMORY))
        self._verifier = Verifier(stack.enter_context(Comparer()), POISON)
        self._need = Need.of(shape.merged_ranges, extent_bytes(shape))
        self._layouts = {way: equal_ranges(shape, SEED + i) for i, way in enumerate(shape.direction.legs)}

    def ceiling(self, total_bytes: int) -> Setting:
        """The bytes of each direction as one DMA command."""
        begin, nbytes = (np.array([number], np.uint64) for number in (GUARD_BYTES, total_bytes))
        whole = {way: Layout(begin, begin, nbytes, layout.extent_bytes) for way, layout in self._layouts.items()}
        bench = self._bench(COPIES_PER_CALL, threads=1)
        return Setting("contiguous", bench, bench.transfer(CEILING, whole))

    def batched(self, copies: int, threads: int) -> Setting:
        """So many copies a call, by so many threads; verified."""
        bench = self._bench(copies, threads)
        transfer = bench.transfer(BATCH, self._layouts)
        wrong = bench.verify(transfer, SEED)
        if wrong:
            raise SystemExit(f"{copies} copies a call, threads {threads}: {wrong}")
        return Setting(f"{copies} copies a call, threads {threads}", bench, transfer)

    def _bench(self, copies: int, threads: int) -> Bench:
        machinery = Machinery(self._table, {}, self._support.signature, copies_per_call=copies)
        lanes = {way: self._stack.enter_context(Lane(way, machinery)) for way in self._layouts}
        second = self._second if threads > 1 else None
        bench = Bench(self._context, lanes, self._buffers, self._verifier, self._abilities, second=second)
        bench.reserve(self._need, tuple(self._layouts))
        return bench


def rows(settings: list[Setting]) -> Iterator[str]:
    ceiling = settings[0]
    yield f"{'':36}{'moving':>9}{'all':>9}{'submit us':>12}{'moving us':>12}"
    for setting in settings:
        ratios = (ceiling.median_s(part) / setting.median_s(part) for part in ("moving_s", "transfer_s"))
        times = (setting.median_s(part) * 1e6 for part in ("submit_s", "moving_s"))
        yield f"{setting.name:36}" + "".join(f"{r:9.3f}" for r in ratios) + "".join(f"{t:12.1f}" for t in times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranges", type=int, default=1024)
    parser.add_argument("--range-bytes", type=int, default=64 << 10)
    parser.add_argument("--rounds", type=int, default=51)
    parser.add_argument("--copies", default="64,128,256,512,4096")
    options = parser.parse_args()
    support = probe_batch(0)
    if not support.supported:
        raise SystemExit(f"batched copies do not work here: {support.reason}")
    shape = TransferShape(options.ranges, options.ranges * options.range_bytes, Direction.BOTH)
    with ExitStack() as stack:
        made = Settings(stack, shape, support)
        settings = [made.ceiling(shape.total_bytes)]
        settings += [made.batched(int(copies), threads) for copies in options.copies.split(",") for threads in (1, 2)]
        order = random.Random(SEED)
        for _ in range(options.rounds):
            for setting in order.sample(settings, len(settings)):
                setting.timings.append(setting.bench.time(setting.transfer))
        sys.stdout.writelines(f"{row}\n" for row in rows(settings))


if __name__ == "__main__":
    main()
