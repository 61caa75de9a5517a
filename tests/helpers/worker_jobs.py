"""Many jobs of mixed shapes and plans through a transfer worker, every byte of them looked at."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from random import Random

import numpy as np
from numpy.typing import NDArray

from pega_tune.autotune.cuda.buffers import Slabs
from pega_tune.autotune.cuda.layout import Layout
from pega_tune.autotune.cuda.machinery import Backends
from pega_tune.autotune.cuda.verifying import Memories
from pega_tune.kernels.backends.staged import staged
from pega_tune.kernels.plan import Backend, CopyPlan, KernelOptions, Variant, direct, kernel
from pega_tune.kernels.program import Program, Route
from pega_tune.kernels.shape import Direction
from pega_tune.kernels.worker import TransferWorker
from pega_tune.kernels.worker_states import JobReport, JobState

RANGES, EXTENT_BYTES = 512, 4 << 20
STAGING_BYTES = 2 << 20
CANCELLED_EVERY = 10
_EMPTY = 0xEE
_COUNTS = (0, 1, 7, 64, 500)
_MOST_BYTES = 5000

PITCHED = CopyPlan(Backend.PITCHED)
PLANS = (
    direct(),
    replace(direct(), chunk_bytes=50_000),
    kernel(Variant.WARP, 4, 256),
    kernel(Variant.BLOCK, 64, 256),
    CopyPlan(Backend.KERNEL, Variant.WARP, 128, KernelOptions(2, 16)),
    CopyPlan(Backend.KERNEL, Variant.BLOCK, 128, KernelOptions(8, 50), backpressure=False),
    PITCHED,
    replace(PITCHED, chunk_bytes=50_000),
    staged(),
    staged(8, 256, 50_000),
)

Bytes = NDArray[np.uint8]


class Slot:
    """What one direction of a job runs on."""

    def __init__(self, direction: Direction, memories: Memories, slabs: Slabs, backends: Backends) -> None:
        self.direction = direction
        self._memories, self._slabs, self._backends = memories, slabs, backends
        self._mirror = np.empty(slabs.need.extent_bytes, np.uint8)
        self._layout: Layout | None = None
        self._before: tuple[Bytes, Bytes] | None = None

    def prepare(self, layout: Layout, plan: CopyPlan, route: Route, seed: int) -> Program:
        """Fills both sides, and compiles a transfer of a layout."""
        data = np.random.default_rng(seed).integers(0, 256, layout.extent_bytes, np.uint8)
        empty = np.full(layout.extent_bytes, _EMPTY, np.uint8)
        host, device = (data, empty) if self.direction is Direction.H2D else (empty, data)
        self._layout, self._before = layout, (host, device)
        self._memories.host[: layout.extent_bytes] = host
        self._memories.upload(device)
        return self._backends.for_plan(plan).prepare(self._slabs.batch(layout), self.direction, plan, route)

    def prepare_again(self, plan: CopyPlan, route: Route) -> Program:
        """Compiles a transfer of the last layout; both sides stay as they are."""
        assert self._layout
        return self._backends.for_plan(plan).prepare(self._slabs.batch(self._layout), self.direction, plan, route)

    def wrong_bytes(self, *, whole: bool) -> int:
        """Bytes that are not as they should be; those of the ranges count only if they must have arrived."""
        assert self._layout
        assert self._before
        layout, (host, device) = self._layout, (side.copy() for side in self._before)
        columns = (layout.host_offsets.tolist(), layout.device_offsets.tolist(), layout.nbytes.tolist())
        mirror = self._mirror[: layout.extent_bytes]
        self._memories.download(mirror)
        slab = self._memories.host[: layout.extent_bytes]
        loads = self.direction is Direction.H2D
        for here, there, size in zip(*columns, strict=True):
            at_host, at_device = slice(here, here + size), slice(there, there + size)
            if not whole:  # then whatever arrived is right
                (device if loads else host)[at_device if loads else at_host] = (mirror if loads else slab)[
                    at_device if loads else at_host
                ]
            elif loads:
                device[at_device] = host[at_host]
            else:
                host[at_host] = device[at_device]
        return int((host != slab).sum() + (device != mirror).sum())


@dataclass
class Tally:
    """How jobs ended.

    Attributes:
        states: how many jobs in each state.
        cancelled: jobs that somebody cancelled.
        empty: jobs that had no range to move.
        wrong: jobs whose bytes were wrong, or that failed, with the reason.
    """

    states: dict[str, int] = field(default_factory=dict)
    cancelled: int = 0
    empty: int = 0
    wrong: list[str] = field(default_factory=list)


class JobMix:
    """Keeps a worker busy with jobs over pairs of slots, a load slot and a save slot each."""

    def __init__(self, worker: TransferWorker, pairs: Sequence[tuple[tuple[Slot, Route], ...]], seed: int) -> None:
        self._worker, self._pairs = worker, pairs
        self._random = Random(seed)
        self._free = list(range(len(pairs)))
        self._busy: dict[int, tuple[int, list[Slot], str]] = {}
        self.tally = Tally()

    def run(self, jobs: int, plans: Sequence[CopyPlan] = PLANS) -> Tally:
        """Runs so many jobs, every tenth of which is cancelled while it is queued or in flight."""
        for number in range(jobs):
            while not self._free:
                self._settle(self._worker.poll())
            job = self._start(number, plans)
            if number % CANCELLED_EVERY == CANCELLED_EVERY - 1:
                if self._random.random() < 0.5:
                    self._settle(self._worker.poll())
                self.tally.cancelled += self._worker.cancel(job)
        self._settle(self._worker.drain(timeout_s=60))
        self.tally.wrong += [f"job {job} never ended" for job in self._busy]
        return self.tally

    def _start(self, number: int, plans: Sequence[CopyPlan]) -> int:
        place = self._free.pop()
        legs = self._random.choice([self._pairs[place], self._pairs[place][:1], self._pairs[place][1:]])
        programs, names, nbytes = [], [], 0
        for slot, route in legs:
            plan, layout = self._random.choice(plans), _layout(self._random)
            programs.append(slot.prepare(layout, plan, route, number))
            names.append(f"{slot.direction} {plan.key} of {len(layout.nbytes)} ranges")
            nbytes += int(layout.nbytes.sum())
        self.tally.empty += not nbytes
        job = self._worker.submit(programs, tag=number, nbytes=nbytes)
        self._busy[job] = place, [slot for slot, _ in legs], " and ".join(names)
        return job

    def _settle(self, reports: Sequence[JobReport]) -> None:
        for report in reports:
            place, slots, name = self._busy.pop(report.job)
            state = str(report.state)
            self.tally.states[state] = self.tally.states.get(state, 0) + 1
            wrong = sum(slot.wrong_bytes(whole=report.state is JobState.DONE) for slot in slots)
            if wrong or report.error:
                self.tally.wrong.append(f"job {report.tag} ({name}): {report.error or f'{wrong} wrong bytes'}")
            self._free.append(place)


def _layout(random: Random) -> Layout:
    """Ranges of one size or of many, in order or not, some of them touching."""
    count = random.choice(_COUNTS)
    one = random.randrange(1, _MOST_BYTES)
    sizes = [one if count % 2 else random.randrange(1, _MOST_BYTES) for _ in range(count)]
    columns = []
    for shuffled in (random.random() < 0.5, random.random() < 0.5):
        order = list(range(count))
        if shuffled:
            random.shuffle(order)
        offsets, end = [0] * count, random.randrange(64)
        for index in order:
            offsets[index] = end
            end += sizes[index] + random.choice((0, 0, 16, 333))
        columns.append(offsets)
    host, device, nbytes = (np.array(column, np.uint64) for column in (*columns, sizes))
    return Layout(host, device, nbytes, EXTENT_BYTES)
