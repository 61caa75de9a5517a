"""Measures on a real GPU what the copy kernels must reach there, and writes it down as JSON.

    python tests/gpu/acceptance.py --out DIR [--part N] [--commit HASH]

Every ratio is between two candidates of one block, measured in turns by the engine itself. The rate of a transfer
counts the time from its first driver call until its completion is seen, everything having been prepared before; beside
it stands the ratio with preparation (ordering and writing descriptors) in it. Exit code 1 if a line fails.
"""
# ruff: noqa: E402 (the script runs from a bare checkout)

import argparse
import json
import shlex
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from pega_tune.autotune.cuda.compile_cache import user_compile_cache
from pega_tune.autotune.cuda.engine import CudaEngine
from pega_tune.autotune.engine import (
    Candidate,
    CandidateKind,
    Measurement,
    Phase,
    SamplingLimits,
    Status,
    TransferBlock,
)
from pega_tune.autotune.measuring.statistics import median_interval
from pega_tune.errors import DeviceError
from pega_tune.kernels.facts import DeviceFacts
from pega_tune.kernels.plan import CopyPlan, PlanPair, Variant, direct, kernel
from pega_tune.kernels.probe import list_devices
from pega_tune.kernels.shape import Direction, TransferShape

KIB, MIB = 1 << 10, 1 << 20
SEED = 408
GRIDS = tuple(1 << power for power in range(10))
CEILING = "contiguous"

BLOCK_16384 = kernel(Variant.BLOCK, 16_384, 256)
WARP_2 = kernel(Variant.WARP, 2, 1024)
WARP_1 = kernel(Variant.WARP, 1, 1024)
CORE = (direct(), BLOCK_16384, WARP_1, WARP_2, *(kernel(Variant.WARP, grid, 256) for grid in (32, 64, 128)))


@dataclass(frozen=True, slots=True)
class Task:
    """A block to measure, and in which part of the run."""

    part: int
    shape: TransferShape
    plans: tuple[CopyPlan, ...]
    rounds: int = 25


@dataclass(frozen=True, slots=True)
class Line:
    """One acceptance line.

    Attributes:
        name: what it is about.
        value: what was measured: a ratio to the contiguous copy of the same block, seconds per range, or a count;
            None if it could not be, which fails.
        low, high: bounds; None if there is none.
        with_preparation: the same with preparation in the transfer time.
    """

    name: str
    value: float | None
    low: float | None
    high: float | None
    with_preparation: float | None = None

    @property
    def passed(self) -> bool:
        """Whether the value keeps its bounds."""
        if self.value is None:
            return False
        return (self.low is None or self.value >= self.low) and (self.high is None or self.value <= self.high)

    def __str__(self) -> str:
        """One row of the table."""
        bounds = f"[{'' if self.low is None else self.low}, {'' if self.high is None else self.high}]"
        value, beside = ("-" if number is None else f"{number:.4g}" for number in (self.value, self.with_preparation))
        return f"{'pass' if self.passed else 'FAIL'}  {self.name}: {value} in {bounds} (with preparation {beside})"


@dataclass(frozen=True, slots=True)
class Cell:
    """What one candidate of a block took: seconds, by part of the transfer."""

    name: str
    status: Status
    detail: str
    samples: dict[str, tuple[float, ...]]

    def median_s(self, part: str) -> float | None:
        """Median of a part; None without samples."""
        found = median_interval(self.samples[part])
        return None if found is None else found.estimate


@dataclass(frozen=True, slots=True)
class Result:
    """A measured block."""

    block: TransferBlock
    cells: dict[str, Cell]
    conditions: dict[str, Any]

    def ratio(self, name: str, part: str = "moving") -> float | None:
        """Rate of a candidate over that of the contiguous copy; None if one of the two has none."""
        ceiling_s, plan_s = self.cells[CEILING].median_s(part), self.cells[name].median_s(part)
        return ceiling_s / plan_s if ceiling_s and plan_s else None


