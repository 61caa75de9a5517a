"""Measures on a real GPU what transfers cost a decode workload beside them, and writes it down as JSON.

    python tests/gpu/acceptance_serving.py --out DIR --part PART [--sweep FILE] [--commit HASH]

    report   the report's workload: today's copy kernel must show, contiguous DMA in parts must not
    best     the plans that a sweep found best (FILE is what `sweeps show --json` printed), in three fresh processes
    mps      the same under MPS, with a daemon of our own
    probes   the built-in probe beside the torch one: the same stalls
    mixing   p99 at longer periods, predicted from bursts at a short one
    hog      a quick sweep in whose middle third another process hogs the link; FILE is a database with a profile of the
             device (`--db`), or an undisturbed one comes first

Every burst moves 16,384 ranges of 4 KiB each way. No part takes longer than 9 minutes; both terms of a ratio come from
the same block. Exit code 1 if a line fails.
"""
# ruff: noqa: E402 (the script runs from a bare checkout)

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from pega_tune.autotune.cuda.serving.mps_clients import MpsClients
from pega_tune.autotune.devices import find_device
from pega_tune.autotune.engine import Candidate, CandidateKind, Status
from pega_tune.autotune.isolated import IsolatedEngine
from pega_tune.autotune.layouts import NamedLayout
from pega_tune.autotune.measuring.serving.cells import collect_segments
from pega_tune.autotune.measuring.serving.summary import ServingSummary, mixture_of, summarise
from pega_tune.autotune.serving import DecodeSpec, Pacing, ServingBlock, ServingLimits
from pega_tune.autotune.sweep.plans import pegaflow_kernel
from pega_tune.autotune.sweep.presets import find_preset
from pega_tune.errors import PegaTuneError
from pega_tune.kernels.plan import (
    AnyPlan,
    Backend,
    CopyPlan,
    KernelOptions,
    PlanPair,
    Variant,
    direct,
    kernel,
    plan_from_json,
)
from pega_tune.kernels.probe import list_devices
from pega_tune.kernels.shape import Direction, TransferShape
from pega_tune.profiles.policy.terms import Colocation
from pega_tune.profiles.store.records import CellRecord
from tests.gpu.acceptance import Line, commit, stamped

RANGES, RANGE_BYTES, PARTS = 16_384, 4096, 16
SHAPE = TransferShape(RANGES, RANGES * RANGE_BYTES, Direction.BOTH)
PART_BYTES = SHAPE.total_bytes // PARTS
SEED = 408
PERIOD_S = 0.05
PROCESSES = 3
RATE = 2.48 * 2**30
APART, TOGETHER, MPS = Colocation.TIME_SLICED, Colocation.SAME_CONTEXT, Colocation.MPS
BOUNDS = {
    "host-ordered": {APART: 0.13, TOGETHER: 0.04, MPS: 0.03},
    "strided": dict.fromkeys((APART, TOGETHER, MPS), 0.03),
}
MOST_MEAN = 0.015
QUESTION = ("--ranges", "16384", "--bytes", str(SHAPE.total_bytes), "--device", "auto")


def pair(leg: CopyPlan, fused: bool = False) -> PlanPair:
    return PlanPair(leg, leg, fused)


STAGED = CopyPlan(Backend.STAGED, Variant.WARP, 256, KernelOptions(264))
KERNEL = pair(pegaflow_kernel())
IN_PARTS = pair(replace(direct(), chunk_bytes=PART_BYTES))
WARP_1, WARP_16 = (pair(kernel(Variant.WARP, grid, 1024)) for grid in (1, 16))


@dataclass(frozen=True, slots=True)
class Setup:
    """What runs beside what."""

    colocation: Colocation
    layout: str
    plans: Mapping[str, AnyPlan]
    rounds: int = 10
    period_s: float = PERIOD_S
    source: str = "builtin"

    @property
    def block(self) -> ServingBlock:
        """Ten bursts in a segment, a segment of each in a round."""
        return ServingBlock(
            key=f"{self.source}/{self.colocation}/{self.layout}/{self.period_s * 1e3:g}ms",
            shape=SHAPE,
            candidates=tuple(Candidate(name, CandidateKind.PLAN, plan) for name, plan in self.plans.items()),
            colocation=self.colocation,
            limits=ServingLimits(0.0, self.rounds, self.rounds),
            seed=SEED,
            decode=DecodeSpec(self.source),
            pacing=Pacing(self.period_s, 10),
            layout=NamedLayout.parse(self.layout),
        )


