"""What was measured beside decode, row by row, and what the simulated devices predict for it."""

from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from pega_tune.autotune.sim.model import TransferModel
from pega_tune.autotune.sim.parameters import SimParameters, load_parameters
from pega_tune.autotune.sim.programs import ProgramBuilder
from pega_tune.autotune.sim.scene import Scene, SceneRun, Seen
from pega_tune.autotune.sim.stages import Gather, Program
from pega_tune.kernels.plan import AnyPlan, Backend, CopyPlan, KernelOptions, PlanPair, Variant, direct
from pega_tune.kernels.shape import Direction, TransferShape
from pega_tune.profiles.policy.terms import Colocation

PERIOD_S = 0.05
SEGMENTS = 500
SEGMENTS_UNDER_MPS = 1000  # where turns on a copy engine are drawn
MIB, GIB = 1 << 20, 1 << 30
BOTH = Direction.BOTH


@dataclass(frozen=True, slots=True)
class Row:
    """One measured row.

    Attributes:
        device: name of the data file.
        name: as the row is called.
        colocation: where decode ran.
        plan: what moved the bytes.
        shape: of a burst; one range for contiguous copies.
        added_percent: added p99, least and most if it was measured in several processes.
        gib_per_s: effective rate, likewise.
        completion_ms: from submission to completion; None if not given.
        shared_engine: whether decode's small copies met the saves on a copy engine, in that process.
        sleep_s: after a chunk.
    """

    device: str
    name: str
    colocation: Colocation
    plan: AnyPlan
    shape: TransferShape
    added_percent: tuple[float, float]
    gib_per_s: tuple[float, float] = (2.5, 2.5)
    completion_ms: float | None = None
    shared_engine: bool = True
    sleep_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Predicted:
    """The same of a simulation; `mean_s`, `p50_s` and `p99_s` are of the steps."""

    mean_s: float
    p50_s: float
    p99_s: float
    gib_per_s: float
    completion_s: float


def shuffled(direction: Direction = BOTH) -> TransferShape:
    """16,384 ranges of 4 KiB per direction."""
    return TransferShape(16384, 64 * MIB, direction)


def contiguous(direction: Direction = BOTH) -> TransferShape:
    """The same bytes as one range per direction."""
    return TransferShape(1, 64 * MIB, direction)


def twice(plan: CopyPlan) -> PlanPair:
    """The same both ways."""
    return PlanPair(plan, plan)


def device(name: str) -> SimParameters:
    """A simulated device as it was measured: nothing was prepared in the timed region, and nothing cut into tiles."""
    parameters = load_parameters(name)
    kernel = replace(parameters.kernel, least_tile_bytes=2**62, most_tile_bytes=2**62)
    staged = replace(parameters.staged, most_parts=1)
    return replace(parameters, kernel=kernel, staged=staged, order_s=0.0, in_order_s=0.0, descriptor_s=0.0)


def program(parameters: SimParameters, plan: AnyPlan, shape: TransferShape) -> Program:
    """What a plan does beside decode."""
    return ProgramBuilder(TransferModel(parameters), parameters.serving.copy_ratio).program(plan, shape)


def predict(
    parameters: SimParameters, scene: Scene, segments: int = SEGMENTS, *, fresh_phases: bool = True
) -> Predicted:
    """Simulates many bursts.

    A step is about as long as the period over a whole number, so that in a long segment bursts meet steps in the same
    phase again and again; nobody knows in which. Here every burst has a segment and a phase of its own, but for those
    that take longer than the period.
    """
    bursts = 1 if fresh_phases else 12
    count = segments // bursts
    scenes = [replace(scene, bursts=bursts, phase=(number + 0.5) / count) for number in range(count)]
    seen = [SceneRun(parameters, one, f"{number}").run() for number, one in enumerate(scenes)]
    steps = np.concatenate([_steps(one) for one in seen])
    waits = np.concatenate([np.subtract(one.completed, one.submitted) for one in seen] or [np.empty(0)])
    rate = _gib_per_s(SceneRun(parameters, replace(scene, bursts=10), "rate").run(), scene)
    p50_s, p99_s = np.percentile(steps, (50, 99))
    completion_s = float(waits.mean()) if len(waits) else 0.0
    return Predicted(float(steps.mean()), float(p50_s), float(p99_s), rate, completion_s)


def _steps(seen: Seen) -> np.ndarray:
    ends = np.array(seen.step_ends)
    if not seen.due:
        return np.diff(ends)
    kept = (ends[1:] > seen.submitted[0]) & (ends[1:] <= seen.submitted[-1] + PERIOD_S)
    return np.diff(ends)[kept]


def _gib_per_s(seen: Seen, scene: Scene) -> float:
    if not scene.program:
        return 0.0
    moved = sum(stage.load.nbytes for stage in scene.program.stages if not isinstance(stage, Gather))
    return moved * (len(seen.submitted) - 1) / (seen.submitted[-1] - seen.submitted[0]) / GIB


@cache
def baseline(name: str, colocation: Colocation) -> Predicted:
    """No transfers."""
    parameters = device(name)
    scene = Scene(colocation, parameters.serving.step_s[colocation], None, PERIOD_S, 1)
    return predict(parameters, scene)


def scene_of(row: Row, parameters: SimParameters) -> Scene:
    """What happens in a row."""
    step_s = parameters.serving.step_s[row.colocation]
    bursts = program(parameters, row.plan, row.shape)
    return Scene(row.colocation, step_s, bursts, PERIOD_S, 1, row.sleep_s, row.shared_engine)


def predict_row(row: Row) -> Predicted:
    """The model's row."""
    by_commands = row.shape.merged_ranges > 1 and row.plan == twice(direct())
    return _predict_scene(row.device, scene_of(row, device(row.device)), not by_commands)


@cache  # rows that differ in what the model takes for equal have one prediction
def _predict_scene(name: str, scene: Scene, fresh_phases: bool) -> Predicted:
    segments = SEGMENTS_UNDER_MPS if scene.colocation is Colocation.MPS else SEGMENTS
    return predict(device(name), scene, segments, fresh_phases=fresh_phases)


def added_percent(row: Row, predicted: Predicted) -> float:
    """p99 against that without transfers."""
    return 100 * (predicted.p99_s / baseline(row.device, row.colocation).p99_s - 1)


def miss(value: float, measured: tuple[float, float]) -> float:
    """How far a value is from the nearest of what was measured; 0 if it lies between."""
    least, most = measured
    return max(least - value, value - most, 0.0)


def staged(chunk_bytes: int | None = None) -> CopyPlan:
    """As it was measured: 264 CTAs of 256 threads."""
    return CopyPlan(Backend.STAGED, Variant.WARP, 256, KernelOptions(264), chunk_bytes)


def block(grid: int = 65_535, chunk: int | None = None) -> CopyPlan:
    """One CTA of 256 threads per range."""
    return CopyPlan(Backend.KERNEL, Variant.BLOCK, 256, KernelOptions(grid, chunk))
