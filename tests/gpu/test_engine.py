"""What only a real device can show of the engine; the rest is in the contract suite."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from pega_tune.autotune.cuda.factory import CudaEngineFactory
from pega_tune.autotune.engine import CandidateKind, Engine, Measurement, Phase, Status, TransferBlock
from pega_tune.kernels.context import PrimaryContext
from pega_tune.kernels.plan import Variant, direct, kernel
from pega_tune.kernels.shape import Direction, TransferShape
from tests.helpers.engines import BLOCK, WARP, transfer_block

pytestmark = pytest.mark.gpu

MIB = 1 << 20


@pytest.fixture(scope="module")
def engine(cuda_engine_factory: CudaEngineFactory) -> Iterator[Engine]:
    engine = cuda_engine_factory()
    yield engine
    engine.close()


def _run(engine: Engine, block: TransferBlock) -> list[Measurement]:
    return list(engine.transfer(block))


@pytest.mark.parametrize("direction", list(Direction))
@pytest.mark.parametrize(("ranges", "size"), [(1, 4096), (4096, 4096), (512, 1001), (3, 5 * MIB)])
def test_plans_of_every_kind_are_verified_and_timed(
    engine: Engine, ranges: int, size: int, direction: Direction
) -> None:
    strongest = engine.capabilities().priorities[-1]
    plans = (direct(), WARP, BLOCK, kernel(Variant.WARP, 32, 256, strongest), kernel(Variant.BLOCK, 65_535, 1024))
    measurements = _run(engine, transfer_block(TransferShape(ranges, ranges * size, direction), plans))
    assert {m.status for m in measurements} == {Status.OK}, [m.detail for m in measurements if m.detail]
    assert {m.candidate for m in measurements if m.phase is Phase.TIMED} == set(range(len(plans) + 1))


def test_device_events_agree_with_the_host_clock(engine: Engine) -> None:
    block = transfer_block(TransferShape(4, 64 * MIB, Direction.H2D))
    ceiling = [c.kind for c in block.candidates].index(CandidateKind.CEILING)
    for m in _run(engine, block):
        if m.phase is Phase.TIMED and m.candidate == ceiling:
            assert m.device_s is not None
            assert 0.3 * m.transfer_s < m.device_s <= m.transfer_s


def test_telemetry_was_taken_under_load(engine: Engine) -> None:
    _run(engine, transfer_block(TransferShape(1024, 4 * MIB, Direction.BOTH)))
    conditions = engine.conditions()
    known = (conditions.sm_clock_hz, conditions.link, conditions.temperature_c)
    assert conditions.unknown or all(value is not None for value in known)


def test_priorities_that_streams_do_not_get_are_unsupported(engine: Engine) -> None:
    beyond = engine.capabilities().priorities[-1] - 1
    measurements = _run(engine, transfer_block(plans=(kernel(Variant.WARP, 2, 256, beyond), WARP)))
    assert [m.status for m in measurements if m.candidate == 1] == [Status.UNSUPPORTED]


def _resident_bytes() -> int:
    fields = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(fields["VmRSS"].split()[0]) * 1024


def test_memory_does_not_pile_up(engine: Engine) -> None:
    sizes = [size * MIB for size in (8, 16, 24, 32, 40, 48)]
    for size in sizes:
        _run(engine, transfer_block(TransferShape(16, size, Direction.BOTH), (WARP,)))
    before = _resident_bytes()
    for size in sizes * 2:
        _run(engine, transfer_block(TransferShape(16, size, Direction.BOTH), (WARP,)))
    assert _resident_bytes() - before < 32 * MIB


def test_a_closed_engine_gives_device_memory_back(
    context: PrimaryContext, cuda_engine_factory: CudaEngineFactory
) -> None:
    free = context.memory().free_bytes
    for _ in range(3):
        engine = cuda_engine_factory()
        _run(engine, transfer_block(TransferShape(16, 64 * MIB, Direction.BOTH), (WARP,)))
        engine.close()
    with PrimaryContext(0) as again:
        assert free - again.memory().free_bytes < 100 * MIB  # what the driver itself keeps; three engines are 400 MiB
