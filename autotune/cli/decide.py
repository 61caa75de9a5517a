"""`pega-tune decide`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pega_tune.autotune.cli.decision_report import Terms, decision_table, explanation_lines
from pega_tune.autotune.cli.options import given, optional_device, optional_size
from pega_tune.autotune.cli.possible_shapes import possible
from pega_tune.autotune.cli.session import Session, session_of
from pega_tune.autotune.cli.shapes_file import read_traffic, shape_document
from pega_tune.autotune.cli.units import parse_period, parse_size
from pega_tune.errors import UsageError
from pega_tune.kernels.shape import Direction, TransferShape
from pega_tune.profiles.policy.chain import DEFAULT_COLOCATION
from pega_tune.profiles.policy.terms import Colocation, parse_word

if TYPE_CHECKING:
    from pega_tune.autotune.kv.traffic import CountedShape
    from pega_tune.profiles.policy.auto import Auto
    from pega_tune.profiles.policy.explanation import Explanation


def add_to(app: typer.Typer) -> None:
    """Registers the command."""
    app.command("decide")(decide)


def decide(
    context: typer.Context,
    ranges: Annotated[int | None, typer.Option("--ranges", metavar="N", help="Merged ranges, per direction.")] = None,
    total_bytes: Annotated[
        str | None, typer.Option("--bytes", metavar="SIZE", help="Of all ranges, per direction, e.g. 64MiB.")
    ] = None,
    direction: Annotated[str | None, typer.Option(metavar="h2d|d2h|both", help="Which way.  [default: both]")] = None,
    shapes: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Answer for each of these instead; a JSON object on each line.")
    ] = None,
    objective: Annotated[
        str, typer.Option(metavar="throughput|balanced|tail-bounded|strict", help="What to optimise.")
    ] = "balanced",
    budget: Annotated[
        float,
        typer.Option(
            metavar="F",
            help="A fraction of a decode step: the stall that tail-bounded allows, where stalls were measured.",
        ),
    ] = 0.1,
    period: Annotated[
        str,
        typer.Option(
            metavar="TIME",
            help="From one burst of transfers to the next, with its unit; slower plans are passed over where times are "
            "known.",
        ),
    ] = "50ms",
    colocation: Annotated[
        str | None,
        typer.Option(
            metavar="idle|same-context|time-sliced|mps",
            help="Where decode runs.  [default: time-sliced if it was measured]",
        ),
    ] = None,
    runtime: Annotated[
        str, typer.Option(metavar="pegaflow|kernel-options|full", help="Which plans the transfer engine can run.")
    ] = "full",
    device: Annotated[
        str | None,
        typer.Option(metavar="auto|N|UUID|sim:NAME", help="For which device.  [default: the GPU here, if any]"),
    ] = None,
    host_runs: Annotated[
        int | None, typer.Option(metavar="N", help="Runs that are adjacent on the host side alone.  [default: unknown]")
    ] = None,
    alignment: Annotated[
        int | None,
        typer.Option(metavar="1|2|4|8|16", help="What every address and size is a multiple of.  [default: unknown]"),
    ] = None,
    pitch: Annotated[
        str | None,
        typer.Option(metavar="SIZE", help="From range to range on the device, if it is constant.  [default: unknown]"),
    ] = None,
) -> None:
    """Answer how to run a transfer.

    From the profile that fits the device best, else by a rule; the answer says which, and why.
    """
    session = session_of(context)
    period_s = parse_period(period)
    layout = {"host_runs": host_runs, "alignment": alignment, "pitch": optional_size(pitch)}
    asked = _asked(given({"ranges": ranges, "bytes": total_bytes, "direction": direction, **layout}), shapes)
    auto = _auto(session, device)
    terms: dict[str, Any] = {
        "objective": objective,
        "budget": budget,
        "period_s": period_s,
        "colocation": colocation,
        "runtime": runtime,
    }
    explained = [auto.explain(**_counts(each.shape), **terms) for each in asked]
    for warning in dict.fromkeys(warning for explanation in explained for warning in explanation.warnings):
        session.output.warn(warning)
    told = Terms(period_s, DEFAULT_COLOCATION if colocation is None else parse_word(Colocation, colocation))
    if shapes is None:
        session.output.answer(_document(explained[0], session), explanation_lines(explained[0], told))
    else:
        answers = [_answer(each, _document(one, session)) for each, one in zip(asked, explained, strict=True)]
        decisions = [explanation.decision for explanation in explained]
        session.output.answer({"answers": answers}, decision_table(asked, decisions, told))


def _asked(one: dict[str, Any], shapes: Path | None) -> tuple[CountedShape, ...]:
    """The shapes to decide on: the one of the options, or those of a file."""
    from pega_tune.autotune.kv.traffic import CountedShape

    if shapes is not None:
        if one:
            raise UsageError(f"--{next(iter(one)).replace('_', '-')} is on each line of the file", "leave it out")
        return read_traffic(shapes)
    if not {"ranges", "bytes"} <= one.keys():
        raise UsageError("the shape of the transfer is missing: --ranges and --bytes", "or give --shapes FILE")
    ranges, total_bytes = one.pop("ranges"), parse_size(one.pop("bytes"))
    direction = parse_word(Direction, one.pop("direction", Direction.BOTH))
    return (CountedShape(possible(TransferShape(ranges, total_bytes, direction, **one))),)


def _auto(session: Session, device: str | None) -> Auto:
    from pega_tune.profiles.policy.auto import Auto

    return Auto.for_device(optional_device(device), session.database)


def _counts(shape: TransferShape) -> dict[str, Any]:
    """The arguments of a look-up that tell a shape."""
    return {
        "merged_ranges": shape.merged_ranges,
        "total_bytes": shape.total_bytes,
        "direction": shape.direction,
        "host_runs": shape.host_runs,
        "alignment": shape.alignment,
        "pitch": shape.pitch,
    }


def _answer(asked: CountedShape, document: dict[str, Any]) -> dict[str, Any]:
    return {"shape": shape_document(asked.shape), "count": asked.count, **document}


def _document(explanation: Explanation, session: Session) -> dict[str, Any]:
    warnings = [session.output.advised(warning) for warning in explanation.warnings]
    return {**explanation.to_json(), "warnings": warnings}
