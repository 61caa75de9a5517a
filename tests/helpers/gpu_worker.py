"""Runs a transfer worker on the first GPU in a process of its own, and prints how it went as JSON.

python -m tests.helpers.gpu_worker mix JOBS | chunks JOBS | launches JOBS | bad-copy | bad-kernel

What went wrong on purpose is printed before anything is closed, which may fail in a lost context.
"""

import json
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from pega_tune.autotune.cuda.buffers import Allocators, Slabs
from pega_tune.autotune.cuda.lanes import Lane
from pega_tune.autotune.cuda.layout import Layout, equal_ranges
from pega_tune.autotune.cuda.machinery import Backends
from pega_tune.autotune.cuda.need import Need
from pega_tune.autotune.layouts import NamedLayout
from pega_tune.kernels.batch_probe import probe_batch
from pega_tune.kernels.context import PrimaryContext
from pega_tune.kernels.driver import DriverCallError
from pega_tune.kernels.event_pool import EventPool
from pega_tune.kernels.memory import DeviceMemory, PinnedMemory
from pega_tune.kernels.plan import Backend, CopyPlan, KernelOptions, Variant, direct, kernel
from pega_tune.kernels.probe import list_devices
from pega_tune.kernels.program import Launch, Program, ProgramBuilder, Route
from pega_tune.kernels.shape import Direction, TransferShape
from pega_tune.kernels.stream import Stream
from pega_tune.kernels.worker import TransferWorker
from pega_tune.kernels.worker_states import JobReport, JobState
from tests.helpers.gpu import Rig
from tests.helpers.worker_jobs import EXTENT_BYTES, PLANS, RANGES, STAGING_BYTES, JobMix, Slot

PAIRS = 4
MIB = 1 << 20
SEED = 408
CHUNKED_RANGES, CHUNKED_BYTES = 16_384, 64 * MIB
CHUNKED = {
    "kernel": (CHUNKED_RANGES, CopyPlan(Backend.KERNEL, Variant.WARP, 256, KernelOptions(8, 64))),
    "dma": (1, replace(direct(), chunk_bytes=4 * MIB)),
}
"""By name: ranges that 64 MiB are in, and how they are moved, with backpressure."""
STRIDED = NamedLayout.parse("strided")
ORDERED_RANGES, ORDERED_PLAN = 4096, kernel(Variant.WARP, 32, 256)
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
        return JobMix(self.worker, [tuple(map(self.leg, Direction.BOTH.legs)) for _ in range(PAIRS)], SEED)

    def route(self) -> Route:
        """Streams that nobody else has."""
        stream, side = (self._stack.enter_context(Stream()) for _ in range(2))
        return Route(stream.handle, side.handle, self.events)

    def leg(self, direction: Direction, need: Need | None = None) -> tuple[Slot, Route]:
        """One direction with memory and streams of its own."""
        slabs = Slabs(need or Need.of(RANGES, EXTENT_BYTES).staged(STAGING_BYTES), Allocators())
        self._stack.callback(slabs.close)
        lane = self._stack.enter_context(Lane(direction, self.rig.machinery))
        lane.attach(slabs)
        return Slot(direction, lane, slabs, Backends.over(slabs, self.rig.machinery)), self.route()


def mix(jobs: int) -> None:
    """Jobs of mixed shapes and plans, every tenth cancelled."""
    with ExitStack() as stack:
        bench = Bench(stack)
        plans = (*PLANS, CopyPlan(Backend.BATCH)) if bench.support.supported else PLANS
        tell(asdict(bench.mix().run(jobs, plans)))


def chunks(jobs: int) -> None:
    """Jobs of many chunks, one after another: what they cost the host, how many chunks they were, and wrong bytes."""
    found: dict[str, Any] = {}
    with ExitStack() as stack:
        bench = Bench(stack)
        for name, (ranges, plan) in CHUNKED.items():
            for direction in Direction.BOTH.legs:
                layout = equal_ranges(TransferShape(ranges, CHUNKED_BYTES, direction), SEED)
                found[f"{name} {direction}"] = _in_chunks(bench, direction, layout, (plan, jobs))
        tell(found)


