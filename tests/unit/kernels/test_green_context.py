"""Green Contexts and their streams over a fake driver: what is made and destroyed in which order, and what fails."""

import pytest

from pega_tune.errors import DeviceError
from pega_tune.kernels.driver import DriverCallError, DriverMissingError
from pega_tune.kernels.green_context import GreenContext, GreenContexts, PartitionError, partition_sizes
from pega_tune.kernels.partition_trial import try_partitions
from pega_tune.kernels.stream import Stream, effective_priorities, priority_range
from pega_tune.kernels.stream_options import PartitionSizes, PartitionSupport, PriorityRange
from tests.helpers.fake_calls import DEVICE, FakeCalls

FUNCTION = 2**63 + 5
MAKING = ["cuDeviceGetDevResource", "cuDevSmResourceSplitByCount", "cuDevResourceGenerateDesc", "cuGreenCtxCreate"]


def test_a_context_is_made_of_a_part_of_the_device_and_destroyed_once() -> None:
    calls = FakeCalls()
    context = GreenContext(DEVICE, 16, calls)
    assert calls.functions == MAKING
    assert context.sms == 16
    assert calls.arguments("cuGreenCtxCreate") == [(("description", 16), DEVICE, 1)]
    context.close()
    context.close()
    assert calls.functions == [*MAKING, "cuGreenCtxDestroy"]
    assert calls.arguments("cuGreenCtxDestroy") == [(context.native,)]


@pytest.mark.parametrize("sms", [1, 12, 133])
def test_another_number_of_sms_than_asked_for_is_refused(sms: int) -> None:
    calls = FakeCalls()
    with pytest.raises(PartitionError, match=f"partition of {sms} SMs"):
        GreenContext(DEVICE, sms, calls)
    assert "cuGreenCtxCreate" not in calls.functions


def test_streams_are_made_in_the_partition_with_the_priority_and_destroyed_before_it() -> None:
    calls = FakeCalls(strongest=-2)
    with GreenContexts(DEVICE, calls) as contexts:
        with Stream(-5, contexts.of(8), calls) as stream, Stream(0, contexts.of(8), calls):
            assert stream.priority == -2
        assert calls.arguments("cuGreenCtxStreamCreate") == [
            (contexts.of(8).native, 1, -5),
            (contexts.of(8).native, 1, 0),
        ]
        contexts.of(16)
    made = [name for name in calls.functions if name.startswith(("cuGreenCtx", "cuStreamD"))]
    assert made == [
        "cuGreenCtxCreate",
        *["cuGreenCtxStreamCreate"] * 2,
        *["cuStreamDestroy"] * 2,
        "cuGreenCtxCreate",
        *["cuGreenCtxDestroy"] * 2,
    ]


def test_a_stream_whose_priority_cannot_be_read_is_not_left_behind() -> None:
    calls = FakeCalls(results={"cuStreamGetPriority": 1})
    with pytest.raises(DriverCallError, match="cuStreamGetPriority"):
        Stream(through=calls)
    assert calls.functions[-1] == "cuStreamDestroy"


def test_a_stream_without_a_partition_is_an_ordinary_one() -> None:
    calls = FakeCalls()
    with Stream(-1, through=calls) as stream:
        stream.synchronize()
    assert calls.functions == [
        "cuStreamCreateWithPriority",
        "cuStreamGetPriority",
        "cuStreamSynchronize",
        "cuStreamDestroy",
    ]


def test_destroying_in_a_lost_context_is_silent() -> None:
    calls = FakeCalls()
    context = GreenContext(DEVICE, 8, calls)
    stream = Stream(0, context, calls)
    calls.results = {"cuStreamDestroy": 700, "cuGreenCtxDestroy": 700}
    stream.close()
    context.close()
    assert calls.functions[-2:] == ["cuStreamDestroy", "cuGreenCtxDestroy"]


def test_destroying_that_fails_in_a_sound_context_is_told() -> None:
    calls = FakeCalls()
    context = GreenContext(DEVICE, 8, calls)
    calls.results = {"cuGreenCtxDestroy": 1}
    with pytest.raises(DriverCallError, match="cuGreenCtxDestroy failed with CUDA_ERROR_INVALID_VALUE"):
        context.close()