@dataclass
class Results:
    """What was measured so far, for the record."""

    blocks: list[dict[str, Any]] = field(default_factory=list)

    def run(self, engine: IsolatedEngine, setup: Setup, process: int = 0) -> dict[str, CellRecord]:
        """Measures a block; its cells by name."""
        block = setup.block
        segments = list(engine.beside_decode(block))
        cells = {cell.name: cell for cell in collect_segments(block, segments)}
        self.blocks.append(
            {
                "key": block.key,
                "process": process,
                "plans": {name: plan.to_json() for name, plan in setup.plans.items()},
                "flags": sorted({flag for segment in segments for flag in segment.flags}),
                "conditions": asdict(engine.conditions()),
                "cells": {name: _document(cell) for name, cell in cells.items()},
            }
        )
        return cells


def _document(cell: CellRecord) -> dict[str, Any]:
    summary = summary_of(cell)
    return {"status": cell.status, "detail": cell.detail, "summary": summary and asdict(summary)}


def summary_of(cell: CellRecord) -> ServingSummary | None:
    return summarise(cell, SHAPE.moved_bytes)


@contextmanager
def engine(may_start_mps: bool = False) -> Iterator[IsolatedEngine]:
    """A fresh child process."""
    choice = find_device()
    with (
        MpsClients(may_start=may_start_mps) as clients,
        closing(IsolatedEngine(choice.factory, choice.timeouts, environment_of=clients)) as made,
    ):
        yield made


def _works(setup: Setup, cells: Mapping[str, CellRecord]) -> Line:
    wrong = [f"{cell.name}: {cell.status} {cell.detail}" for cell in cells.values() if cell.status != Status.OK]
    return Line(f"plans that failed or moved a wrong byte, {setup.block.key} {wrong}", len(wrong), None, 0)


def report(results: Results) -> Iterator[Line]:
    """The probe sees the problem, and is quiet where there is none."""
    with engine() as one:
        for colocation in (APART, TOGETHER):
            for layout, name, plan, low, high in (
                ("shuffled", "today's kernel", KERNEL, 0.45, None),
                ("contiguous", "contiguous DMA in 16 parts", IN_PARTS, None, 0.03),
            ):
                setup = Setup(colocation, layout, {name: plan})
                cells = results.run(one, setup)
                yield _works(setup, cells)
                summary = summary_of(cells[name])
                value = summary and summary.delta.p99.value
                yield Line(f"p99 with {name}, {colocation}", value, low, high)


def best(results: Results, sweep: Sequence[Mapping[str, Any]], colocations: Sequence[Colocation]) -> Iterator[Line]:
    """What a sweep found best, at the worst of several fresh processes."""
    chosen = {(entry["colocation"], _layout_of(entry)): _gentlest(entry) for entry in sweep}
    worst: dict[tuple[Colocation, str], list[ServingSummary]] = {}
    for process in range(PROCESSES):
        with engine(may_start_mps=MPS in colocations) as one:
            for colocation in colocations:
                for layout in BOUNDS:
                    plan = chosen[str(colocation), layout]
                    setup = Setup(colocation, layout, {plan.key: plan})
                    cells = results.run(one, setup, process)
                    yield _works(setup, cells)
                    summary = summary_of(cells[plan.key])
                    if summary is not None:
                        worst.setdefault((colocation, layout), []).append(summary)
    for (colocation, layout), seen in worst.items():
        where = f"{layout}, {colocation}, {chosen[str(colocation), layout].key}, worst of {len(seen)}"
        yield Line(f"rate, {where}", min(one.bytes_per_s for one in seen), RATE, None)
        yield Line(f"p99, {where}", max(one.delta.p99.value for one in seen), None, BOUNDS[layout][colocation])
        yield Line(f"mean, {where}", max(one.delta.mean.value for one in seen), None, MOST_MEAN)
    yield Line("colocations and layouts measured", len(worst), len(colocations) * len(BOUNDS), None)


