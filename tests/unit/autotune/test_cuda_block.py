"""Blocks on lanes that move bytes between arrays, and that fail on demand."""

import ctypes
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest
from numpy.typing import NDArray

from pega_tune.autotune.cuda.abilities import Abilities
from pega_tune.autotune.cuda.bench import Bench, OddTransfers
from pega_tune.autotune.cuda.block import BlockRunner
from pega_tune.autotune.cuda.buffers import Buffers, Slabs
from pega_tune.autotune.cuda.comparing import POISON, Comparer
from pega_tune.autotune.cuda.limits import MemoryLimits
from pega_tune.autotune.cuda.sampling import LoadSampler
from pega_tune.autotune.cuda.verifying import Verifier
from pega_tune.autotune.engine import EngineLostError, Measurement, MemoryLimitError, Phase, Status, TransferBlock
from pega_tune.autotune.measuring.schedule import run_block
from pega_tune.kernels.backends.base import UnsupportedPlanError
from pega_tune.kernels.driver import DriverCallError
from pega_tune.kernels.plan import Backend, CopyPlan, direct
from pega_tune.kernels.ranges import RangeBatch
from pega_tune.kernels.shape import Direction, TransferShape
from pega_tune.kernels.stream_options import PriorityRange
from pega_tune.kernels.telemetry import TelemetrySample
from tests.helpers.engines import BLOCK, WARP, transfer_block, unsupported_plan
from tests.helpers.heap import Heap

ILLEGAL_ADDRESS, INVALID_VALUE = 700, 1
SMALL = TransferShape(20, 20 * 100 + 7, Direction.BOTH)

Fault = Callable[["FakeRun"], None]


@dataclass
class FakeRun:
    """A transfer that runs when it is submitted."""

    lane: "FakeLane"
    batch: RangeBatch
    plan: CopyPlan

    def rehearse(self) -> None:
        pass

    def prepare(self) -> None:
        pass

    def submit(self, _commands: int | None = None) -> None:
        self.lane.runs.append((self.plan, len(self.batch)))
        for device, host, size in zip(*(c.tolist() for c in self._columns()), strict=True):
            pair = (device, host) if self.lane.direction is Direction.H2D else (host, device)
            ctypes.memmove(*pair, size)
        fault = self.lane.faults.get(self.plan)
        if fault:
            fault(self)

    def wait(self, _others: Sequence["FakeRun"] = ()) -> float:
        return 0.0

    def device_s(self) -> float:
        return self.lane.device_s

    def destination(self) -> int:
        return int((self.batch.device if self.lane.direction is Direction.H2D else self.batch.host)[0])

    def _columns(self) -> tuple[NDArray[np.uint64], ...]:
        return self.batch.device, self.batch.host, self.batch.nbytes


@dataclass
class FakeLane:
    direction: Direction
    faults: dict[CopyPlan, Fault] = field(default_factory=dict)
    device_s: float = 1e-6
    runs: list[tuple[CopyPlan, int]] = field(default_factory=list)
    slabs: Slabs | None = None

    def attach(self, slabs: Slabs) -> None:
        self.slabs = slabs

    @property
    def host(self) -> NDArray[np.uint8]:
        assert self.slabs
        return self.slabs.host

    def poison_device(self, value: int, nbytes: int) -> None:
        assert self.slabs
        ctypes.memset(self.slabs.device_address, value, nbytes)

    def upload(self, data: NDArray[np.uint8]) -> None:
        assert self.slabs
        ctypes.memmove(self.slabs.device_address, data.ctypes.data, data.nbytes)

    def download(self, data: NDArray[np.uint8]) -> None:
        assert self.slabs
        ctypes.memmove(data.ctypes.data, self.slabs.device_address, data.nbytes)

    def run(self, batch: RangeBatch, plan: CopyPlan) -> FakeRun:
        return FakeRun(self, batch, plan)


@dataclass
class FakeContext:
    """A context whose waiting fails with `status`."""

    status: int = 0

    def synchronize(self) -> None:
        if self.status:
            raise DriverCallError("cuCtxSynchronize", self.status)


class FakeTelemetry:
    unknown = ""
    samples = 0

    def sample(self) -> TelemetrySample:
        self.samples += 1
        return TelemetrySample()

    def compute_pids(self) -> tuple[int, ...]:
        return (42,)