@pytest.mark.parametrize(
    ("calls", "sizes"),
    [
        (FakeCalls(), PartitionSizes(8, 8, 132)),
        (FakeCalls(sms=82, least=4, step=2), PartitionSizes(4, 2, 82)),
        (FakeCalls(sms=82, least=4, step=2, tells=False), PartitionSizes(4, 4, 82)),
        (FakeCalls(least=4, step=8), PartitionSizes(8, 8, 132)),
    ],
)
def test_sizes_are_those_of_the_driver(calls: FakeCalls, sizes: PartitionSizes) -> None:
    assert partition_sizes(DEVICE, calls) == sizes


def test_a_device_smaller_than_the_smallest_partition_has_none() -> None:
    with pytest.raises(PartitionError, match="has 8 SMs, and the device 4"):
        partition_sizes(DEVICE, FakeCalls(sms=4))


def test_the_trial_launches_a_kernel_that_copies_nothing_in_the_smallest_partition() -> None:
    calls = FakeCalls()
    assert try_partitions(DEVICE, FUNCTION, calls) == PartitionSupport(PartitionSizes(8, 8, 132))
    ((function, *grid, shared, _stream, parameters, extra),) = calls.arguments("cuLaunchKernel")
    assert (function, grid, shared, parameters[0], extra) == (FUNCTION, [1, 1, 1, 32, 1, 1], 0, (0, 0), 0)
    assert calls.functions[-5:] == [
        "cuStreamGetPriority",
        "cuLaunchKernel",
        "cuStreamSynchronize",
        "cuStreamDestroy",
        "cuGreenCtxDestroy",
    ]


@pytest.mark.parametrize(
    "function", [*MAKING, "cuGreenCtxStreamCreate", "cuLaunchKernel", "cuStreamSynchronize", "cuStreamGetPriority"]
)
@pytest.mark.parametrize("status", [1, None])
def test_whatever_fails_in_the_trial_is_the_reason_why_there_are_no_partitions(
    function: str, status: int | None
) -> None:
    support = try_partitions(DEVICE, FUNCTION, FakeCalls(results={function: status}))
    assert support.sizes is None
    assert function in support.reason
    assert support.refusal(8).endswith(support.reason)
    assert support.refusal(None) == ""


def test_a_trial_leaves_nothing_behind_when_it_fails() -> None:
    calls = FakeCalls(results={"cuLaunchKernel": 1})
    try_partitions(DEVICE, FUNCTION, calls)
    assert calls.functions[-2:] == ["cuStreamDestroy", "cuGreenCtxDestroy"]


def test_a_trial_that_costs_the_context_is_no_answer() -> None:
    with pytest.raises(DriverCallError, match="ILLEGAL_ADDRESS"):
        try_partitions(DEVICE, FUNCTION, FakeCalls(results={"cuStreamSynchronize": 700}))


def test_a_size_that_failed_is_tried_again() -> None:
    calls = FakeCalls(results={"cuGreenCtxCreate": 2})
    with GreenContexts(DEVICE, calls) as contexts:
        with pytest.raises(DeviceError, match="OUT_OF_MEMORY"):
            contexts.of(8)
        calls.results = {}
        assert contexts.of(8).sms == 8
    assert calls.functions.count("cuGreenCtxDestroy") == 1


def test_a_driver_without_green_contexts_is_named() -> None:
    with pytest.raises(DriverMissingError, match="cuDeviceGetDevResource"):
        GreenContext(DEVICE, 8, FakeCalls(results={"cuDeviceGetDevResource": None}))


@pytest.mark.parametrize(
    ("calls", "effective"),
    [
        (FakeCalls(), (0, -1, -2, -3, -4, -5)),
        (FakeCalls(strongest=-2), (0, -1, -2)),
        (FakeCalls(priorities=(0, 0)), (0,)),
    ],
)
def test_priorities_are_those_that_streams_get(calls: FakeCalls, effective: tuple[int, ...]) -> None:
    assert effective_priorities(calls) == effective
    assert priority_range(calls) == PriorityRange(*calls.priorities)
    assert calls.functions.count("cuStreamDestroy") == calls.functions.count("cuStreamCreateWithPriority")
