import numpy as np
import pytest

from pega_tune.errors import UsageError
from pega_tune.kernels.context import PrimaryContext
from pega_tune.kernels.driver import DriverTable
from pega_tune.kernels.memory import DeviceMemory, PinnedMemory
from pega_tune.kernels.stream import Event, Stream, effective_priorities, elapsed_s, priority_range
from pega_tune.kernels.stream_options import PriorityRange
from pega_tune.kernels.waiting import wait_event

pytestmark = pytest.mark.gpu

MIB = 1 << 20


def test_priorities_are_the_effective_ones(context: PrimaryContext) -> None:
    bounds = priority_range()
    priorities = effective_priorities()
    assert priorities == tuple(range(bounds.weakest, bounds.strongest - 1, -1))
    for priority in priorities:
        with Stream(priority) as stream:
            assert stream.priority == priority


def test_the_driver_clamps_without_a_word_and_we_do_not(context: PrimaryContext) -> None:
    bounds = priority_range()
    with Stream(bounds.strongest - 99) as strong, Stream(bounds.weakest + 99) as weak:
        assert (strong.priority, weak.priority) == (bounds.strongest, bounds.weakest)
    for priority in (bounds.strongest - 1, bounds.weakest + 1):
        with pytest.raises(UsageError, match=str(priority)):
            bounds.require(priority)
    PriorityRange(0, -5).require(-5)


def test_a_round_trip_through_device_memory(context: PrimaryContext) -> None:
    with PinnedMemory(4 * MIB) as pinned, DeviceMemory(4 * MIB) as device, Stream() as stream:
        data = np.random.default_rng(1).integers(0, 256, 4 * MIB, np.uint8)
        pinned.view()[:] = data
        stream.copy_to_device(device.address, pinned.address, pinned.nbytes)
        stream.set_bytes(device.address + 5, 0xAB, 3)
        stream.synchronize()
        pinned.view()[:] = 0
        stream.copy_to_host(pinned.address, device.address, pinned.nbytes)
        stream.synchronize()
        data[5:8] = 0xAB
        assert (pinned.view() == data).all()


def test_the_alias_is_the_same_memory(context: PrimaryContext) -> None:
    with PinnedMemory(4096) as pinned, Stream() as stream:
        pinned.view()[:] = 1
        stream.set_bytes(pinned.alias + 100, 7, 50)
        stream.synchronize()
        assert pinned.view().tolist() == [1] * 100 + [7] * 50 + [1] * (4096 - 150)


def test_closing_gives_memory_back(context: PrimaryContext) -> None:
    with DeviceMemory(256 * MIB):
        held = context.memory().free_bytes
    assert context.memory().free_bytes - held >= 256 * MIB
    memory = PinnedMemory(4096)
    memory.close()
    memory.close()
    with pytest.raises(ValueError, match="closed"):
        memory.view()


def test_events_happen_after_the_work_before_them(context: PrimaryContext) -> None:
    with (
        PinnedMemory(64 * MIB) as pinned,
        DeviceMemory(64 * MIB) as device,
        Stream() as stream,
        Event(timing=True) as start,
        Event(timing=True) as end,
    ):
        stream.record(start)
        for _ in range(10):
            stream.copy_to_device(device.address, pinned.address, pinned.nbytes)
        stream.record(end)
        assert not end.happened()  # 640 MiB take milliseconds
        wait_event(DriverTable.resolve(), end.handle)
        assert end.happened()
        assert 640 * MIB / 1e12 < elapsed_s(start, end) < 10


def test_the_context_can_be_made_again(context: PrimaryContext) -> None:
    with PrimaryContext(0) as inner:
        assert inner.memory().total_bytes == context.memory().total_bytes
    context.close()
    with PrimaryContext(0) as again, DeviceMemory(MIB):
        again.synchronize()
