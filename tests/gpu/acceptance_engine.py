"""Measures on a real GPU what the transfer engine must reach there, and writes it down as JSON.

    python tests/gpu/acceptance_engine.py --out DIR --part N [--commit HASH]

Part 1: staged, pitched, kernels, batched and chunked copies beside contiguous DMA. Parts 2 and 3: every plan and every
static rule at six shapes each. Part 4: the transfer worker, and an engine whose process is replaced. No part takes
longer than 9 minutes. Both terms of a ratio are candidates of one block. Exit code 1 if a line fails.
"""
# ruff: noqa: E402 (the script runs from a bare checkout)

import argparse
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from pega_tune.autotune.bench.transfer import TransferBenchRequest, plan_transfer_bench
from pega_tune.autotune.cuda.compile_cache import user_compile_cache
from pega_tune.autotune.cuda.engine import CudaEngine
from pega_tune.autotune.engine import Candidate, CandidateKind, SamplingLimits, Status, TransferBlock
from pega_tune.autotune.isolated import IsolatedEngine
from pega_tune.autotune.layouts import NamedLayout
from pega_tune.autotune.sweep.plans import candidates
from pega_tune.errors import DeviceError
from pega_tune.kernels.backends.staged import staged
from pega_tune.kernels.plan import AnyPlan, Backend, CopyPlan, PlanPair, Variant, direct, kernel
from pega_tune.kernels.probe import list_devices
from pega_tune.kernels.shape import Direction, TransferShape
from tests.gpu.acceptance import CEILING, MIB, SEED, Line, Result, commit, publish, run
from tests.helpers.engines import transfer_block
from tests.helpers.gpu_poison import PoisonedFactory

KIB = 1 << 10
BOTH = Direction.BOTH
ONE_WAY = BOTH.legs
RANGES = 16_384
NEVER_HOPELESS = 1e9
NOISE = 0.98  # medians of equal plans in one block differ by up to 2 %

STAGED = (staged(), staged(132, 512), staged(66, 1024), staged(32, 1024), staged(1, 1024))
PITCHED = CopyPlan(Backend.PITCHED)
BATCH = CopyPlan(Backend.BATCH)
ONE_CTA = kernel(Variant.WARP, 1, 1024)
WARPS = tuple(kernel(Variant.WARP, grid, 1024) for grid in (1, 2, 8, 16, 32))
IN_PARTS = replace(direct(), chunk_bytes=4 * MIB)
CHUNKED_JOBS = 7
LAUNCHED_JOBS = 101

# ranges, bytes of each, layout, direction
SHAPES = (
    (1, 64 * MIB, "shuffled", BOTH),
    (16, 4 * MIB, "shuffled", Direction.H2D),
    (64, 64 * KIB, "shuffled", BOTH),
    (1024, 64 * KIB, "shuffled", BOTH),
    (4096, 16 * KIB, "shuffled", Direction.D2H),
    (16_384, 4 * KIB, "shuffled", BOTH),
    (16_384, 4 * KIB, "host-ordered", BOTH),
    (16_384, 4 * KIB, "strided", Direction.H2D),
    (16_384, 4 * KIB, "runs:4096", BOTH),
    (4096, 4 * KIB, "runs:64", Direction.D2H),
    (32, 576, "shuffled", Direction.H2D),
    (65_536, 1152, "host-ordered", BOTH),
)

Check = Callable[[Result], Iterator[Line]]


@dataclass(frozen=True, slots=True)
class Task:
    """A block, and the lines that come of it."""

    block: TransferBlock
    check: Check


def task(shape: tuple[int, int, str, Direction], plans: tuple[AnyPlan, ...], check: Check, rounds: int = 25) -> Task:
    """Plans beside contiguous DMA; a plan for one way is one for each of both."""
    ranges, nbytes, layout, direction = shape
    named = NamedLayout.parse(layout)
    described = named.described(TransferShape(ranges, ranges * nbytes, direction))
    chosen = [Candidate(CEILING, CandidateKind.CEILING, _for(direction, direct()))]
    chosen += [Candidate(_for(direction, plan).key, CandidateKind.PLAN, _for(direction, plan)) for plan in plans]
    limits = SamplingLimits(60.0, rounds, rounds, drop_ratio=NEVER_HOPELESS)
    key = f"{layout}/{direction}/{ranges}x{nbytes}"
    return Task(TransferBlock(key, described, tuple(chosen), limits, SEED, layout=named), check)


def _for(direction: Direction, plan: AnyPlan) -> AnyPlan:
    return PlanPair(plan, plan) if direction is BOTH and isinstance(plan, CopyPlan) else plan


