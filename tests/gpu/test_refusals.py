"""Calls that the driver must refuse; a memory checker reports them, so it is run without this file."""

import pytest

from pega_tune.kernels.context import PrimaryContext
from pega_tune.kernels.descriptors import DESCRIPTOR_BYTES
from pega_tune.kernels.driver import DriverCallError
from pega_tune.kernels.event_pool import EventPool
from pega_tune.kernels.executor import Execution
from pega_tune.kernels.memory import DeviceMemory, OutOfDeviceMemoryError, OutOfPinnedMemoryError, PinnedMemory
from pega_tune.kernels.module import Module
from pega_tune.kernels.plan import Variant
from pega_tune.kernels.program import Launch, ProgramBuilder, Route
from pega_tune.kernels.shape import Direction
from pega_tune.kernels.stream import Event, Stream, elapsed_s
from tests.helpers.gpu import EMPTY, Rig

pytestmark = pytest.mark.gpu

MIB = 1 << 20


def test_out_of_memory_says_which(context: PrimaryContext) -> None:
    with pytest.raises(OutOfDeviceMemoryError, match="device memory"):
        DeviceMemory(context.memory().total_bytes * 2)
    with pytest.raises(OutOfPinnedMemoryError, match="pinned host memory"):
        PinnedMemory(1 << 46)
    with DeviceMemory(MIB), PinnedMemory(MIB):
        pass


def test_an_event_without_timing_has_none(context: PrimaryContext) -> None:
    with Stream() as stream, Event() as start, Event() as end:
        stream.record(start)
        stream.record(end)
        end.synchronize()
        with pytest.raises(DriverCallError, match="cuEventElapsedTime"):
            elapsed_s(start, end)


def test_junk_is_no_module(context: PrimaryContext) -> None:
    with pytest.raises(DriverCallError, match="cuModuleLoadData") as caught:
        Module(b"no machine code" * 100)
    assert not caught.value.is_sticky
    context.synchronize()


def test_no_grid_is_refused_and_the_next_launch_runs(rig: Rig) -> None:
    with (
        PinnedMemory(4096) as staging,
        DeviceMemory(4096) as descriptors,
        PinnedMemory(64) as target,
        Stream() as stream,
        EventPool() as events,
    ):
        target.view()[:32] = EMPTY
        target.view()[32:] = 0
        staging.view()[:24].view("u8")[:] = (target.alias + 32, target.alias, 32)

        def submit(grid_blocks: int) -> None:
            builder = ProgramBuilder(Route(stream.handle, stream.handle, events))
            builder.copy(Direction.H2D, (descriptors.address, staging.address), DESCRIPTOR_BYTES)
            builder.launch(Launch(rig.functions[Variant.WARP].handle, grid_blocks, 256, (descriptors.address, 1)))
            Execution(rig.machinery.table, builder.finish()).advance()

        with pytest.raises(DriverCallError, match="cuLaunchKernel") as caught:
            submit(0)
        assert not caught.value.is_sticky
        submit(1)
        stream.synchronize()
        assert (target.view() == EMPTY).all()
