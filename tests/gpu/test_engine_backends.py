"""Batch, pitched and staged plans, fused and in chunks, on a real device: every byte on both sides."""

from dataclasses import replace

import numpy as np
import pytest

from pega_tune.autotune.cuda.layout import Layout, equal_ranges, odd_ranges
from pega_tune.autotune.layouts import NamedLayout
from pega_tune.kernels.backends.staged import staged
from pega_tune.kernels.batch_probe import BatchSupport
from pega_tune.kernels.plan import (
    Backend,
    Completion,
    CopyPlan,
    KernelOptions,
    PlanPair,
    Variant,
    direct,
)
from pega_tune.kernels.shape import Direction, TransferShape
from tests.helpers.gpu import Rig, assert_exact

pytestmark = pytest.mark.gpu

LEGS = list(Direction.BOTH.legs)
H2D, D2H = LEGS
MIB = 1 << 20
ODD = odd_ranges(12)
BATCH, PITCHED = CopyPlan(Backend.BATCH), CopyPlan(Backend.PITCHED)
WITHOUT_BATCH = (
    PITCHED,
    replace(PITCHED, chunk_bytes=100_000),
    replace(PITCHED, chunk_bytes=100_000, backpressure=False),
    staged(),
    staged(1, 1024),
    staged(32, 1024, 100_000),
    replace(staged(chunk_bytes=100_000), backpressure=False),
    replace(staged(), stream_priority=-1),
)
CHUNKED = (
    replace(direct(), chunk_bytes=100_000),
    CopyPlan(Backend.KERNEL, Variant.WARP, 256, KernelOptions(8, 100)),
    CopyPlan(Backend.KERNEL, Variant.BLOCK, 256, KernelOptions(64, 100)),
)
LAYOUTS = ("contiguous", "strided", "shuffled", "host-ordered", "runs:100")


def laid_out(name: str, ranges: int, nbytes: int, seed: int = 5) -> Layout:
    named = NamedLayout.parse(name)
    return equal_ranges(named.described(TransferShape(ranges, ranges * nbytes)), seed, named)


@pytest.mark.parametrize("direction", LEGS)
@pytest.mark.parametrize("plan", WITHOUT_BATCH, ids=lambda plan: plan.key)
def test_sizes_1_to_4097_at_every_alignment(rig: Rig, plan: CopyPlan, direction: Direction) -> None:
    assert_exact(rig.run(direction, plan, ODD, seed=3), direction, ODD)


@pytest.mark.parametrize("direction", LEGS)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("nbytes", [4096, 1001])
def test_named_layouts_by_every_plan(rig: Rig, layout: str, nbytes: int, direction: Direction) -> None:
    placed = laid_out(layout, 2000, nbytes)
    for plan in (*WITHOUT_BATCH, *CHUNKED):
        assert_exact(rig.run(direction, plan, placed), direction, placed)


@pytest.mark.parametrize("direction", LEGS)
@pytest.mark.parametrize("count", [1, 5000, 120_000])
def test_batched_copies(rig: Rig, batch_support: BatchSupport, count: int, direction: Direction) -> None:
    if not batch_support.supported:
        pytest.skip(batch_support.reason)
    placed = laid_out("shuffled", count, 257)
    for plan in (BATCH, replace(BATCH, chunk_bytes=10 * MIB)):
        assert_exact(rig.run(direction, plan, placed), direction, placed)


@pytest.mark.parametrize("direction", LEGS)
def test_batched_copies_of_odd_sizes(rig: Rig, batch_support: BatchSupport, direction: Direction) -> None:
    if not batch_support.supported:
        pytest.skip(batch_support.reason)
    assert_exact(rig.run(direction, BATCH, ODD), direction, ODD)


@pytest.mark.parametrize("direction", LEGS)
@pytest.mark.parametrize("layout", ["host-ordered", "runs:3000"])
@pytest.mark.parametrize("chunk_bytes", [None, MIB + 7])
def test_staged_plans_stream_through_a_small_buffer(
    rig: Rig, chunk_bytes: int | None, layout: str, direction: Direction
) -> None:
    rig.staging_bytes = 2 * MIB
    placed = laid_out(layout, 9000, 4097)
    assert_exact(rig.run(direction, staged(chunk_bytes=chunk_bytes), placed), direction, placed)


@pytest.mark.parametrize("staging_bytes", [2 * MIB, 128 * MIB])
@pytest.mark.parametrize("chunk_bytes", [None, 333_333])
@pytest.mark.parametrize("layout", ["host-ordered", "runs:700"])
def test_a_fused_load_and_save(rig: Rig, layout: str, chunk_bytes: int | None, staging_bytes: int) -> None:
    rig.staging_bytes = staging_bytes
    plan = staged(chunk_bytes=chunk_bytes)
    layouts = {H2D: laid_out(layout, 3000, 4097, 1), D2H: laid_out(layout, 5000, 1500, 2)}
    outcomes = rig.run_fused(PlanPair(plan, plan, fused=True), layouts)
    for way, outcome in outcomes.items():
        assert_exact(outcome, way, layouts[way])


def test_a_fused_load_and_save_of_odd_sizes(rig: Rig) -> None:
    layouts = dict.fromkeys(LEGS, ODD)
    for way, outcome in rig.run_fused(PlanPair(staged(), staged(), fused=True), layouts).items():
        assert_exact(outcome, way, ODD)


@pytest.mark.parametrize("completion", list(Completion))
@pytest.mark.parametrize("direction", LEGS)
def test_contiguous_chunks_with_backpressure(rig: Rig, direction: Direction, completion: Completion) -> None:
    begin = np.array([4096], np.uint64)
    whole = Layout(begin, begin, np.array([64 * MIB + 5], np.uint64), 65 * MIB)
    plan = replace(direct(), chunk_bytes=4 * MIB, completion=completion)
    assert_exact(rig.run(direction, plan, whole), direction, whole)