def fast_enough() -> Iterator[Task]:
    """What must come near to contiguous DMA."""
    fused: tuple[AnyPlan, ...] = tuple(PlanPair(plan, plan, fused=True) for plan in STAGED)
    ordered, strided = (RANGES, 4 * KIB, "host-ordered"), (RANGES, 4 * KIB, "strided")
    yield task((*ordered, BOTH), STAGED + fused, partial(_best, "staged", 0.93, 0.90))
    for way in ONE_WAY:
        yield task((*ordered, way), STAGED, partial(_best, "staged", 0.95, 0.92))
    for way in Direction:
        yield task((*strided, way), (PITCHED,), _pitched)
    runs = (*WARPS, kernel(Variant.WARP, 128, 256), kernel(Variant.WARP, 256, 256), *STAGED, direct())
    yield task((RANGES, 4 * KIB, "runs:4096", BOTH), (*runs, *fused), partial(_best, "any plan", 0.70, None))
    for way in ONE_WAY:
        yield task((RANGES, 4 * KIB, "shuffled", way), (ONE_CTA,), _one_cta)
        yield task((16, 4 * MIB, "shuffled", way), WARPS, partial(_best, "kernel/warp", 0.85, None))
    yield task((1024, 64 * KIB, "shuffled", BOTH), (BATCH,), partial(_best, "batch", 0.60, None))
    for count in (1, 5000, 120_000):
        yield task((count, 256, "shuffled", BOTH), (BATCH,), _works, rounds=3)
    yield task((RANGES, 4 * KIB, "contiguous", BOTH), (IN_PARTS,), partial(_best, "4 MiB parts", 0.75, None))


def _works(result: Result) -> Iterator[Line]:
    wrong = [cell for cell in result.cells.values() if cell.status is not Status.OK]
    why = "".join(f"; {cell.name}: {cell.detail}" for cell in wrong)
    yield Line(f"plans that failed or moved a wrong byte, {result.block.key}{why}", len(wrong), None, 0)


def _best(name: str, low: float, low_with_preparation: float | None, result: Result) -> Iterator[Line]:
    """The best plan, by either way of counting."""
    yield from _works(result)
    for part, bound in (("moving", low), ("transfer", low_with_preparation)):
        if bound is not None:
            ratios = {plan: result.ratio(plan, part) or 0.0 for plan in result.cells if plan != CEILING}
            plan = max(ratios, key=lambda key: ratios[key])
            words = f"{name} at {result.block.key}, {'with' if part == 'transfer' else 'without'} preparation: {plan}"
            yield Line(words, ratios[plan], bound, None, result.ratio(plan, "transfer"))


def _pitched(result: Result) -> Iterator[Line]:
    yield from _best("pitched", 0.97, 0.93, result)
    key = next(name for name in result.cells if name != CEILING)
    legs = len(result.block.shape.direction.legs)
    submit_s = result.cells[key].median_s("submit")
    yield Line(f"pitched at {result.block.key}, submission a direction", submit_s and submit_s / legs, None, 20e-6)


def _one_cta(result: Result) -> Iterator[Line]:
    yield from _works(result)
    ratio = result.ratio(ONE_CTA.key)
    yield Line(f"one CTA at {result.block.key}", ratio, 0.78, None, result.ratio(ONE_CTA.key, "transfer"))


def compared(number: int, engine: CudaEngine) -> Iterator[Task]:
    """Every plan and every static rule at half of the shapes."""
    for ranges, nbytes, layout, direction in SHAPES[number * 6 : number * 6 + 6]:
        named = NamedLayout.parse(layout)
        rounds = 101 if ranges * nbytes < MIB else 9  # some tens of microseconds vary by more than they differ
        request = TransferBenchRequest(ranges, nbytes, named, directions=(direction,), rounds=rounds, seed=SEED)
        (planned,) = plan_transfer_bench(request, engine.capabilities())
        plans = candidates(planned.block.shape, engine.capabilities(), full=True, dense=False)
        own = frozenset(c.name for c in plans if c.kind is not CandidateKind.CEILING)
        ceiling = next(c.name for c in planned.block.candidates if c.kind is CandidateKind.CEILING)
        named_alike = tuple(replace(c, name=CEILING if c.name == ceiling else c.name) for c in planned.block.candidates)
        yield Task(replace(planned.block, candidates=named_alike), partial(_no_rule_wins, own))