class Equipment:
    """A bench of fakes."""

    def __init__(self, comparer: Comparer) -> None:
        self.lanes = {way: FakeLane(way) for way in Direction.BOTH.legs}
        self.context = FakeContext()
        self.telemetry = FakeTelemetry()
        self.heap = Heap()
        buffers = Buffers(MemoryLimits(128 << 20, 128 << 20), self.heap.allocators())
        abilities = Abilities(PriorityRange(0, -5), 1024)
        self._bench = Bench(self.context, self.lanes, buffers, Verifier(comparer, POISON), abilities)  # type: ignore[arg-type]
        self._odd = OddTransfers(self._bench)

    def run(self, block: TransferBlock) -> list[Measurement]:
        sampler = LoadSampler(self.telemetry, 42, None)
        return list(run_block(block, BlockRunner(block, self._bench, self._odd, sampler).execute))

    def fail(self, plan: CopyPlan, fault: Fault, direction: Direction = Direction.D2H) -> None:
        self.lanes[direction].faults[plan] = fault

    @property
    def runs(self) -> Counter[tuple[CopyPlan, int]]:
        return Counter(run for lane in self.lanes.values() for run in lane.runs)


@pytest.fixture
def equipment() -> Iterator[Equipment]:
    with Comparer(2) as comparer:
        yield Equipment(comparer)


def _statuses(measurements: list[Measurement], candidate: int) -> set[Status]:
    return {m.status for m in measurements if m.candidate == candidate}


def _flip(run: FakeRun) -> None:
    ctypes.c_uint8.from_address(run.destination()).value ^= 1


def _overrun(run: FakeRun) -> None:
    last = run.destination() + int(run.batch.nbytes[0])
    ctypes.c_uint8.from_address(last).value ^= 1


def _raise(status: int) -> Fault:
    def fault(run: FakeRun) -> None:
        raise DriverCallError("cuLaunchKernel", status)

    return fault


@pytest.mark.parametrize("direction", list(Direction))
def test_a_block_without_faults(equipment: Equipment, direction: Direction) -> None:
    measurements = equipment.run(transfer_block(TransferShape(20, 2007, direction)))
    assert {m.status for m in measurements} == {Status.OK}
    assert all(m.device_s == 1e-6 for m in measurements if m.phase is Phase.TIMED)


@pytest.mark.parametrize("fault", [_flip, _overrun])
@pytest.mark.parametrize("direction", list(Direction.BOTH.legs))
def test_a_wrong_byte_takes_the_plan_out_before_it_is_timed(
    equipment: Equipment, fault: Fault, direction: Direction
) -> None:
    equipment.fail(WARP, fault, direction)
    measurements = equipment.run(transfer_block(SMALL))
    wrong = [m for m in measurements if m.candidate == 2]
    assert [(m.status, m.phase) for m in wrong] == [(Status.MISMATCH, Phase.VERIFY)]
    assert wrong[0].detail.startswith(f"odd sizes and addresses: {direction}: ")
    assert _statuses(measurements, 3) == {Status.OK}


def test_a_fault_of_this_shape_alone_is_found_too(equipment: Equipment) -> None:
    equipment.fail(WARP, lambda run: _flip(run) if len(run.batch) == SMALL.merged_ranges else None)
    measurements = equipment.run(transfer_block(SMALL))
    assert _statuses(measurements, 2) == {Status.MISMATCH}


def test_the_ceiling_is_verified_as_well(equipment: Equipment) -> None:
    equipment.fail(direct(), lambda run: _flip(run) if len(run.batch) == 1 else None)
    measurements = equipment.run(transfer_block(SMALL))
    assert _statuses(measurements, 0) == {Status.MISMATCH}
    assert _statuses(measurements, 1) == {Status.OK}


def test_the_ceiling_moves_one_range_and_the_plans_all(equipment: Equipment) -> None:
    equipment.run(transfer_block(SMALL, plans=(WARP,)))
    sizes = {(plan.backend, count) for plan, count in equipment.runs if count in (1, SMALL.merged_ranges)}
    assert sizes == {(Backend.DIRECT, 1), (Backend.KERNEL, SMALL.merged_ranges)}