def _layout_of(entry: Mapping[str, Any]) -> str:
    """From the key of a survey: `time-sliced/both/16384x67108864/strided`."""
    parts = entry["block"].split("/")
    return parts[3] if len(parts) > 3 else "shuffled"


def _gentlest(entry: Mapping[str, Any]) -> AnyPlan:
    """What `strict` takes: that keeps the rate, since plans that do not complete within the period are left out."""
    return plan_from_json(entry["best"]["strict"]["plan"])


def probes(results: Results) -> Iterator[Line]:
    """Mean stalls of the built-in probe and of real layers, as fractions of their steps, and how they rank the plans.

    Means, because the stalls of a single DMA command are of two kinds: a step ends while the command runs, and its
    token waits for it, or none does. Where about half the bursts are of each kind, chance decides which one the median
    is. A mean of two kinds varies more than one of a single kind, so there are 50 bursts of every plan.
    """
    setups = (
        ("shuffled", {"today's kernel": KERNEL, "warp 1": WARP_1, "warp 16": WARP_16}),
        ("host-ordered", {"staged": pair(STAGED)}),
        ("strided", {"pitched": pair(CopyPlan(Backend.PITCHED))}),
        ("contiguous", {"contiguous DMA": pair(direct())}),
    )
    with engine() as one:
        for colocation in (APART, TOGETHER):
            stalls: dict[str, dict[str, tuple[float, float]]] = {}
            for source in ("builtin", "torch"):
                for layout, plans in setups:
                    setup = Setup(colocation, layout, plans, rounds=5, source=source)
                    cells = results.run(one, setup)
                    yield _works(setup, cells)
                    for name, cell in cells.items():
                        summary = summary_of(cell)
                        if summary is not None:
                            stalls.setdefault(name, {})[source] = summary.stall_mean_s.value, summary.baseline.p50.value
            yield from _agreement(colocation, stalls)


def _agreement(colocation: Colocation, stalls: Mapping[str, Mapping[str, tuple[float, float]]]) -> Iterator[Line]:
    seen = {name: pair for name, pair in stalls.items() if len(pair) == 2}
    yield Line(f"plans measured with both probes, {colocation}", len(seen), 6, None)
    for name, sources in seen.items():
        (one_s, step_s), (other_s, other_step_s) = sources["builtin"], sources["torch"]
        apart = abs(one_s - other_s) / min(step_s, other_step_s)
        yield Line(f"mean stalls apart, as a fraction of a step, {name}, {colocation}", apart, None, 0.10)
    swapped = 0
    names = list(seen)
    for i, one in enumerate(names):
        for other in names[i + 1 :]:
            gaps = [(seen[one][s][0] - seen[other][s][0]) / seen[one][s][1] for s in ("builtin", "torch")]
            swapped += all(abs(gap) > 0.10 for gap in gaps) and gaps[0] * gaps[1] < 0
    yield Line(f"plans ranked otherwise by the two probes, {colocation}", swapped, None, 0)


def mixing(results: Results) -> Iterator[Line]:
    """From bursts at a short period to p99 at longer ones."""
    plans = {"today's kernel": KERNEL, "warp 1": WARP_1, "warp 16": WARP_16}
    with engine() as one:
        short = results.run(one, Setup(TOGETHER, "shuffled", plans, rounds=12, period_s=0.025))
        for period_s in (0.05, 0.1, 0.2):
            cells = results.run(one, Setup(TOGETHER, "shuffled", plans, rounds=10, period_s=period_s))
            for name, cell in cells.items():
                mixture, summary = mixture_of(short[name]), summary_of(cell)
                if mixture is None or summary is None:
                    yield Line(f"{name} could be measured at {period_s} s", None, 0, None)
                    continue
                predicted = mixture.at(period_s).p99_s / float(np.quantile(_baseline(short[name]), 0.99)) - 1
                words = f"{name}, every {period_s * 1e3:g} ms: predicted {predicted:+.3f}, p99"
                apart = abs(predicted - summary.delta.p99.value)
                yield Line(f"{words} {summary.delta.p99.value:+.3f}: apart", apart, None, 0.03)


