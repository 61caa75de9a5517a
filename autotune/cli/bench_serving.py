"""`pega-tune bench serving`: what transfers cost the decode steps beside them."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pega_tune.autotune.cli.bench_outcome import flagged, troubles
from pega_tune.autotune.cli.bench_serving_report import document, lines
from pega_tune.autotune.cli.engines import EngineOptions, StartMps, require_mps, started
from pega_tune.autotune.cli.errors import ExitCode
from pega_tune.autotune.cli.options import (
    DeviceOption,
    LayoutOption,
    RangeBytesOption,
    RangesOption,
    SeedOption,
    colocations,
    given,
    optional_layout,
    optional_size,
)
from pega_tune.autotune.cli.session import Session, session_of
from pega_tune.autotune.cli.units import parse_duration, parse_size
from pega_tune.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pega_tune.autotune.bench.serving import BenchResult
    from pega_tune.autotune.bench.serving_groups import Group
    from pega_tune.autotune.bench.serving_request import ServingBenchRequest
    from pega_tune.kernels.facts import DeviceFacts


@dataclass(frozen=True, slots=True)
class _Asked:
    """What the user wrote: None, or nothing at all of the pacing, where nothing was."""

    shape: dict[str, Any]
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
            **given(self.shape),
            **given(self.rest),
        )


def serving(
    context: typer.Context,
    device: DeviceOption = "auto",
    ranges: RangesOption = None,
    range_bytes: RangeBytesOption = None,
    layout: LayoutOption = None,
    colocation: Annotated[
        str | None,
        typer.Option(metavar="WORDS", help="Where decode runs.  [default: time-sliced,same-context]"),
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
    """Run decode with a burst of transfers every period, by every rule that systems ship and by the best plans.

    All are interleaved with a baseline without transfers, and verified byte for byte. Nothing is stored. Exit code 5:
    the device was disturbed, or something failed; the answer says what.
    """
    shape = {"ranges": ranges, "range_bytes": optional_size(range_bytes)}
    asked = _Asked(
        shape={**shape, "layout": optional_layout(layout)},
        pacing=_pacing(period, rate, shape),
        decode={"source": decode, "model": model},
        rest={
            "colocations": None if colocation is None else colocations(colocation),
            "groups": None if groups is None else _groups(groups),
            "rounds": rounds,
            "seed": seed,
        },
    )
    request = asked.request()
    require_mps(start_mps, request.colocations)
    session = session_of(context)
    facts, results = _measure(session, device, request, start_mps)
    for warning in dict.fromkeys(_warnings(results)):
        session.output.warn(warning)
    session.output.answer(document(facts, request, results), list(lines(facts, request, results)))
    if flagged(results):
        raise typer.Exit(ExitCode.FLAGGED)


def _groups(text: str) -> tuple[Group, ...]:
    from pega_tune.autotune.bench.serving_groups import Group

    words = [word.strip() for word in text.split(",") if word.strip()]
    if "all" in words:
        return tuple(Group)
    known = [str(group) for group in Group]
    for word in words:
        if word not in known:
            raise UsageError(f"there is nothing called {word!r} to compare", f"choose among: {', '.join(known)}, all")
    return tuple(dict.fromkeys(Group(word) for word in words))


def _pacing(period: str | None, rate: str | None, shape: dict[str, Any]) -> dict[str, Any]:
    """The burst period: as given, or what moves so many bytes per second in both directions together; else nothing."""
    from pega_tune.autotune.bench.serving_request import ServingBenchRequest

    if period is not None and rate is not None:
        raise UsageError("--period and --rate say the same thing", "give one of them")
    if period == "auto":
        return {"period_s": None}
    if rate is not None:
        plain = ServingBenchRequest(**given(shape))
        return {"period_s": 2 * plain.ranges * plain.range_bytes / parse_size(rate)}
    return {} if period is None else {"period_s": parse_duration(period)}


def _measure(
    session: Session, device: str, request: ServingBenchRequest, start_mps: bool
) -> tuple[DeviceFacts, tuple[BenchResult, ...]]:
    from pega_tune.autotune.bench.serving import measure
    from pega_tune.autotune.bench.serving_groups import Group
    from pega_tune.autotune.bench.serving_plan import plan_serving_bench, survivors
    from pega_tune.autotune.cli.progress import StepProgress
    from pega_tune.autotune.devices import find_device

    choice = find_device(device)
    session.note_device(choice.facts)
    progress = StepProgress(session.output)
    options = EngineOptions(start_mps, lambda _segment: progress.step("segment"))
    with started(choice, options) as engine, closing(progress):
        best = survivors(request, engine) if Group.BEST in request.groups else ()
        blocks = plan_serving_bench(request, engine.capabilities(), best)
        progress.expect(sum(planned.steps for planned in blocks))
        return choice.facts, tuple(measure(planned, engine) for planned in blocks)


def _warnings(results: Sequence[BenchResult]) -> Iterator[str]:
    for result in results:
        yield from troubles(result, lambda row: row.colocation)
        refused = [s.step.p99.no_claim for row in result.rows if (s := row.summary) and s.step.p99.no_claim]
        if refused:
            counted = f"{len(refused)} of {len(result.rows)} rows"
            yield f"{result.planned.block.key}: no claim about p99 in {counted}: {refused[0]}"
