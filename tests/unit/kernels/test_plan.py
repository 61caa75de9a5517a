import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pega_tune.errors import UsageError
from pega_tune.kernels.plan import (
    AnyPlan,
    Backend,
    Completion,
    CopyPlan,
    KernelOptions,
    PlanPair,
    Variant,
    direct,
    kernel,
    plan_from_json,
)

options = st.builds(KernelOptions, st.integers(1, 65_535), st.none() | st.integers(1, 1 << 20))
common: dict[str, Any] = {
    "chunk_bytes": st.none() | st.integers(1, 1 << 40),
    "stream_priority": st.integers(-5, 0),
    "completion": st.sampled_from(Completion),
}
dma_plans = st.builds(CopyPlan, st.sampled_from([Backend.DIRECT, Backend.PITCHED]), **common) | st.builds(
    CopyPlan, st.just(Backend.BATCH), prefer_overlap=st.booleans(), **common
)
kernel_plans = st.builds(
    CopyPlan,
    st.sampled_from([Backend.KERNEL, Backend.STAGED]),
    st.sampled_from(Variant),
    st.integers(1, 32).map(lambda warps: 32 * warps),
    options,
    sm_partition=st.none() | st.integers(1, 132),
    **common,
)
plans = (dma_plans | kernel_plans).flatmap(
    lambda plan: st.builds(replace, st.just(plan), backpressure=st.booleans() if plan.is_chunked else st.just(True))
)
any_plans = plans | st.builds(PlanPair, plans, plans, st.booleans())


@given(any_plans)
def test_a_plan_survives_json(plan: AnyPlan) -> None:
    assert plan_from_json(json.loads(json.dumps(plan.to_json()))) == plan


@given(any_plans, any_plans)
def test_keys_are_equal_for_equal_plans_alone(one: AnyPlan, other: AnyPlan) -> None:
    assert (one.key == other.key) == (one == other)


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (lambda: CopyPlan(Backend.KERNEL), "belong to kernel plans"),
        (lambda: CopyPlan(Backend.DIRECT, Variant.WARP, 256, KernelOptions()), "belong to kernel plans"),
        (lambda: CopyPlan(Backend.KERNEL, Variant.WARP, 256), "belong to kernel plans"),
        (lambda: kernel(Variant.WARP, 0, 256), "max_grid_blocks is 1 to 65535, not 0"),
        (lambda: kernel(Variant.WARP, 65_536, 256), "max_grid_blocks is 1 to 65535, not 65536"),
        (lambda: kernel(Variant.WARP, 1, 100), "multiple of 32 up to 1024, not 100"),
        (lambda: kernel(Variant.WARP, 1, 2048), "multiple of 32 up to 1024, not 2048"),
        (lambda: kernel(Variant.WARP, 1, 0), "multiple of 32 up to 1024, not 0"),
        (lambda: KernelOptions(1, 0), "chunk_descriptors is at least 1, not 0"),
        (lambda: CopyPlan(Backend.DIRECT, chunk_bytes=0), "chunk_bytes is at least 1, not 0"),
        (lambda: CopyPlan(Backend.DIRECT, backpressure=False), "nothing to hold back"),
        (lambda: CopyPlan(Backend.BATCH, sm_partition=8), "plans with a kernel, not for batch"),
        (lambda: replace(kernel(Variant.WARP, 1, 256), sm_partition=0), "sm_partition is at least 1, not 0"),
        (lambda: CopyPlan(Backend.DIRECT, prefer_overlap=True), "for batch plans, not for direct"),
    ],
)
def test_what_cannot_run_is_refused(make: Any, complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        make()


def test_a_plan_stored_before_backpressure_was_an_option_has_it() -> None:
    stored = replace(direct(), chunk_bytes=4096).to_json()
    del stored["backpressure"]
    assert plan_from_json(stored) == replace(direct(), chunk_bytes=4096)


def test_partitions_and_hints_are_stored_by_the_plans_that_have_them() -> None:
    newer = {"sm_partition", "prefer_overlap"}
    assert newer.isdisjoint(kernel(Variant.WARP, 2, 256).to_json())
    assert newer.isdisjoint(CopyPlan(Backend.BATCH).to_json())
    assert replace(kernel(Variant.WARP, 2, 256), sm_partition=16).to_json()["sm_partition"] == 16
    assert CopyPlan(Backend.BATCH, prefer_overlap=True).to_json()["prefer_overlap"] is True


@pytest.mark.parametrize("sms", [16.0, True, "16"])
def test_a_partition_is_a_whole_number_of_sms(sms: object) -> None:
    with pytest.raises(TypeError, match="whole number"):
        plan_from_json(kernel(Variant.WARP, 2, 256).to_json() | {"sm_partition": sms})


def test_a_plan_says_what_it_is() -> None:
    assert CopyPlan(Backend.BATCH, prefer_overlap=True).key == "batch prefer-overlap"
    assert replace(kernel(Variant.WARP, 64, 256, -5), sm_partition=16).key == (
        "kernel/warp grid=64 threads=256 prio=-5 sms=16"
    )
    assert replace(direct(), chunk_bytes=4096).key == "direct chunk_bytes=4096"
    assert replace(direct(), chunk_bytes=4096, backpressure=False).key == "direct chunk_bytes=4096 enqueue-only"
    assert direct().key == "direct"
    assert kernel(Variant.WARP, 2, 1024, -5).key == "kernel/warp grid=2 threads=1024 prio=-5"
    assert PlanPair(direct(), direct()).key == "2 x direct"
    assert PlanPair(direct(), kernel(Variant.BLOCK, 8, 256)).key == (
        "load direct | save kernel/block grid=8 threads=256"
    )


def test_only_kernels_keep_threads_on_the_sms() -> None:
    assert direct().resident_threads == 0
    assert PlanPair(kernel(Variant.WARP, 2, 1024), direct()).resident_threads == 2048


def test_a_partition_bounds_the_threads_on_the_sms() -> None:
    wide, narrow = kernel(Variant.WARP, 128, 256), kernel(Variant.WARP, 2, 1024)
    assert replace(wide, sm_partition=8).resident_threads == 8 * 2048
    assert replace(narrow, sm_partition=8).resident_threads == narrow.resident_threads