def hog(results: Results, out: Path, db: Path | None) -> Iterator[Line]:
    """A disturbed sweep is flagged, and the profile before it stays the one that answers."""
    tune = [sys.executable, "-m", "pega_tune", "--json", "--db", str(db or out / "hog.db")]
    if db is None:
        quiet = _swept(tune, disturbed_s=None)
        yield Line(f"exit code of an undisturbed sweep: {quiet.reasons}", quiet.code, 0, 0)
        results.blocks.append(asdict(quiet))
    before = _json(tune, "decide", *QUESTION)["profile"]
    disturbed = _swept(tune, disturbed_s=find_preset("quick").budget_s / 3)
    yield Line(f"exit code of a disturbed sweep: {disturbed.reasons}", disturbed.code, 5, 5)
    shown = _json(tune, "sweeps", "show", disturbed.sweep)
    yield Line(f"flagged blocks: {shown['flags']}", shown["flags"].get("contended", 0), 1, None)
    answers = before is not None and _json(tune, "decide", *QUESTION)["profile"] == before
    yield Line("the earlier profile answers", answers, True, None)
    results.blocks.append(asdict(disturbed))


@dataclass(frozen=True, slots=True)
class Swept:
    """How a sweep ended."""

    sweep: str
    profile: str | None
    code: int
    reasons: list[str]
    seconds: float


def _swept(tune: Sequence[str], disturbed_s: float | None) -> Swept:
    """Runs a quick sweep; from `disturbed_s` on, and for as long again, a hog runs beside it."""
    begin_s = time.monotonic()
    sweep = subprocess.Popen([*tune, "sweep", "--preset", "quick"], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    other = None
    if disturbed_s is not None:
        time.sleep(disturbed_s)
        other = subprocess.Popen([sys.executable, "-m", "tests.helpers.gpu_hog", str(disturbed_s)], cwd=ROOT)
    answer, _ = sweep.communicate(timeout=300)
    if other is not None:
        other.kill()
        other.wait()
    found = json.loads(answer)
    seconds = time.monotonic() - begin_s
    return Swept(found["sweep"], found["profile"], sweep.returncode, found["reasons"], seconds)


def _json(tune: Sequence[str], *arguments: str) -> Any:
    done = subprocess.run([*tune, *arguments], cwd=ROOT, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def _baseline(cell: CellRecord) -> list[float]:
    return next(list(m.samples) for m in cell.measurements if m.metric == "baseline-step")


def main() -> int:
    """Measures one part."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="folder for the results")
    parser.add_argument("--part", required=True, choices=("report", "best", "mps", "probes", "mixing", "hog"))
    parser.add_argument("--sweep", type=Path, help="what `sweeps show --json` printed, for best and mps")
    parser.add_argument("--db", type=Path, help="a database with a published profile of the device, for hog")
    parser.add_argument("--commit", default=commit(), help="what was measured, where there is no git")
    options = parser.parse_args()
    sweep = json.loads(options.sweep.read_text())["serving"] if options.sweep else []
    parts: dict[str, Callable[[Results], Iterator[Line]]] = {
        "report": report,
        "best": lambda results: best(results, sweep, (APART, TOGETHER)),
        "mps": lambda results: best(results, sweep, (MPS,)),
        "probes": probes,
        "mixing": mixing,
        "hog": lambda results: hog(results, options.out, options.db),
    }
    results = Results()
    lines: list[Line] = []
    try:
        facts = list_devices()[0]
        for line in parts[options.part](results):
            lines.append(line)
            sys.stdout.write(f"{line}\n")
            sys.stdout.flush()
    except PegaTuneError as error:
        lines.append(Line(f"stopped: {error.message}; {error.hint}", None, 0, None))
        sys.stdout.write(f"{lines[-1]}\n")
    written = stamped(options, facts, lines) | {"blocks": results.blocks}
    options.out.mkdir(parents=True, exist_ok=True)
    text = json.dumps(written, indent=1, default=_plain, allow_nan=False)
    (options.out / f"acceptance-serving-{options.part}.json").write_text(text + "\n")
    return 0 if all(line.passed for line in lines) else 1


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else str(value)


if __name__ == "__main__":
    raise SystemExit(main())