def tasks() -> tuple[Task, ...]:
    """Part 1 holds the acceptance lines; part 2 what is useful to know beside them."""
    fragmented = [TransferShape(16_384, 64 * MIB, direction) for direction in (Direction.BOTH, *Direction.BOTH.legs)]
    blocks = tuple(kernel(Variant.BLOCK, grid, threads) for grid in GRIDS for threads in (256, 512, 1024))
    warps = tuple(kernel(Variant.WARP, grid, threads) for grid in GRIDS for threads in (256, 512, 1024))
    huge = tuple(kernel(Variant.WARP, grid, 1024) for grid in (1, 2, 8, 32, 64))
    small = (direct(), kernel(Variant.WARP, 16, 256), WARP_1, kernel(Variant.BLOCK, 64, 256))
    return (
        Task(1, fragmented[0], (*CORE, *(kernel(Variant.BLOCK, grid, 256) for grid in (256, 512)))),
        Task(1, fragmented[1], CORE),
        Task(1, fragmented[2], CORE),
        *(Task(1, TransferShape(1, 64 * MIB, way), huge) for way in Direction.BOTH.legs),
        Task(2, fragmented[0], blocks, rounds=11),
        Task(2, fragmented[0], warps, rounds=11),
        *(Task(2, TransferShape(n, n * 4 * KIB, way), small, 101) for n in (1, 8, 64) for way in Direction.BOTH.legs),
    )


def measure(engine: CudaEngine, task: Task) -> Result:
    """Runs one block to its end; nothing is dropped early."""
    both = task.shape.direction is Direction.BOTH
    plans: list[tuple[str, CandidateKind, CopyPlan]] = [(CEILING, CandidateKind.CEILING, direct())]
    plans += [(plan.key, CandidateKind.PLAN, plan) for plan in task.plans]
    candidates = tuple(Candidate(n, kind, PlanPair(p, p) if both else p) for n, kind, p in plans)
    limits = SamplingLimits(60.0, task.rounds, task.rounds, drop_after=task.rounds)
    key = f"{task.shape.direction}/{task.shape.merged_ranges}x{task.shape.total_bytes}"
    return run(engine, TransferBlock(key, task.shape, candidates, limits, SEED))


def run(engine: CudaEngine, block: TransferBlock) -> Result:
    """Runs a block."""
    measurements = list(engine.transfer(block))
    cells = {candidate.name: cell(index, candidate, measurements) for index, candidate in enumerate(block.candidates)}
    return Result(block, cells, asdict(engine.conditions()))


def cell(index: int, candidate: Candidate, measurements: Sequence[Measurement]) -> Cell:
    mine = [m for m in measurements if m.candidate == index]
    timed = [m for m in mine if m.phase is Phase.TIMED and m.status is Status.OK]
    samples = {
        "transfer": tuple(m.transfer_s for m in timed),
        "moving": tuple(m.moving_s for m in timed if m.moving_s is not None),
        "prepare": tuple(m.prepare_s for m in timed),
        "submit": tuple(m.submit_s for m in timed),
        "device": tuple(m.device_s for m in timed if m.device_s is not None),
    }
    return Cell(candidate.name, mine[-1].status, mine[-1].detail, samples)


def lines(result: Result) -> Iterator[Line]:
    """The acceptance lines of a block of part 1."""
    shape = result.block.shape
    way = str(shape.direction)
    wrong = sum(cell.status is not Status.OK for cell in result.cells.values())
    yield Line(f"plans that failed or moved a wrong byte, {result.block.key}", wrong, None, 0)
    if shape.merged_ranges == 1:
        yield _best(f"64 MiB in one range, kernel/warp, {way}", result, 0.80)
        return
    for part, name in (("transfer", "transfer time"), ("submit", "submission")):
        median_s = result.cells[direct().key].median_s(part)
        per_range_s = median_s and median_s / shape.merged_ranges / len(shape.direction.legs)
        yield Line(f"direct, {name} per range, {way}", per_range_s, None, 2.8e-6, per_range_s)
    if shape.direction is Direction.BOTH:
        yield ratio_line("kernel/block 16384 x 256, both", result, BLOCK_16384.key, 0.45, 0.58)
        yield _best("best kernel plan, both", result, 0.70)
    else:
        yield ratio_line(f"kernel/warp 2 x 1024, {way}", result, WARP_2.key, 0.88)


