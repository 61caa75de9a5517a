"""Whole blocks: real verification, backends, worker, decode threads and processes, over a driver that moves bytes."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace

import pytest

from pega_tune.autotune.cuda.comparing import Comparer
from pega_tune.autotune.cuda.sampling import LoadSampler
from pega_tune.autotune.cuda.serving.decode import RunningDecode, Workload
from pega_tune.autotune.cuda.serving.decode_process import ProcessDecode
from pega_tune.autotune.cuda.serving.overlap import bench_copies
from pega_tune.autotune.cuda.serving.places import ColocationError
from pega_tune.autotune.cuda.serving.same_context import SameContextDecode
from pega_tune.autotune.cuda.serving.side import ServingDevice, ServingSide
from pega_tune.autotune.engine import EngineLostError, MemoryLimitError, Status
from pega_tune.autotune.serving import BASELINE, DecodeSpec, Pacing, Segment, ServingBlock
from pega_tune.errors import UsageError
from pega_tune.kernels.backends.staged import staged
from pega_tune.kernels.driver import DriverCallError
from pega_tune.kernels.plan import Completion, direct
from pega_tune.kernels.shape import Direction, TransferShape
from pega_tune.kernels.telemetry import TelemetrySample
from pega_tune.profiles.policy.terms import Colocation
from tests.helpers.engines import WARP, unsupported_plan
from tests.helpers.fake_probes import make_fake_probe
from tests.helpers.moving_lanes import MovingBench
from tests.helpers.serving_blocks import serving_block

BOTH = TransferShape(100, 100 * 512 + 3, Direction.BOTH)
PLANS = (direct(), replace(direct(), chunk_bytes=10_000), WARP, staged(), replace(WARP, completion=Completion.YIELD))
CLOCKED = TelemetrySample(1_980_000_000, None, (), 40)


class Telemetry:
    """Lists us, and nobody else."""

    unknown = ""

    def sample(self) -> TelemetrySample:
        return CLOCKED

    def compute_pids(self) -> tuple[int, ...]:
        return (42,)


class Rig:
    """A serving side over a bench of moving lanes, and the decode that it has started."""

    def __init__(self, comparer: Comparer, under_mps: bool = False) -> None:
        self.moving = MovingBench(comparer)
        self.sampler = LoadSampler(Telemetry(), 42, ())
        self.started: list[RunningDecode] = []
        self.failure: DriverCallError | None = None
        driver = self.moving.driver
        device = ServingDevice(0, self._start, lambda _ordinal: under_mps, lambda: driver.table)
        self.side = ServingSide(device, self.moving.bench, self.moving.odd, self.sampler)

    def run(self, block: ServingBlock) -> list[Segment]:
        return list(self.side.beside_decode(block))

    def _start(self, workload: Workload, colocation: Colocation) -> RunningDecode:
        if self.failure is not None:
            raise self.failure
        place = SameContextDecode if colocation is Colocation.SAME_CONTEXT else ProcessDecode
        self.started.append(place(workload, make_fake_probe))
        return self.started[-1]


@pytest.fixture(scope="module")
def comparer() -> Iterator[Comparer]:
    with Comparer(2) as made:
        yield made


@pytest.fixture
def make(comparer: Comparer) -> Iterator[Callable[..., Rig]]:
    with ExitStack() as stack:

        def build(**options: bool) -> Rig:
            rig = Rig(comparer, **options)
            stack.callback(rig.side.close)
            return rig

        yield build


def _block(colocation: Colocation = Colocation.SAME_CONTEXT, source: str = "ticking") -> ServingBlock:
    block = serving_block(colocation, PLANS, Pacing(period_s=0.01, bursts=3), shape=BOTH)
    return replace(block, decode=DecodeSpec(source))


@pytest.mark.parametrize("colocation", [Colocation.SAME_CONTEXT, Colocation.TIME_SLICED])
def test_a_block_is_whole(make: Callable[..., Rig], colocation: Colocation) -> None:
    rig = make()
    block = _block(colocation)
    segments = rig.run(block)
    assert {(s.status, s.detail) for s in segments} == {(Status.OK, "")}
    assert sorted(s.candidate for s in segments) == sorted(2 * [BASELINE, *range(len(block.candidates))])
    for segment in segments:
        assert len(segment.due) == (0 if segment.candidate == BASELINE else 3)
        assert segment.verified == (segment.candidate != BASELINE)
    conditions = rig.sampler.conditions()
    assert (conditions.sm_clock_hz, conditions.other_processes) == (CLOCKED.sm_clock_hz, ())


def test_every_way_of_running_a_burst_moves_what_was_verified(make: Callable[..., Rig]) -> None:
    block = _block()
    resting = replace(block, pacing=replace(block.pacing, sleep_s=1e-4))
    assert {s.status for s in make().run(resting)} == {Status.OK}


def test_one_decode_serves_the_blocks_that_want_it_and_ends_when_told(make: Callable[..., Rig]) -> None:
    rig = make()
    rig.run(_block())
    rig.run(replace(_block(), seed=8))
    assert len(rig.started) == 1
    rig.started[0].check()
    rig.side.quiet()
    assert rig.started[0].failure() is not None
    rig.run(_block())
    assert len(rig.started) == 2


def test_a_plan_that_cannot_run_leaves(make: Callable[..., Rig]) -> None:
    block = serving_block(Colocation.SAME_CONTEXT, (unsupported_plan(), WARP), Pacing(0.01, 2), shape=BOTH)
    segments = make().run(replace(block, decode=DecodeSpec("ticking")))
    failed = [(s.candidate, s.status) for s in segments if s.status is not Status.OK]
    assert failed == [(1, Status.UNSUPPORTED)]


@pytest.mark.parametrize(("under_mps", "colocation"), [(True, Colocation.TIME_SLICED), (False, Colocation.MPS)])
def test_a_process_in_the_wrong_place_measures_nothing(
    make: Callable[..., Rig], under_mps: bool, colocation: Colocation
) -> None:
    rig = make(under_mps=under_mps)
    with pytest.raises(ColocationError):
        rig.run(_block(colocation))
    assert rig.started == []


def test_decode_that_does_not_start_costs_the_block_alone(make: Callable[..., Rig]) -> None:
    rig = make()
    with pytest.raises(UsageError, match="no such workload"):
        rig.run(_block(source="refused"))
    assert {s.status for s in rig.run(_block())} == {Status.OK}


@pytest.mark.parametrize(("status", "error"), [(700, EngineLostError), (46, DriverCallError)])
def test_a_context_lost_before_a_block_costs_the_engine(
    make: Callable[..., Rig], status: int, error: type[Exception]
) -> None:
    rig = make()
    rig.failure = DriverCallError("cuGraphInstantiate", status)
    with pytest.raises(error):
        rig.run(_block())


def test_too_large_a_block_is_refused(make: Callable[..., Rig]) -> None:
    rig = make()
    with pytest.raises(MemoryLimitError):
        rig.run(replace(_block(), shape=TransferShape(4, 1 << 32, Direction.BOTH)))
    assert {s.status for s in rig.run(_block())} == {Status.OK}


def test_the_copies_of_the_overlap_test_run_on_a_bench(comparer: Comparer) -> None:
    copies = bench_copies(MovingBench(comparer).bench)
    for copy in (copies.chunked, *copies.whole):
        timing = copy()
        assert 0 < timing.submit_s <= timing.transfer_s