def test_odd_transfers_are_verified_once_per_plan_and_direction(equipment: Equipment) -> None:
    for shape in (SMALL, TransferShape(30, 3000, Direction.BOTH), TransferShape(10, 1000, Direction.H2D)):
        equipment.run(transfer_block(shape, plans=(WARP, BLOCK)))
    odd = {run: times for run, times in equipment.runs.items() if run[1] > 4000}
    assert {plan for plan, _ in odd} == {WARP, BLOCK}
    assert set(odd.values()) == {2}


def test_each_candidate_is_warmed_up_once_and_sampled_meanwhile(equipment: Equipment) -> None:
    block = transfer_block(SMALL, plans=(WARP,))
    equipment.run(block)
    rounds = block.limits.max_rounds
    assert equipment.telemetry.samples == len(block.candidates)
    assert equipment.runs[WARP, SMALL.merged_ranges] == 2 * (1 + 1 + 2 * rounds)  # verified, warmed up, timed twice


def test_a_plan_that_cannot_run_is_unsupported(equipment: Equipment) -> None:
    measurements = equipment.run(transfer_block(SMALL, plans=(unsupported_plan(), WARP)))
    assert _statuses(measurements, 1) == {Status.UNSUPPORTED}
    assert not [plan for plan, _ in equipment.runs if plan == unsupported_plan()]


def test_a_plan_that_a_backend_refuses_is_unsupported(equipment: Equipment) -> None:
    def refuse(run: FakeRun) -> None:
        raise UnsupportedPlanError("not with these ranges")

    equipment.fail(WARP, refuse)
    measurements = equipment.run(transfer_block(SMALL))
    assert [(m.status, m.detail) for m in measurements if m.candidate == 2] == [
        (Status.UNSUPPORTED, "not with these ranges")
    ]


def test_a_call_that_fails_costs_the_candidate(equipment: Equipment) -> None:
    equipment.fail(WARP, _raise(INVALID_VALUE))
    measurements = equipment.run(transfer_block(SMALL))
    assert [(m.status, m.detail) for m in measurements if m.candidate == 2] == [
        (Status.INVALID, "cuLaunchKernel failed with 1")
    ]
    assert _statuses(measurements, 3) == {Status.OK}


def test_a_lost_context_costs_the_engine(equipment: Equipment) -> None:
    equipment.fail(WARP, _raise(ILLEGAL_ADDRESS))
    with pytest.raises(EngineLostError, match="cuLaunchKernel failed with 700"):
        equipment.run(transfer_block(SMALL))


def test_a_failed_call_that_hides_a_lost_context_costs_the_engine(equipment: Equipment) -> None:
    equipment.fail(WARP, _raise(INVALID_VALUE))
    equipment.context.status = ILLEGAL_ADDRESS
    with pytest.raises(EngineLostError, match="cuCtxSynchronize"):
        equipment.run(transfer_block(SMALL))


@pytest.mark.parametrize("device_s", [0.0, -1.0])
def test_device_time_that_is_not_positive_is_no_measurement(equipment: Equipment, device_s: float) -> None:
    equipment.lanes[Direction.D2H].device_s = equipment.lanes[Direction.H2D].device_s = device_s
    measurements = equipment.run(transfer_block(SMALL, plans=(WARP,)))
    assert {m.status for m in measurements if m.phase is Phase.TIMED} == {Status.INVALID}


def test_a_context_lost_before_a_block_costs_the_engine(equipment: Equipment) -> None:
    equipment.heap.failure = DriverCallError("cuMemHostAlloc", ILLEGAL_ADDRESS)
    with pytest.raises(EngineLostError, match="the context is lost: cuMemHostAlloc"):
        equipment.run(transfer_block(SMALL))


def test_an_ordinary_failure_before_a_block_costs_that_block(equipment: Equipment) -> None:
    equipment.heap.failure = DriverCallError("cuMemHostAlloc", INVALID_VALUE)
    with pytest.raises(DriverCallError):
        equipment.run(transfer_block(SMALL))
    equipment.heap.failure = None
    assert equipment.run(transfer_block(SMALL))


def test_too_large_a_block_is_refused_before_anything_runs(equipment: Equipment) -> None:
    with pytest.raises(MemoryLimitError):
        equipment.run(transfer_block(TransferShape(4, 1 << 30, Direction.H2D)))
    assert not equipment.runs
    assert equipment.run(transfer_block(SMALL))