def ratio_line(name: str, result: Result, plan: str, low: float, high: float | None = None) -> Line:
    return Line(name, result.ratio(plan), low, high, result.ratio(plan, "transfer"))


def _best(name: str, result: Result, low: float) -> Line:
    best = max((plan for plan in result.cells if plan.startswith("kernel/")), key=lambda plan: result.ratio(plan) or 0)
    return ratio_line(f"{name}: {best}", result, best, low)


def report(result: Result) -> dict[str, Any]:
    cells = []
    for one in result.cells.values():
        intervals = {part: median_interval(samples) for part, samples in one.samples.items()}
        medians = {f"{part}_s": asdict(interval) for part, interval in intervals.items() if interval}
        rounds = len(one.samples["transfer"])
        cells.append({"name": one.name, "status": one.status, "detail": one.detail, "rounds": rounds, **medians})
    shape = asdict(result.block.shape)
    return {"key": result.block.key, "shape": shape, "conditions": result.conditions, "cells": cells}


def table(results: Sequence[Result], checked: Sequence[Line]) -> Iterator[str]:
    for result in results:
        yield f"{result.block.key}  (GiB/s, ratio to {CEILING}, us of preparation, us of submission)"
        for cell in sorted(result.cells.values(), key=lambda cell: cell.median_s("moving") or float("inf")):
            moving, ratio = cell.median_s("moving"), result.ratio(cell.name)
            if moving is None or ratio is None:
                yield f"  {cell.name:40} {cell.status}: {cell.detail}"
                continue
            rate = result.block.shape.moved_bytes / moving / 2**30
            parts = ((cell.median_s(part) or 0) * 1e6 for part in ("prepare", "submit"))
            yield f"  {cell.name:40} {rate:8.3f} {ratio:6.3f}" + "".join(f" {part:9.1f}" for part in parts)
    yield from map(str, checked)


def commit() -> str | None:
    try:
        found = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return found.stdout.strip()


def main() -> int:
    """Measures one part, or all."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="folder for the results")
    parser.add_argument("--part", type=int, choices=sorted({task.part for task in tasks()}), help="all if not given")
    parser.add_argument("--commit", default=commit(), help="what was measured, where there is no git")
    options = parser.parse_args()
    try:
        facts = list_devices()[0]
        with CudaEngine(facts.uuid, cache=user_compile_cache()) as engine:
            results = [(task, measure(engine, task)) for task in tasks() if options.part in (None, task.part)]
    except DeviceError as error:
        parser.exit(3, f"{error.message}; {error.hint}\n")
    checked = tuple(line for task, result in results if task.part == 1 for line in lines(result))
    return publish(options, facts, [result for _, result in results], checked)


def stamped(options: argparse.Namespace, facts: DeviceFacts, checked: Sequence[Line]) -> dict[str, Any]:
    """What every record of a run begins with: what was run, where and when, and the lines."""
    return {
        "device": facts.to_json(),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": options.commit,
        "command": shlex.join(["python", *sys.argv]).replace(str(options.out), "OUT"),
        "driver": facts.staleness.driver,
        "part": options.part,
        "lines": [{**asdict(line), "passed": line.passed} for line in checked],
    }


def publish(options: argparse.Namespace, facts: DeviceFacts, results: Sequence[Result], checked: Sequence[Line]) -> int:
    """Writes the results down and prints them; the exit code."""
    written = stamped(options, facts, checked) | {"blocks": [report(result) for result in results]}
    options.out.mkdir(parents=True, exist_ok=True)
    name = f"{Path(sys.argv[0]).stem.replace('_', '-')}-{options.part or 'all'}.json"
    (options.out / name).write_text(json.dumps(written, indent=1, allow_nan=False) + "\n")
    sys.stdout.writelines(f"{row}\n" for row in table(results, checked))
    return 0 if all(line.passed for line in checked) else 1


if __name__ == "__main__":
    raise SystemExit(main())
