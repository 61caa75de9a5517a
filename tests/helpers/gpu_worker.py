"""Runs a transfer worker on the first GPU in a process of its own, and prints how it went as JSON.

python -m tests.helpers.gpu_worker mix JOBS | bad-copy | bad-kernel
"""

import json
import sys
from contextlib import ExitStack
from dataclasses import asdict
from typing import Any

import numpy as np

from pega_tune.autotune.cuda.buffers import Allocators, Slabs
from pega_tune.autotune.cuda.lanes import Lane
from pega_tune.autotune.cuda.machinery import Backends
from pega_tune.autotune.cuda.need import Need
from pega_tune.kernels.batch_probe import probe_batch
from pega_tune.kernels.context import PrimaryContext
from pega_tune.kernels.driver import DriverCallError
from pega_tune.kernels.event_pool import EventPool
from pega_tune.kernels.memory import DeviceMemory, PinnedMemory
from pega_tune.kernels.plan import Backend, CopyPlan, Variant
from pega_tune.kernels.probe import list_devices
from pega_tune.kernels.program import Launch, Program, ProgramBuilder, Route
from pega_tune.kernels.shape import Direction
from pega_tune.kernels.stream import Stream
from pega_tune.kernels.worker import TransferWorker
from tests.helpers.gpu import Rig
from tests.helpers.worker_jobs import EXTENT_BYTES, PLANS, RANGES, STAGING_BYTES, JobMix, Slot

PAIRS = 4
NOWHERE = 16  # in the first page, which no allocation gets


class Bench:
    """Slots over a rig, and what a worker needs."""

    def __init__(self, stack: ExitStack) -> None:
        facts = list_devices()[0]
        self.support = probe_batch(0)
        stack.enter_context(PrimaryContext(0))
        self.rig = stack.enter_context(Rig(facts, self.support.signature))
        self.events = stack.enter_context(EventPool())
        self._stack = stack
        self.worker = TransferWorker(self.rig.machinery.table, 2 * PAIRS, self.events)

    def mix(self) -> JobMix:
        """Jobs over pairs of slots."""
        return JobMix(self.worker, [tuple(map(self._leg, Direction.BOTH.legs)) for _ in range(PAIRS)], 408)

    def route(self) -> Route:
        """Streams that nobody else has."""
        stream, side = (self._stack.enter_context(Stream()) for _ in range(2))
        return Route(stream.handle, side.handle, self.events)

    def _leg(self, direction: Direction) -> tuple[Slot, Route]:
        slabs = Slabs(Need.of(RANGES, EXTENT_BYTES).staged(STAGING_BYTES), Allocators())
        self._stack.callback(slabs.close)
        lane = self._stack.enter_context(Lane(direction, self.rig.machinery))
        lane.attach(slabs)
        return Slot(direction, lane, slabs, Backends.over(slabs, self.rig.machinery)), self.route()


def mix(jobs: int) -> dict[str, Any]:
    """Jobs of mixed shapes and plans, every tenth cancelled."""
    with ExitStack() as stack:
        bench = Bench(stack)
        plans = (*PLANS, CopyPlan(Backend.BATCH)) if bench.support.supported else PLANS
        return asdict(bench.mix().run(jobs, plans))


def bad_copy() -> dict[str, Any]:
    """A job whose copy the driver refuses, between good ones."""
    with ExitStack() as stack:
        bench = Bench(stack)
        builder = ProgramBuilder(bench.route())
        host = stack.enter_context(PinnedMemory(4096))
        builder.copy(Direction.H2D, (NOWHERE, host.address), 4096)
        bad = bench.worker.submit([builder.finish()])
        reports = {report.job: report for report in bench.worker.drain(timeout_s=20)}
        error = reports[bad].error
        return {"name": error and error.name, "after": asdict(bench.mix().run(40))}


def bad_kernel() -> dict[str, Any]:
    """A job whose kernel writes to an illegal address, with another behind it in its stream."""
    with ExitStack() as stack:
        bench = Bench(stack)
        host, device = stack.enter_context(PinnedMemory(4096)), stack.enter_context(DeviceMemory(4096))
        host.view().view(np.uint64)[:3] = (NOWHERE, NOWHERE + 4096, 4096)
        route = bench.route()
        launches = [_launch(bench, route, host.address, device.address) for _ in range(2)]
        jobs = [bench.worker.submit([program]) for program in launches]
        reports = {report.job: report for report in bench.worker.drain(timeout_s=20)}
        found: dict[str, Any] = {"states": [str(reports[job].state) for job in jobs]}
        first = reports[jobs[0]].error
        if first is not None:
            found |= {"name": first.name, "sticky": first.is_sticky}
        try:
            bench.worker.submit([launches[0]])
        except DriverCallError as error:
            found["later"] = error.name
        return found


def _launch(bench: Bench, route: Route, host: int, device: int) -> Program:
    builder = ProgramBuilder(route)
    builder.copy(Direction.H2D, (device, host), 24)
    builder.launch(Launch(bench.rig.functions[Variant.WARP].handle, 1, 32, (device, 1)))
    return builder.finish()


def main(what: str, *counts: str) -> None:
    """Does what is asked for."""
    found = {"bad-copy": bad_copy, "bad-kernel": bad_kernel}[what]() if what != "mix" else mix(int(counts[0]))
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main(*sys.argv[1:])