def _in_chunks(bench: Bench, direction: Direction, layout: Layout, how: tuple[CopyPlan, int]) -> dict[str, Any]:
    plan, jobs = how
    slot, route = bench.leg(direction, Need.of(len(layout.nbytes), layout.extent_bytes))
    reports: list[JobReport] = []
    wrong = 0
    for seed in range(jobs):
        bench.worker.submit([slot.prepare(layout, plan, route, seed)], nbytes=CHUNKED_BYTES)
        reports += bench.worker.drain(timeout_s=60)
        wrong += slot.wrong_bytes(whole=True)
    return {
        "host_s": [report.host_s for report in reports],
        "chunks": [report.chunks for report in reports],
        "failed": sum(report.state is not JobState.DONE for report in reports),
        "wrong": wrong,
    }


def launches(jobs: int) -> None:
    """Jobs of one kernel launch over 4,096 ordered ranges, one right after another as in an engine, by direction.

    Of each: seconds in the submit call, and in driver calls after it. The bytes of the first and the last are compared.
    """
    found: dict[str, Any] = {}
    with ExitStack() as stack:
        bench = Bench(stack)
        for direction in Direction.BOTH.legs:
            shape = STRIDED.described(TransferShape(ORDERED_RANGES, ORDERED_RANGES * 4096, direction))
            layout = equal_ranges(shape, SEED, STRIDED)
            found[str(direction)] = _launched(bench, direction, layout, jobs)
        tell(found)


def _launched(bench: Bench, direction: Direction, layout: Layout, jobs: int) -> dict[str, Any]:
    slot, route = bench.leg(direction, Need.of(len(layout.nbytes), layout.extent_bytes))
    program = slot.prepare(layout, ORDERED_PLAN, route, SEED)
    submit_s, reports, wrong = [], [], 0
    for number in range(jobs):
        if number:
            program = slot.prepare_again(ORDERED_PLAN, route)
        begin_s = time.perf_counter()
        bench.worker.submit([program])
        submit_s.append(time.perf_counter() - begin_s)
        reports += bench.worker.drain(timeout_s=60)
        if number in (0, jobs - 1):
            wrong += slot.wrong_bytes(whole=True)
    return {
        "submit_s": submit_s,
        "host_s": [report.host_s for report in reports],
        "failed": sum(report.state is not JobState.DONE for report in reports),
        "wrong": wrong,
    }


def bad_copy() -> None:
    """A job whose copy the driver refuses, between good ones."""
    with ExitStack() as stack:
        bench = Bench(stack)
        builder = ProgramBuilder(bench.route())
        host = stack.enter_context(PinnedMemory(4096))
        builder.copy(Direction.H2D, (NOWHERE, host.address), 4096)
        bad = bench.worker.submit([builder.finish()])
        reports = {report.job: report for report in bench.worker.drain(timeout_s=20)}
        error = reports[bad].error
        tell({"name": error and error.name, "after": asdict(bench.mix().run(40))})


def bad_kernel() -> None:
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
        tell(found)


def _launch(bench: Bench, route: Route, host: int, device: int) -> Program:
    builder = ProgramBuilder(route)
    builder.copy(Direction.H2D, (device, host), 24)
    builder.launch(Launch(bench.rig.functions[Variant.WARP].handle, 1, 32, (device, 1)))
    return builder.finish()


def main(what: str, *counts: str) -> None:
    """Does what is asked for."""
    deeds: dict[str, Callable[..., None]] = {
        "mix": mix,
        "chunks": chunks,
        "launches": launches,
        "bad-copy": bad_copy,
        "bad-kernel": bad_kernel,
    }
    deeds[what](*map(int, counts))


def tell(found: dict[str, Any]) -> None:
    """Prints what was found."""
    json.dump(found, sys.stdout)
    sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
