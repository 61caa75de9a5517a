"""`pega-tune bench serving`: what transfers cost the decode steps beside them."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pega_tune.autotune.cli.bench_outcome import fitting, flagged, troubles
from pega_tune.autotune.cli.bench_serving_report import document, lines
from pega_tune.autotune.cli.engines import EngineOptions, StartMps, require_mps, started
from pega_tune.autotune.cli.errors import ExitCode
from pega_tune.autotune.cli.options import (
    BESIDE_DECODE,
    BatchesOption,
    DeviceOption,
    LayoutOption,
    RangeBytesOption,
    RangesOption,
    SeedOption,
    batch_of,
    colocations,
    given,
    optional_layout,
    optional_size,
    shapes_instead,
)
from pega_tune.autotune.cli.session import Session, session_of
from pega_tune.autotune.cli.units import parse_period, parse_size
from pega_tune.errors import DataError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from pega_tune.autotune.bench.serving import BenchResult
    from pega_tune.autotune.bench.serving_groups import Group
    from pega_tune.autotune.bench.serving_plan import BenchBlock
    from pega_tune.autotune.bench.serving_request import ServingBenchRequest
    from pega_tune.autotune.engine import Engine
    from pega_tune.kernels.facts import DeviceFacts


@dataclass(frozen=True, slots=True)
class _Asked:
    """What the user wrote: None, or nothing at all of the pacing, where nothing was."""

    batch: dict[str, Any]
    pacing: dict[str, Any]
    decode: dict[str, Any]
    rest: dict[str, Any]

    def request(self) -> ServingBenchRequest:
        """Everything else by default."""
        from pega_tune.autotune.bench.serving_request import ServingBenchRequest
        from pega_tune.autotune.serving import DecodeSpec, Pacing

        return ServingBenchRequest(
            pacing=Pacing(**self.pacing),
            decode=DecodeSpec(**given(self.decode)),
            **self.batch,
            **given(self.rest),
        )


def serving(
    context: typer.Context,
    device: DeviceOption = "auto",
    ranges: RangesOption = None,
    range_bytes: RangeBytesOption = None,
    layout: LayoutOption = None,
    shapes: BatchesOption = None,
    colocation: Annotated[
        str | None,
        typer.Option(
            metavar="WORDS",
            help="Where decode runs, among same-context, time-sliced, mps.  [default: time-sliced,same-context]",
        ),
    ] = None,
    groups: Annotated[
        str | None,
        typer.Option(
            "--compare",
            metavar="WORDS",
            help="Among rules, best, grids, chunks, dma-chunks, enqueue-only, priorities, partitions, hybrid, sleep, "
            "directions, decode-priority, mps-shares; or all.  [default: rules,best]",
        ),
    ] = None,
    period: Annotated[
        str | None,
        typer.Option(metavar="TIME|auto", help="From burst to burst; auto is the shortest sensible.  [default: 50ms]"),
    ] = None,
    rate: Annotated[
        str | None, typer.Option(metavar="SIZE", help="Bytes per second to reach, instead of --period, e.g. 2.5GiB.")
    ] = None,
    decode: Annotated[
        str | None, typer.Option(metavar="builtin|torch|external:CMD", help="What decodes.  [default: builtin]")
    ] = None,
    model: Annotated[
        str | None, typer.Option(metavar="NAME|layers=N,...", help="Its shape.  [default: qwen3-4b]")
    ] = None,
    start_mps: StartMps = False,
    rounds: Annotated[
        int | None, typer.Option(metavar="N", help="Segments of each.  [default: until a p99 may be claimed]")
    ] = None,
    seed: SeedOption = None,
) -> None:
    """Run decode beside bursts of transfers, and tell what they cost.

    A burst comes every period, by each rule that systems ship and each of the best plans, or what else --compare names.
    All are interleaved with a baseline without transfers, and verified byte for byte. Nothing is stored. Exit code 5:
    the device was disturbed, or something failed; the answer says what.
    """
    batch = given({"ranges": ranges, "range_bytes": optional_size(range_bytes), "layout": optional_layout(layout)})
    rest = {
        "colocations": None if colocation is None else colocations(colocation, BESIDE_DECODE),
        "groups": None if groups is None else _groups(groups),
        "rounds": rounds,
        "seed": seed,
    }
    requests = [
        _Asked(each, _pacing(period, rate, each), {"source": decode, "model": model}, rest).request()
        for each in _batches(batch, shapes)
    ]
    require_mps(start_mps, requests[0].colocations)
    session = session_of(context)
    facts, measured = _measure(session, device, requests, start_mps)
    results = [result for _, each in measured for result in each]
    for warning in dict.fromkeys(_warnings(results)):
        session.output.warn(warning)
    documents = [document(facts, *each) for each in measured]
    told = [line for each in measured for line in ("", *lines(facts, *each))][1:]
    session.output.answer(documents[0] if shapes is None else {"batches": documents}, told)
    if flagged(results):
        raise typer.Exit(ExitCode.FLAGGED)


def _batches(batch: dict[str, Any], shapes: Path | None) -> list[dict[str, Any]]:
    """What a burst moves each way: the batch of the options, or those of a file, each of both directions at once."""
    from pega_tune.kernels.shape import Direction

    if shapes is None:
        return [batch]
    found = shapes_instead(shapes, batch)
    if any(shape.direction is not Direction.BOTH for shape in found):
        raise DataError(f"{shapes}: a burst moves both ways at once", 'every line needs "direction": "both"')
    return [batch_of(shape) for shape in found]


def _groups(text: str) -> tuple[Group, ...]:
    from pega_tune.autotune.bench.serving_groups import Group

    words = [word.strip() for word in text.split(",") if word.strip()]
    if "all" in words:
        return tuple(Group)
    hint = f"choose among: {', '.join(Group)}, all"
    if not words:
        raise UsageError("--compare names nothing", hint)
    for word in words:
        if word not in tuple(Group):
            raise UsageError(f"there is nothing called {word!r} to compare", hint)
    return tuple(dict.fromkeys(Group(word) for word in words))


def _pacing(period: str | None, rate: str | None, batch: dict[str, Any]) -> dict[str, Any]:
    """The burst period: as given, or what moves so many bytes per second in both directions together; else nothing."""
    from pega_tune.autotune.bench.serving_request import ServingBenchRequest

    if period is not None and rate is not None:
        raise UsageError("--period and --rate say the same thing", "give one of them")
    if period == "auto":
        return {"period_s": None}
    if rate is not None:
        plain = ServingBenchRequest(**batch)
        return {"period_s": 2 * plain.ranges * plain.range_bytes / parse_size(rate)}
    return {} if period is None else {"period_s": parse_period(period)}


def _measure(
    session: Session, device: str, requests: Sequence[ServingBenchRequest], start_mps: bool
) -> tuple[DeviceFacts, list[tuple[ServingBenchRequest, tuple[BenchResult, ...]]]]:
    from pega_tune.autotune.cli.progress import StepProgress
    from pega_tune.autotune.devices import find_device

    choice = find_device(device)
    session.note_device(choice.facts)
    progress = StepProgress(session.output)
    options = EngineOptions(start_mps, lambda _segment: progress.step("segment"))
    with started(choice, options) as engine, closing(progress):
        planned = [(request, _plan(request, engine)) for request in requests]
        progress.expect(sum(block.steps for _, blocks in planned for block in blocks))
        return choice.facts, [(request, _run(request, blocks, engine)) for request, blocks in planned]


def _run(request: ServingBenchRequest, blocks: Sequence[BenchBlock], engine: Engine) -> tuple[BenchResult, ...]:
    from pega_tune.autotune.bench.serving import measure

    with fitting(request):
        return tuple(measure(block, engine) for block in blocks)


def _plan(request: ServingBenchRequest, engine: Engine) -> tuple[BenchBlock, ...]:
    from pega_tune.autotune.bench.serving_groups import Group
    from pega_tune.autotune.bench.serving_plan import plan_serving_bench, survivors

    with fitting(request):
        best = survivors(request, engine) if Group.BEST in request.groups else ()
    return plan_serving_bench(request, engine.capabilities(), best)


def _warnings(results: Sequence[BenchResult]) -> Iterator[str]:
    for result in results:
        yield from troubles(result, lambda row: row.colocation)
        refused = [s.step.p99.no_claim for row in result.rows if (s := row.summary) and s.step.p99.no_claim]
        if refused:
            counted = f"{len(refused)} of {len(result.rows)} rows"
            yield f"{result.planned.block.key}: no claim about p99 in {counted}: {refused[0]}"
