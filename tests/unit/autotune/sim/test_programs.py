"""What a transfer does in the event model: all of its bytes, in the time that the transfer-only model gives it."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pega_tune.autotune.sim.model import TransferModel
from pega_tune.autotune.sim.parameters import load_parameters
from pega_tune.autotune.sim.programs import ProgramBuilder
from pega_tune.autotune.sim.scene import Scene, SceneRun
from pega_tune.autotune.sim.stages import Copy, Gather, Launch, Program
from pega_tune.kernels.plan import AnyPlan, Backend, CopyPlan, KernelOptions, PlanPair, Variant, direct, kernel
from pega_tune.kernels.shape import Direction, TransferShape
from pega_tune.profiles.policy.terms import Colocation
from tests.helpers.sim_rows import block, contiguous, device, shuffled, twice

MIB = 1 << 20
BOTH = Direction.BOTH
STAGED = CopyPlan(Backend.STAGED, Variant.WARP, 256, KernelOptions(264))
WARP = kernel(Variant.WARP, 4, 512)
SINGLES: Sequence[CopyPlan] = (
    direct(),
    CopyPlan(Backend.DIRECT, chunk_bytes=MIB),
    CopyPlan(Backend.BATCH),
    CopyPlan(Backend.PITCHED, chunk_bytes=4 * MIB),
    STAGED,
    replace(STAGED, chunk_bytes=2 * MIB),
    WARP,
    block(512),
    block(),
    block(chunk=1024),
    replace(block(chunk=1024), backpressure=False),
    replace(block(256), sm_partition=8),
)

devices = st.sampled_from(("h200", "rtx5090"))
shapes = st.builds(
    lambda ranges, size, way: TransferShape(ranges, ranges * size, way, host_runs=1, pitch=2 * size),
    st.integers(1, 1 << 14),
    st.integers(16, 1 << 14),
    st.sampled_from(Direction),
)


def _plans(direction: Direction) -> st.SearchStrategy[AnyPlan]:
    single = st.sampled_from(SINGLES)
    if direction is not BOTH:
        return single
    fused = st.just(PlanPair(STAGED, STAGED, fused=True))
    return st.one_of(st.builds(PlanPair, single, single), fused)


def _builder(name: str) -> ProgramBuilder:
    return ProgramBuilder(TransferModel(load_parameters(name)))


def _moved(program: Program, direction: Direction) -> float:
    stages = (stage for stage in program.stages if not isinstance(stage, Gather))
    return sum(stage.load.nbytes for stage in stages if stage.load.direction is direction)


def _idle(name: str, program: Program) -> SceneRun:
    quiet = load_parameters(name)
    quiet = replace(quiet, noise_sigma=0.0, serving=replace(quiet.serving, launch_sigma=0.0))
    return SceneRun(quiet, Scene(Colocation.IDLE, 0.0, program, 100.0, 1, phase=0.0), "idle")


@given(devices, shapes, st.data())
def test_every_byte_is_moved_once_and_engines_do_one_thing_at_a_time(
    name: str, shape: TransferShape, data: st.DataObject
) -> None:
    program = _builder(name).program(data.draw(_plans(shape.direction)), shape)
    for direction in shape.direction.legs:
        assert _moved(program, direction) == pytest.approx(shape.total_bytes)
    stage = _idle(name, program)
    seen = stage.run()
    assert seen.completed[0] > seen.submitted[0]
    for engine in stage.engines.values():
        assert engine.work is None
        assert all(one.end_s <= next_one.begin_s for one, next_one in pairwise(engine.log))


SAME_TIME = [
    *((plan, way) for plan in SINGLES for way in (Direction.H2D, Direction.D2H)),
    *((twice(plan), BOTH) for plan in SINGLES),
    (PlanPair(STAGED, STAGED, fused=True), BOTH),
    (PlanPair(WARP, WARP), BOTH),
]


@pytest.mark.parametrize("name", ["h200", "rtx5090"])
@pytest.mark.parametrize(("plan", "direction"), SAME_TIME, ids=lambda value: getattr(value, "key", str(value)))
def test_an_idle_device_takes_as_long_as_the_transfer_only_model_says(
    name: str, plan: AnyPlan, direction: Direction
) -> None:
    shape = replace(shuffled(direction), host_runs=1, pitch=8192)
    program = _builder(name).program(plan, shape)
    seen = _idle(name, program).run()
    times = TransferModel(load_parameters(name)).times(plan, shape)
    # What is enqueued ahead is submitted behind the copies before it; the transfer-only model adds it up.
    ahead_s = 0.0 if program.holds_back else times.submit_s * (1 - 1 / len(program.rounds))
    assert seen.completed[0] - seen.submitted[0] == pytest.approx(times.transfer_s - ahead_s, rel=0.07)


@pytest.mark.parametrize("direction", Direction)
def test_the_ceiling_too(direction: Direction) -> None:
    seen = _idle("h200", _builder("h200").contiguous(shuffled(direction))).run()
    expected_s = TransferModel(load_parameters("h200")).contiguous(shuffled(direction)).transfer_s
    assert seen.completed[0] - seen.submitted[0] == pytest.approx(expected_s, rel=0.01)


@pytest.mark.parametrize(
    ("grid", "measured"),
    [
        (8, 48.600),
        (16, 57.100),
        (32, 63.565),
        (64, 56.998),
        (128, 70.242),
        (256, 69.798),
        (512, 67.410),
        (1024, 50.264),
        (65_535, 47.730),
    ],
)
def test_the_transfer_only_table_of_the_rtx5090(grid: int, measured: float) -> None:
    # The report's follow-up, GiB/s in both directions together.
    times = TransferModel(device("rtx5090")).times(twice(block(grid)), shuffled())
    assert shuffled().moved_bytes / times.transfer_s / 2**30 == pytest.approx(measured, rel=0.06)


@pytest.mark.parametrize(("direction", "measured"), [(Direction.H2D, 52.54), (Direction.D2H, 53.20)])
def test_the_sanity_check_of_the_rtx5090(direction: Direction, measured: float) -> None:
    times = TransferModel(device("rtx5090")).contiguous(shuffled(direction))
    assert shuffled(direction).moved_bytes / times.transfer_s / 2**30 == pytest.approx(measured, rel=0.01)


def test_fragmented_copies_of_the_rtx5090() -> None:
    times = TransferModel(device("rtx5090")).times(twice(direct()), shuffled())
    assert shuffled().moved_bytes / times.transfer_s / 2**30 == pytest.approx(2.920, rel=0.01)


def test_eight_sms_of_the_rtx5090_move_as_much_as_all() -> None:
    # The report's follow-up: about 47.6 GiB/s with 8 SMs, 47.730 without bounds.
    times = TransferModel(device("rtx5090")).times(twice(replace(block(), sm_partition=8)), shuffled())
    assert shuffled().moved_bytes / times.transfer_s / 2**30 == pytest.approx(47.6, rel=0.05)


def test_chunks_of_both_directions_are_submitted_in_pairs() -> None:
    program = _builder("h200").program(twice(block(chunk=4096)), shuffled())
    assert [len(turn.lanes) for turn in program.rounds] == [2, 2, 2, 2]
    assert all(isinstance(stage, Launch) for stage in program.stages)
    assert program.holds_back


def test_only_kernels_use_sms() -> None:
    assert not _builder("h200").program(twice(direct()), contiguous()).uses_sms
    assert _builder("h200").program(PlanPair(block(), direct()), shuffled()).uses_sms


def test_a_fused_kernel_runs_between_the_two_copies() -> None:
    shape = replace(shuffled(), host_runs=1)
    program = _builder("h200").program(PlanPair(STAGED, STAGED, fused=True), shape)
    kinds = [type(stage) for stage in program.stages]
    assert kinds == [Copy, Gather, Copy]


def test_many_small_commands_leave_an_engine_idle_between_them() -> None:
    many, one = (_builder("h200").program(twice(direct()), shape) for shape in (shuffled(), contiguous()))
    shares = [[stage.busy for stage in program.stages if isinstance(stage, Copy)] for program in (many, one)]
    assert max(shares[0]) < 0.2
    assert min(shares[1]) > 0.9
