"""Kernels confined to the SMs of a Green Context, and batched copies that are asked to keep off the SMs."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from pega_tune.autotune.cuda.factory import CudaEngineFactory
from pega_tune.autotune.engine import Engine, Measurement, Phase, Status
from pega_tune.kernels.backends.staged import staged
from pega_tune.kernels.plan import Backend, CopyPlan, Variant, kernel
from pega_tune.kernels.shape import Direction, TransferShape
from tests.helpers.engines import transfer_block

pytestmark = pytest.mark.gpu

MIB = 1 << 20
WIDE = kernel(Variant.WARP, 128, 256)


@pytest.fixture(scope="module")
def engine(cuda_engine_factory: CudaEngineFactory) -> Iterator[Engine]:
    engine = cuda_engine_factory()
    yield engine
    engine.close()


def _run(engine: Engine, direction: Direction, *plans: CopyPlan) -> dict[CopyPlan, list[Measurement]]:
    block = transfer_block(TransferShape(4096, 16 * MIB, direction), plans)
    measurements = list(engine.transfer(block))
    return {plan: [m for m in measurements if m.candidate == i] for i, plan in enumerate(plans, 1)}


@pytest.mark.parametrize("direction", list(Direction))
def test_confined_kernels_move_every_byte_or_the_reason_is_told(engine: Engine, direction: Direction) -> None:
    support = engine.capabilities().partitions
    sizes = support.sizes
    if sizes is None:
        confined = replace(WIDE, sm_partition=8)
        (refused,) = _run(engine, direction, confined)[confined]
        assert (refused.status, bool(support.reason)) == (Status.UNSUPPORTED, True)
        assert support.reason in refused.detail
        return
    least, strongest = sizes.least_sms, engine.capabilities().priorities[-1]
    plans = [replace(plan, sm_partition=least) for plan in (WIDE, staged(), kernel(Variant.BLOCK, 64, 256))]
    plans += [replace(WIDE, sm_partition=sms) for sms in dict.fromkeys((sizes.rounded(2 * least), sizes.most_sms))]
    plans.append(replace(WIDE, sm_partition=least, stream_priority=strongest))
    for plan, measurements in _run(engine, direction, *dict.fromkeys(plans)).items():
        assert {m.status for m in measurements} == {Status.OK}, (plan.key, [m.detail for m in measurements])


def test_a_size_that_the_driver_would_round_is_unsupported(engine: Engine) -> None:
    sizes = engine.capabilities().partitions.sizes
    odd = replace(WIDE, sm_partition=1 if sizes is None else sizes.most_sms + 1)
    assert [m.status for m in _run(engine, Direction.H2D, odd)[odd]] == [Status.UNSUPPORTED]


def test_a_confined_kernel_is_on_no_more_sms_than_it_was_given(engine: Engine) -> None:
    sizes = engine.capabilities().partitions.sizes
    confined = replace(WIDE, sm_partition=8 if sizes is None else sizes.least_sms)
    told = [m for m in _run(engine, Direction.H2D, confined)[confined] if m.phase is Phase.TIMED and m.sm_s]
    assert bool(told) == (sizes is not None)
    for m in told:
        assert m.sm_s is not None
        assert m.span_s is not None
        assert m.sm_s <= 1.05 * (confined.sm_partition or 0) * m.span_s


@pytest.mark.parametrize("direction", list(Direction))
def test_batched_copies_that_keep_off_the_sms_move_every_byte(engine: Engine, direction: Direction) -> None:
    plan = CopyPlan(Backend.BATCH, prefer_overlap=True)
    works = engine.capabilities().batch.signature is not None
    expected = {Status.OK} if works else {Status.UNSUPPORTED}
    assert {m.status for m in _run(engine, direction, plan)[plan]} == expected
