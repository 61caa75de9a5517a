"""`pega-tune bench`: everything that can be done, side by side."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pega_tune.autotune.cli.bench_lookup import lookup
from pega_tune.autotune.cli.bench_outcome import batch_words, device_field, fitting, flagged, head_document, troubles
from pega_tune.autotune.cli.bench_regret import regret
from pega_tune.autotune.cli.bench_serving import serving
from pega_tune.autotune.cli.errors import ExitCode
from pega_tune.autotune.cli.options import (
    BatchesOption,
    DeviceOption,
    LayoutOption,
    RangeBytesOption,
    RangesOption,
    SeedOption,
    batch_of,
    given,
    optional_layout,
    optional_size,
    shapes_instead,
)
from pega_tune.autotune.cli.output import fields, table
from pega_tune.autotune.cli.session import Session, session_of
from pega_tune.autotune.cli.units import format_duration, format_rate
from pega_tune.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from pega_tune.autotune.bench.transfer import BenchBlock, BenchResult, Row, TransferBenchRequest
    from pega_tune.autotune.engine import Engine
    from pega_tune.kernels.facts import DeviceFacts
    from pega_tune.kernels.plan import AnyPlan
    from pega_tune.kernels.shape import Direction

app = typer.Typer(name="bench", help="Everything that can be done, side by side.")

_HEADINGS = (
    "NAME", "KIND", "DIRECTION", "RATE", "RATIO", "UNPREPARED", "RATIO", "PREPARE", "SUBMIT", "HOST", "SM TIME", "NOTE"
)  # fmt: skip

app.command("serving")(serving)
app.command("regret")(regret)
app.command("lookup")(lookup)


@app.command("transfer")
def transfer(
    context: typer.Context,
    device: DeviceOption = "auto",
    ranges: RangesOption = None,
    range_bytes: RangeBytesOption = None,
    layout: LayoutOption = None,
    shapes: BatchesOption = None,
    direction: Annotated[
        str | None, typer.Option(metavar="h2d|d2h|both", help="Which way.  [default: each of the three]")
    ] = None,
    rounds: Annotated[int | None, typer.Option(metavar="N", help="Timed rounds of each.  [default: 15]")] = None,
    seed: SeedOption = None,
) -> None:
    """Move one batch by every plan and by today's rules, side by side.

    All are interleaved with one contiguous copy, verified byte for byte, and timed with and without preparation.
    Nothing is stored. Exit code 5: the device was disturbed, or something failed; the answer says what.
    """
    batch = given(
        {
            "ranges": ranges,
            "range_bytes": optional_size(range_bytes),
            "layout": optional_layout(layout),
            "directions": None if direction is None else (_direction(direction),),
        }
    )
    requests = _requests(batch, given({"rounds": rounds, "seed": seed}), shapes)
    session = session_of(context)
    facts, measured = _measure(session, device, requests)
    results = [result for _, each in measured for result in each]
    for warning in dict.fromkeys(_warnings(results)):
        session.output.warn(warning)
    documents = [_document(facts, *each) for each in measured]
    lines = [line for each in measured for line in ("", *_lines(facts, *each))][1:]
    session.output.answer(documents[0] if shapes is None else {"batches": documents}, lines)
    if flagged(results):
        raise typer.Exit(ExitCode.FLAGGED)


def _requests(batch: dict[str, Any], rest: dict[str, Any], shapes: Path | None) -> list[TransferBenchRequest]:
    """The batch of the options, or those of a file."""
    from pega_tune.autotune.bench.transfer import TransferBenchRequest

    if shapes is None:
        return [TransferBenchRequest(**batch, **rest)]
    found = shapes_instead(shapes, batch)
    return [TransferBenchRequest(**batch_of(shape), directions=(shape.direction,), **rest) for shape in found]


def _direction(word: str) -> Direction:
    from pega_tune.kernels.shape import Direction

    known = [str(direction) for direction in Direction]
    if word not in known:
        raise UsageError(f"there is no direction {word!r}", f"choose one of: {', '.join(known)}")
    return Direction(word)


def _measure(
    session: Session, device: str, requests: Sequence[TransferBenchRequest]
) -> tuple[DeviceFacts, list[tuple[TransferBenchRequest, tuple[BenchResult, ...]]]]:
    from pega_tune.autotune.bench.transfer import plan_transfer_bench
    from pega_tune.autotune.cli.progress import StepProgress
    from pega_tune.autotune.devices import find_device
    from pega_tune.autotune.isolated import IsolatedEngine

    choice = find_device(device)
    session.note_device(choice.facts)
    progress = StepProgress(session.output)
    engine = IsolatedEngine(choice.factory, choice.timeouts, lambda taken: progress.step(str(taken.phase)))
    with closing(engine), closing(progress):
        capabilities = engine.capabilities()
        planned = [(request, plan_transfer_bench(request, capabilities)) for request in requests]
        progress.expect(sum(block.steps for _, blocks in planned for block in blocks))
        return choice.facts, [(request, _run(request, blocks, engine)) for request, blocks in planned]


def _run(request: TransferBenchRequest, blocks: Sequence[BenchBlock], engine: Engine) -> tuple[BenchResult, ...]:
    from pega_tune.autotune.bench.transfer import measure

    with fitting(request):
        return tuple(measure(block, engine) for block in blocks)


def _warnings(results: Sequence[BenchResult]) -> Iterator[str]:
    for result in results:
        yield from troubles(result, lambda row: row.direction)


def _document(facts: DeviceFacts, request: TransferBenchRequest, results: Sequence[BenchResult]) -> dict[str, Any]:
    rows = [_row_document(row) for result in results for row in result.rows]
    return {**head_document(facts, request, results), "rows": rows}


def _row_document(row: Row) -> dict[str, Any]:
    return {
        "name": row.name,
        "kind": str(row.kind),
        "backend": _backend(row.plan),
        "direction": str(row.direction),
        "bytes_per_s": row.bytes_per_s,
        "ratio_to_ceiling": row.ratio_to_ceiling,
        "host_s": row.host_s,
        "prepare_s": row.prepare_s,
        "sm_s": row.sm_s,
        "span_s": row.span_s,
        "submit_s": row.submit_s,
        "transfer_s": row.transfer_s,
        "bytes_per_s_without_prepare": row.bytes_per_s_without_prepare,
        "ratio_without_prepare": row.ratio_without_prepare,
        "rounds": row.rounds,
        "status": row.status,
        "detail": row.detail,
        "same_as": row.same_as,
        "plan": row.plan.to_json(),
    }


def _backend(plan: AnyPlan) -> str:
    """`kernel`; `direct+kernel` if load and save differ."""
    from pega_tune.autotune.sweep.plans import legs_of

    return "+".join(dict.fromkeys(str(leg.backend) for leg in legs_of(plan)))


def _lines(facts: DeviceFacts, request: TransferBenchRequest, results: Sequence[BenchResult]) -> Iterator[str]:
    yield from fields([device_field(facts), ("batch", f"{batch_words(request)}, seed {request.seed}")])
    yield ""
    yield from table(_HEADINGS, (_cells(row) for result in results for row in result.rows))


def _cells(row: Row) -> tuple[str, ...]:
    note = f"measured as {row.same_as}" if row.same_as else ""
    if row.status != "ok":
        note = f"{row.status}: {row.detail}"
    return (
        row.name,
        str(row.kind),
        str(row.direction),
        _or_dash(row.bytes_per_s, format_rate),
        _or_dash(row.ratio_to_ceiling, "{:.3f}".format),
        _or_dash(row.bytes_per_s_without_prepare, format_rate),
        _or_dash(row.ratio_without_prepare, "{:.3f}".format),
        *(_or_dash(time_s, _time) for time_s in (row.prepare_s, row.submit_s, row.host_s, row.sm_s)),
        note,
    )


def _time(seconds: float) -> str:
    return format_duration(seconds) if seconds else "0 s"


def _or_dash(value: float | None, form: Callable[[float], str]) -> str:
    return "-" if value is None else form(value)