def _no_rule_wins(own: frozenset[str], result: Result) -> Iterator[Line]:
    times = {name: cell.median_s("transfer") for name, cell in result.cells.items() if cell.status is Status.OK}
    wrong = sum(cell.status not in (Status.OK, Status.UNSUPPORTED) for cell in result.cells.values())
    yield Line(f"plans that failed or moved a wrong byte, {result.block.key}", wrong, None, 0)
    plans = {name: time for name, time in times.items() if time and name in own}
    rules = {name: time for name, time in times.items() if time and name not in own and name != CEILING}
    if not rules:  # each of them launches what some plan does
        return
    plan, rule = (min(some, key=lambda name: some[name]) for some in (plans, rules))
    words = f"best rule over best plan in time, {result.block.key}: {rule} over {plan}"
    yield Line(words, rules[rule] / plans[plan], NOISE, None)


def worker() -> Iterator[Line]:
    """Jobs in a process of their own; one with an illegal address in another; and one more that works."""
    found = _child("mix", "1000")
    yield Line(f"worker: 1,000 jobs, {found['states']}, wrong: {found['wrong'][:3]}", len(found["wrong"]), None, 0)
    yield Line("worker: jobs that ended", sum(found["states"].values()), 1000, 1000)
    yield Line("worker: jobs cancelled in flight", found["cancelled"], 1, 100)
    lost = _child("bad-kernel")
    named = lost.get("name") == "CUDA_ERROR_ILLEGAL_ADDRESS"
    yield Line(f"worker: an illegal address is named: {lost.get('name')}", named, True, None)
    yield Line("worker: jobs that are wrong in the process after it", len(_child("mix", "20")["wrong"]), None, 0)


def launch_costs() -> Iterator[Line]:
    """What a transfer by one launch costs the host beyond preparation: the submit call, and what the loop calls."""
    for name, found in _child("launches", str(LAUNCHED_JOBS)).items():
        yield Line(f"worker: wrong bytes and failed jobs, one launch {name}", found["wrong"] + found["failed"], None, 0)
        each = median(map(sum, zip(found["submit_s"], found["host_s"], strict=True)))
        words = "worker: host time of a kernel transfer of 4,096 ordered ranges beyond preparation"
        yield Line(f"{words}, {name}", each, None, 25e-6)


def chunk_costs() -> Iterator[Line]:
    """What a chunk costs the host: the median over jobs of the worker's own count."""
    for name, found in _child("chunks", str(CHUNKED_JOBS)).items():
        yield Line(f"worker: wrong bytes and failed jobs, {name}", found["wrong"] + found["failed"], None, 0)
        (chunks,) = set(found["chunks"]) or {0}
        each = median(found["host_s"]) / chunks if chunks else None
        yield Line(f"worker: host time of each of {chunks} chunks with backpressure, {name}", each, None, 15e-6)


def replaced(uuid: str) -> Iterator[Line]:
    """An engine's process loses its context; the next one measures what is left of the block."""
    with closing(IsolatedEngine(PoisonedFactory(uuid))) as engine:
        before = engine.pid
        lost, *others = engine.transfer(transfer_block())
        named = lost.status is Status.CRASHED and "CUDA_ERROR_ILLEGAL_ADDRESS" in lost.detail
        yield Line(f"engine: the candidate that cost it is told: {lost.status}, {lost.detail}", named, True, None)
        yield Line("engine: the child is another one", engine.pid not in (before, None), True, None)
        yield Line("engine: executions that failed after it", sum(m.status is not Status.OK for m in others), None, 0)
        yield Line("engine: executions after it", len(others), 1, None)


def _child(*arguments: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "tests.helpers.gpu_worker", *arguments]
    child = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    if not child.stdout:
        raise DeviceError(f"the worker's process ended with {child.returncode}: {child.stderr[-500:]}")
    found: dict[str, Any] = json.loads(child.stdout)
    return found


def measured(part: int, uuid: str) -> tuple[list[Result], list[Line]]:
    """The results and lines of a part."""
    if part == 4:
        return [], [*worker(), *launch_costs(), *chunk_costs(), *replaced(uuid)]
    results: list[Result] = []
    checked: list[Line] = []
    with CudaEngine(uuid, cache=user_compile_cache()) as engine:
        for one in fast_enough() if part == 1 else compared(part - 2, engine):
            results.append(run(engine, one.block))
            checked += one.check(results[-1])
    return results, checked


def main() -> int:
    """Measures one part."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="folder for the results")
    parser.add_argument("--part", type=int, choices=(1, 2, 3, 4), required=True)
    parser.add_argument("--commit", default=commit(), help="what was measured, where there is no git")
    options = parser.parse_args()
    try:
        facts = list_devices()[0]
        results, checked = measured(options.part, facts.uuid)
    except DeviceError as error:
        parser.exit(3, f"{error.message}; {error.hint}\n")
    return publish(options, facts, results, checked)


if __name__ == "__main__":
    raise SystemExit(main())
