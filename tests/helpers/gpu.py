"""What GPU tests build their device side from: fixtures, and a rig that runs one plan and shows every byte."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass

import numpy as np
import pytest
from numpy.typing import NDArray

from pega_tune.autotune.cuda.buffers import Buffers
from pega_tune.autotune.cuda.compile_cache import user_compile_cache
from pega_tune.autotune.cuda.factory import CudaEngineFactory
from pega_tune.autotune.cuda.lanes import Lane
from pega_tune.autotune.cuda.layout import Layout
from pega_tune.autotune.cuda.limits import MemoryLimits
from pega_tune.autotune.cuda.machinery import Machinery
from pega_tune.autotune.cuda.need import Need
from pega_tune.autotune.cuda.timing import time_transfer
from pega_tune.kernels.batch_call import BatchSignature
from pega_tune.kernels.batch_probe import BatchSupport, probe_batch
from pega_tune.kernels.compiling import compile_ptx, kernel_name, link_cubin
from pega_tune.kernels.context import PrimaryContext
from pega_tune.kernels.driver import DriverTable
from pega_tune.kernels.facts import DeviceFacts
from pega_tune.kernels.module import KernelFunction, Module
from pega_tune.kernels.plan import Backend, CopyPlan, PlanPair, Variant
from pega_tune.kernels.probe import NoDeviceError, list_devices
from pega_tune.kernels.shape import Direction

Bytes = NDArray[np.uint8]
EMPTY = 0xEE


@pytest.fixture(scope="session")
def gpu() -> DeviceFacts:
    """The first GPU; without one the test is skipped, for that reason alone."""
    try:
        return list_devices()[0]
    except NoDeviceError as error:
        pytest.skip(error.message)


@pytest.fixture
def context(gpu: DeviceFacts) -> Iterator[PrimaryContext]:
    """A context of the first GPU."""
    with PrimaryContext(0) as made:
        yield made


@pytest.fixture(scope="session")
def cuda_engine_factory(gpu: DeviceFacts) -> CudaEngineFactory:
    """Makes engines of the first GPU that hold little memory."""
    return CudaEngineFactory(gpu.uuid, 512 << 20, 512 << 20)


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """Both slabs before and after a transfer."""

    host_before: Bytes
    device_before: Bytes
    host_after: Bytes
    device_after: Bytes


class Rig:
    """Copy kernels and lanes of their own in the current context.

    Attributes:
        functions: the copy kernels.
        machinery: what its lanes share.
        staging_bytes: of the staging buffers from the next run on.
    """

    def __init__(self, facts: DeviceFacts, batch: BatchSignature | None = None) -> None:
        self._stack = ExitStack()
        self.staging_bytes = 16 << 20
        capability, cache = facts.identity.compute_capability, user_compile_cache()
        self.functions: dict[Variant, KernelFunction] = {}
        for variant in Variant:
            cubin = link_cubin(compile_ptx(variant, capability, cache), capability, cache)
            self.functions[variant] = self._stack.enter_context(Module(cubin)).function(kernel_name(variant))
        self.machinery = Machinery(DriverTable.resolve(), self.functions, batch)
        self._lanes = {way: self._stack.enter_context(Lane(way, self.machinery)) for way in Direction.BOTH.legs}
        self._buffers = self._stack.enter_context(Buffers(MemoryLimits(1 << 30, 1 << 30)))

    def __enter__(self) -> "Rig":
        return self

    def __exit__(self, *_error: object) -> None:
        self._stack.close()

    def run(self, direction: Direction, plan: CopyPlan, layout: Layout, seed: int = 0) -> Outcome:
        """Runs a plan between random sources and empty destinations."""
        self._reserve({direction: layout}, staged=plan.backend is Backend.STAGED)
        lane = self._lanes[direction]
        before = self._set_up(direction, layout, seed)
        time_transfer([lane.run(lane.slabs.batch(layout), plan)])
        return self._outcome(direction, layout, before)

    def run_fused(self, pair: PlanPair, layouts: Mapping[Direction, Layout], seed: int = 0) -> dict[Direction, Outcome]:
        """Runs a fused pair as `run` does a plan."""
        self._reserve(layouts, staged=True)
        before = {way: self._set_up(way, layout, seed + i) for i, (way, layout) in enumerate(layouts.items())}
        load, save = (self._lanes[way].slabs.batch(layouts[way]) for way in Direction.BOTH.legs)
        time_transfer([self._lanes[Direction.H2D].run_fused(load, save, pair)])
        return {way: self._outcome(way, layout, before[way]) for way, layout in layouts.items()}

    def _reserve(self, layouts: Mapping[Direction, Layout], *, staged: bool) -> None:
        """Gives every direction what the largest count and the largest extent take: a fused pair uses one lane."""
        ranges = max(len(layout.nbytes) for layout in layouts.values())
        need = Need.of(ranges, max(layout.extent_bytes for layout in layouts.values()))
        if staged:
            need = need.staged(self.staging_bytes).fused()
        self._buffers.reserve(dict.fromkeys(layouts, need))
        for direction in layouts:
            self._lanes[direction].attach(self._buffers[direction])

    def _set_up(self, direction: Direction, layout: Layout, seed: int) -> tuple[Bytes, Bytes]:
        host, device = self._contents(direction, layout, seed)
        lane, mirror = self._lanes[direction], self._buffers.mirror[: layout.extent_bytes]
        mirror[:] = device
        lane.upload(mirror)
        lane.host[: layout.extent_bytes] = host
        return host, device

    def _outcome(self, direction: Direction, layout: Layout, before: tuple[Bytes, Bytes]) -> Outcome:
        lane, mirror = self._lanes[direction], self._buffers.mirror[: layout.extent_bytes]
        lane.download(mirror)
        return Outcome(*before, lane.host[: layout.extent_bytes].copy(), mirror.copy())

    def _contents(self, direction: Direction, layout: Layout, seed: int) -> tuple[Bytes, Bytes]:
        data = np.random.default_rng(seed).integers(0, 256, layout.extent_bytes, np.uint8)
        empty = np.full(layout.extent_bytes, EMPTY, np.uint8)
        return (data, empty) if direction is Direction.H2D else (empty, data)


@pytest.fixture(scope="session")
def batch_support(gpu: DeviceFacts) -> BatchSupport:
    """Whether the first GPU copies in batches."""
    return probe_batch(0)


@pytest.fixture
def rig(gpu: DeviceFacts, batch_support: BatchSupport, context: PrimaryContext) -> Iterator[Rig]:
    """A rig on the first GPU."""
    with Rig(gpu, batch_support.signature) as made:
        yield made


def assert_exact(outcome: Outcome, direction: Direction, layout: Layout) -> None:
    """The ranges have arrived, nothing else has changed on either side."""
    host, device = outcome.host_before.copy(), outcome.device_before.copy()
    columns = (layout.host_offsets.tolist(), layout.device_offsets.tolist(), layout.nbytes.tolist())
    for here, there, size in zip(*columns, strict=True):
        if direction is Direction.H2D:
            device[there : there + size] = host[here : here + size]
        else:
            host[here : here + size] = device[there : there + size]
    for name, expected, found in (("host", host, outcome.host_after), ("device", device, outcome.device_after)):
        wrong = np.flatnonzero(expected != found)
        assert not len(wrong), f"{len(wrong)} {name} bytes differ, first at offset {wrong[0]}"
