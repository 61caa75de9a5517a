"""Streams of lanes over a fake driver."""

from dataclasses import replace

import pytest

from pega_tune.autotune.cuda.streams import StreamPairs
from pega_tune.kernels.backends.base import UnsupportedPlanError
from pega_tune.kernels.driver import DriverCallError
from pega_tune.kernels.green_context import GreenContexts
from pega_tune.kernels.plan import CopyPlan, Variant, direct, kernel
from tests.helpers.fake_calls import DEVICE, FakeCalls

WIDE = kernel(Variant.WARP, 128, 256)


def confined(sms: int, priority: int = 0) -> CopyPlan:
    return replace(WIDE, sm_partition=sms, stream_priority=priority)


def test_plans_of_one_priority_and_partition_share_their_streams() -> None:
    calls = FakeCalls()
    with GreenContexts(DEVICE, calls) as contexts, StreamPairs(contexts, calls) as pairs:
        found = {plan: pairs.of(plan) for plan in (direct(), confined(8), confined(16), confined(8, -5))}
        assert pairs.of(WIDE) == found[direct()]
        assert pairs.of(replace(confined(8), threads=1024)) == found[confined(8)]
        assert len({stream.handle for pair in found.values() for stream in pair}) == 8
        assert [stream.priority for stream in found[confined(8, -5)]] == [-5, -5]
    assert calls.functions.count("cuGreenCtxCreate") == calls.functions.count("cuGreenCtxDestroy") == 2
    assert calls.functions.count("cuStreamDestroy") == 8
    assert calls.functions[-10:] == [*["cuStreamDestroy"] * 8, *["cuGreenCtxDestroy"] * 2]


@pytest.mark.parametrize("function", ["cuDevSmResourceSplitByCount", "cuGreenCtxCreate", "cuGreenCtxStreamCreate"])
@pytest.mark.parametrize("status", [2, None])
def test_a_partition_that_cannot_be_made_is_unsupported_with_the_reason(function: str, status: int | None) -> None:
    calls = FakeCalls(results={function: status})
    with GreenContexts(DEVICE, calls) as contexts, StreamPairs(contexts, calls) as pairs:
        with pytest.raises(UnsupportedPlanError, match=f"a partition of 16 SMs does not work here: {function}"):
            pairs.of(confined(16))
        pairs.of(WIDE)


def test_a_size_that_the_device_does_not_have_is_unsupported() -> None:
    calls = FakeCalls()
    pairs = StreamPairs(GreenContexts(DEVICE, calls), calls)
    with pytest.raises(UnsupportedPlanError, match="a partition of 12 SMs would have 16"):
        pairs.of(confined(12))


def test_without_partitions_only_plans_with_one_are_unsupported() -> None:
    calls = FakeCalls()
    with StreamPairs(through=calls) as pairs:
        with pytest.raises(UnsupportedPlanError, match="do not work here"):
            pairs.of(confined(8))
        assert pairs.of(WIDE)
    assert not any(name.startswith("cuGreenCtx") for name in calls.functions)


@pytest.mark.parametrize("plan", [confined(8), WIDE])
def test_a_lost_context_stays_lost(plan: CopyPlan) -> None:
    calls = FakeCalls(results={"cuStreamGetPriority": 700})
    pairs = StreamPairs(GreenContexts(DEVICE, calls), calls)
    with pytest.raises(DriverCallError, match="ILLEGAL_ADDRESS"):
        pairs.of(plan)


def test_an_ordinary_stream_that_cannot_be_made_is_an_error() -> None:
    pairs = StreamPairs(through=FakeCalls(results={"cuStreamCreateWithPriority": 2}))
    with pytest.raises(DriverCallError, match="OUT_OF_MEMORY"):
        pairs.of(WIDE)
