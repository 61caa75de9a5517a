"""`pega-tune bench`: everything that can be done, side by side."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pega_tune.autotune.cli.errors import ExitCode
from pega_tune.autotune.cli.output import fields, table
from pega_tune.autotune.cli.session import Session, session_of
from pega_tune.autotune.cli.units import format_duration, format_rate, format_size, parse_size
from pega_tune.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pega_tune.autotune.bench.transfer import BenchResult, Row, TransferBenchRequest
    from pega_tune.kernels.facts import DeviceFacts
    from pega_tune.kernels.plan import AnyPlan
    from pega_tune.kernels.shape import Direction

app = typer.Typer(name="bench", help="Everything that can be done, side by side.")

_HEADINGS = (
    "NAME", "KIND", "DIRECTION", "RATE", "RATIO", "UNPREPARED", "RATIO", "PREPARE", "SUBMIT", "HOST", "SM TIME", "NOTE"
)  # fmt: skip
_FAILURES = ("mismatch", "crashed", "timed-out", "invalid")
_FLAGS = ("throttled", "contended", "slow-link")


@app.callback()
def _group() -> None:
    """A group even while it has one command."""


@app.command("transfer")
def transfer(
    context: typer.Context,
    device: Annotated[str, typer.Option(metavar="auto|N|UUID|sim:NAME", help="What to measure.")] = "auto",
    ranges: Annotated[int | None, typer.Option(metavar="N", help="Ranges, per direction.  [default: 16384]")] = None,
    range_bytes: Annotated[
        str | None, typer.Option(metavar="SIZE", help="Bytes of each range, e.g. 4KiB.  [default: 4KiB]")
    ] = None,
    layout: Annotated[
        str | None,
        typer.Option(
            metavar="contiguous|strided|shuffled|host-ordered|runs:N",
            help="How the ranges lie; runs:N is N runs on the host, shuffled.  [default: shuffled]",
        ),
    ] = None,
    direction: Annotated[
        str | None, typer.Option(metavar="h2d|d2h|both", help="Which way.  [default: each of the three]")
    ] = None,
    rounds: Annotated[int | None, typer.Option(metavar="N", help="Timed rounds of each.  [default: 15]")] = None,
    seed: Annotated[int | None, typer.Option(metavar="N", help="Of every random choice.  [default: 0]")] = None,
) -> None:
    """Move one batch by every plan, and by the rules that systems ship today, beside one contiguous copy.

    All are interleaved, verified byte for byte, and timed with and without preparation. Nothing is stored. Exit code
    5: the device was disturbed, or something failed; the answer says what.
    """
    request = _request(ranges, range_bytes, layout, direction, rounds, seed)
    session = session_of(context)
    facts, results = _measure(session, device, request)
    for warning in dict.fromkeys(_warnings(results)):
        session.output.warn(warning)
    session.output.answer(_document(facts, request, results), list(_lines(facts, request, results)))
    if _flagged(results):
        raise typer.Exit(ExitCode.FLAGGED)


def _request(
    ranges: int | None,
    range_bytes: str | None,
    layout: str | None,
    direction: str | None,
    rounds: int | None,
    seed: int | None,
) -> TransferBenchRequest:
    from pega_tune.autotune.bench.transfer import TransferBenchRequest
    from pega_tune.autotune.layouts import NamedLayout

    asked: dict[str, Any] = {
        "ranges": ranges,
        "range_bytes": None if range_bytes is None else parse_size(range_bytes),
        "layout": None if layout is None else NamedLayout.parse(layout),
        "directions": None if direction is None else (_direction(direction),),
        "rounds": rounds,
        "seed": seed,
    }
    return TransferBenchRequest(**{name: value for name, value in asked.items() if value is not None})


def _direction(word: str) -> Direction:
    from pega_tune.kernels.shape import Direction

    known = [str(direction) for direction in Direction]
    if word not in known:
        raise UsageError(f"there is no direction {word!r}", f"choose one of: {', '.join(known)}")
    return Direction(word)


def _measure(
    session: Session, device: str, request: TransferBenchRequest
) -> tuple[DeviceFacts, tuple[BenchResult, ...]]:
    from pega_tune.autotune.bench.transfer import measure, plan_transfer_bench
    from pega_tune.autotune.cli.progress import StepProgress
    from pega_tune.autotune.devices import find_device
    from pega_tune.autotune.isolated import IsolatedEngine

    choice = find_device(device)
    kind = "simulated device" if choice.facts.simulated else "device"
    session.output.note(f"{kind} {choice.facts.uuid}: {choice.facts.provenance.name}")
    progress = StepProgress(session.output)
    engine = IsolatedEngine(choice.factory, choice.timeouts, lambda taken: progress.step(str(taken.phase)))
    with closing(engine), closing(progress):
        blocks = plan_transfer_bench(request, engine.capabilities())
        progress.expect(sum(planned.steps for planned in blocks))
        return choice.facts, tuple(measure(planned, engine) for planned in blocks)


def _flagged(results: Sequence[BenchResult]) -> bool:
    return any(flag in _FLAGS for result in results for flag in result.flags) or any(
        row.status in _FAILURES for result in results for row in result.rows
    )


def _warnings(results: Sequence[BenchResult]) -> Iterator[str]:
    for result in results:
        for flag in result.flags:
            yield f"the device was not in order while it was measured: {flag}"
        for row in result.rows:
            if row.status in _FAILURES and row.same_as is None:
                yield f"{row.direction}: {row.name}: {row.status}{row.detail and f' ({row.detail})'}"


def _document(facts: DeviceFacts, request: TransferBenchRequest, results: Sequence[BenchResult]) -> dict[str, Any]:
    return {
        "device": facts.uuid,
        "simulated": facts.simulated,
        "ranges": request.ranges,
        "range_bytes": request.range_bytes,
        "layout": str(request.layout),
        "seed": request.seed,
        "flags": sorted({str(flag) for result in results for flag in result.flags}),
        "rows": [_row_document(row) for result in results for row in result.rows],
    }


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
    simulated = ", SIMULATED: these numbers come from a model" if facts.simulated else ""
    size = format_size(request.range_bytes)
    yield from fields(
        [
            ("device", f"{facts.uuid}{simulated}"),
            ("batch", f"{request.ranges} ranges of {size} per direction, {request.layout}, seed {request.seed}"),
        ]
    )
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
