"""SM-seconds and resident time on a real device."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from pega_tune.autotune.cuda.factory import CudaEngineFactory
from pega_tune.autotune.engine import Engine, Measurement, Phase, Status
from pega_tune.kernels.backends.staged import staged
from pega_tune.kernels.plan import CopyPlan, KernelOptions, Variant, direct, kernel
from pega_tune.kernels.shape import Direction, TransferShape
from tests.helpers.engines import transfer_block

pytestmark = pytest.mark.gpu

RANGES, MIB = 4096, 1 << 20
CHUNKED = replace(kernel(Variant.WARP, 4, 256), options=KernelOptions(4, 512))
PLANS = (direct(), kernel(Variant.WARP, 1, 1024), kernel(Variant.BLOCK, 65_535, 256), CHUNKED, staged(8, 256))


@pytest.fixture(scope="module")
def engine(cuda_engine_factory: CudaEngineFactory) -> Iterator[Engine]:
    engine = cuda_engine_factory()
    yield engine
    engine.close()


def firsts(engine: Engine, plans: tuple[CopyPlan, ...], direction: Direction) -> list[Measurement]:
    """The first timed round of each plan."""
    measured = list(engine.transfer(transfer_block(TransferShape(RANGES, 16 * MIB, direction), plans)))
    assert {m.status for m in measured} == {Status.OK}, [m.detail for m in measured if m.detail]
    timed = [m for m in measured if m.phase is Phase.TIMED]
    return [next(m for m in timed if m.candidate == number + 1) for number in range(len(plans))]


@pytest.mark.parametrize("direction", list(Direction))
def test_kernels_are_on_the_device_for_no_longer_than_their_transfer_and_on_no_more_sms_than_ctas(
    engine: Engine, direction: Direction
) -> None:
    copies, *kernels = firsts(engine, PLANS, direction)
    assert (copies.sm_s, copies.span_s) == (0.0, 0.0)
    sms = engine.facts.identity.sm_count
    for plan, found in zip(PLANS[1:], kernels, strict=True):
        assert found.sm_s is not None
        assert found.span_s is not None
        assert plan.options
        ctas = min(plan.options.max_grid_blocks, sms) * len(direction.legs)
        assert 0 < found.sm_s <= ctas * found.span_s * 1.001
        assert found.span_s < 2 * found.transfer_s  # two executions, neither of which is the other


def test_one_cta_is_on_one_sm_all_the_time(engine: Engine) -> None:
    (found,) = firsts(engine, (kernel(Variant.WARP, 1, 1024),), Direction.H2D)
    assert found.sm_s == pytest.approx(found.span_s)
