"""Runs one serving block on the first GPU, and prints what it saw as JSON.

python -m tests.helpers.gpu_serving same-context|time-sliced|mps [--source builtin] [--model qwen3-4b]
    [--layout shuffled] [--period 0.05|shortest] [--bursts 10] [--rounds 10] [--share PERCENT] [--start-daemon]

Every burst moves 16,384 ranges of 4 KiB each way. Beside the plans of today's engines and a few of ours runs contiguous
DMA in 16 parts, which should cost decode nothing.
"""

import argparse
import json
import sys
from contextlib import closing
from dataclasses import asdict, replace
from typing import Any

from pega_tune.autotune.cuda.serving.mps_clients import MpsClients
from pega_tune.autotune.devices import find_device
from pega_tune.autotune.engine import Candidate, CandidateKind, Status
from pega_tune.autotune.isolated import IsolatedEngine
from pega_tune.autotune.layouts import NamedLayout
from pega_tune.autotune.measuring.serving.cells import collect_segments
from pega_tune.autotune.measuring.serving.summary import summarise
from pega_tune.autotune.serving import DecodeSpec, MpsShare, Pacing, ServingBlock, ServingLimits
from pega_tune.kernels.backends.staged import staged
from pega_tune.kernels.plan import Backend, CopyPlan, KernelOptions, PlanPair, Variant, direct, kernel
from pega_tune.kernels.shape import Direction, TransferShape
from pega_tune.profiles.policy.terms import Colocation

RANGES, RANGE_BYTES, PARTS = 16_384, 4096, 16
SHAPE = TransferShape(RANGES, RANGES * RANGE_BYTES, Direction.BOTH)
PART_BYTES = SHAPE.total_bytes // PARTS


def _candidates(layout: NamedLayout) -> tuple[Candidate, ...]:
    legs: dict[str, CopyPlan] = {
        "pegaflow-kernel": CopyPlan(Backend.KERNEL, Variant.BLOCK, 256, KernelOptions()),
        "warp-1": kernel(Variant.WARP, 1, 1024),
        "warp-16": kernel(Variant.WARP, 16, 1024),
        "staged": staged(),
    }
    if str(layout) == "contiguous":
        legs["dma-16-parts"] = replace(direct(), chunk_bytes=PART_BYTES)
    if str(layout) == "strided":
        legs["pitched-16-parts"] = CopyPlan(Backend.PITCHED, chunk_bytes=PART_BYTES)
    pairs = {name: PlanPair(leg, leg) for name, leg in legs.items()}
    pairs["staged-fused"] = PlanPair(staged(), staged(), fused=True)
    plans = tuple(Candidate(name, CandidateKind.PLAN, pair) for name, pair in pairs.items())
    return Candidate("ceiling", CandidateKind.CEILING, PlanPair(direct(), direct())), *plans


def _block(given: argparse.Namespace) -> ServingBlock:
    layout = NamedLayout.parse(given.layout)
    return ServingBlock(
        key=f"gpu/{given.colocation}",
        shape=SHAPE,
        candidates=_candidates(layout),
        colocation=Colocation(given.colocation),
        limits=ServingLimits(0.0, given.rounds, given.rounds),
        seed=408,
        decode=DecodeSpec(given.source, given.model),
        pacing=Pacing(None if given.period == "shortest" else float(given.period), given.bursts),
        mps=MpsShare(active_thread_percentage=given.share),
        layout=layout,
    )


def _run(given: argparse.Namespace) -> dict[str, Any]:
    block, choice = _block(given), find_device()
    with (
        MpsClients(may_start=given.start_daemon) as clients,
        closing(IsolatedEngine(choice.factory, choice.timeouts, environment_of=clients)) as engine,
    ):
        segments = list(engine.beside_decode(block))
        conditions = engine.conditions()
    summaries = {cell.name: summarise(cell, SHAPE.moved_bytes) for cell in collect_segments(block, segments)}
    return {
        "failed": [(s.candidate, str(s.status), s.detail) for s in segments if s.status is not Status.OK],
        "flags": sorted({flag for s in segments for flag in s.flags}),
        "periods_s": sorted({s.period_s for s in segments}),
        "cells": {name: summary and asdict(summary) for name, summary in summaries.items()},
        "conditions": asdict(conditions),
    }


def main(arguments: list[str]) -> None:
    """Does what is asked for."""
    parser = argparse.ArgumentParser()
    parser.add_argument("colocation", choices=[str(c) for c in Colocation if c is not Colocation.IDLE])
    parser.add_argument("--source", default="builtin")
    parser.add_argument("--model", default="qwen3-4b")
    parser.add_argument("--layout", default="shuffled")
    parser.add_argument("--period", default="0.05")
    parser.add_argument("--bursts", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--share", type=int)
    parser.add_argument("--start-daemon", action="store_true")
    json.dump(_run(parser.parse_args(arguments)), sys.stdout, indent=1, default=str)


if __name__ == "__main__":
    main(sys.argv[1:])
