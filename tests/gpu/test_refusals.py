"""Calls that the driver must refuse; a memory checker reports them, so it is run without this file."""

import pytest

from pega_tune.kernels.context import PrimaryContext
from pega_tune.kernels.driver import DriverCallError
from pega_tune.kernels.memory import DeviceMemory, OutOfDeviceMemoryError, OutOfPinnedMemoryError, PinnedMemory
from pega_tune.kernels.module import Module
from pega_tune.kernels.plan import Variant
from pega_tune.kernels.stream import Event, Stream, elapsed_s
from pega_tune.kernels.submit import KernelLaunch, KernelSubmitter
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
    ):
        target.view()[:32] = EMPTY
        target.view()[32:] = 0
        staging.view()[:24].view("u8")[:] = (target.alias + 32, target.alias, 32)
        submitter = KernelSubmitter(rig.machinery.table, staging.address, descriptors.address)
        handle = rig.functions[Variant.WARP].handle
        with pytest.raises(DriverCallError, match="cuLaunchKernel") as caught:
            submitter.submit(KernelLaunch(handle, grid_blocks=0, threads=256, descriptors=1), stream.handle)
        assert not caught.value.is_sticky
        submitter.submit(KernelLaunch(handle, grid_blocks=1, threads=256, descriptors=1), stream.handle)
        stream.synchronize()
        assert (target.view() == EMPTY).all()
