"""`pega-tune decide`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from pega_tune.autotune.cli.options import optional_device
from pega_tune.autotune.cli.output import fields
from pega_tune.autotune.cli.session import Session, session_of
from pega_tune.autotune.cli.units import format_age, format_duration, parse_duration
from pega_tune.kernels.plan import CopyPlan

if TYPE_CHECKING:
    from pega_tune.profiles.policy.auto import Auto
    from pega_tune.profiles.policy.decision import Decision


def add_to(app: typer.Typer) -> None:
    """Registers the command."""
    app.command("decide")(decide)


def decide(
    context: typer.Context,
    ranges: Annotated[int, typer.Option("--ranges", metavar="N", help="Merged ranges, per direction.")],
    total_bytes: Annotated[int, typer.Option("--bytes", metavar="B", help="Bytes of all ranges, per direction.")],
    direction: Annotated[str, typer.Option(metavar="h2d|d2h|both", help="Which way.")] = "both",
    objective: Annotated[
        str, typer.Option(metavar="throughput|balanced|tail-bounded|strict", help="What to optimise.")
    ] = "balanced",
    budget: Annotated[
        float, typer.Option(metavar="F", help="Stall that tail-bounded allows, as a fraction of a decode step.")
    ] = 0.1,
    period: Annotated[str, typer.Option(metavar="TIME", help="From one burst of transfers to the next.")] = "50ms",
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
        int | None, typer.Option(metavar="N", help="Runs that are adjacent on the host side alone.")
    ] = None,
) -> None:
    """Answer how to run a transfer.

    From the profile that fits the device best, else by a rule; the answer says which, and why.
    """
    session = session_of(context)
    decision = _auto(session, device).decide(
        ranges,
        total_bytes,
        direction,
        objective=objective,
        budget=budget,
        period_s=parse_duration(period),
        colocation=colocation,
        runtime=runtime,
        host_runs=host_runs,
    )
    for warning in decision.warnings:
        session.output.warn(warning)
    session.output.answer(decision.to_json(), _lines(decision))


def _auto(session: Session, device: str | None) -> Auto:
    from pega_tune.profiles.policy.auto import Auto

    return Auto.for_device(optional_device(device), session.database)


def _lines(decision: Decision) -> list[str]:
    plan, predicted = decision.plan, decision.predicted
    plans = [("plan", plan.key)] if isinstance(plan, CopyPlan) else [("load", plan.load.key), ("save", plan.save.key)]
    return fields(
        [
            *plans,
            ("time", _time(predicted.time_s)),
            ("stall", _time(predicted.stall_s)),
            ("completion p99", _time(predicted.completion_p99_s)),
            ("budget met", "yes" if decision.budget_met else "no"),
            ("decode", f"{decision.colocation}, evidence {decision.evidence}"),
            ("tier", str(decision.tier)),
            ("profile", _profile(decision)),
            ("why", decision.why),
        ]
    )


def _profile(decision: Decision) -> str:
    if decision.profile is None:
        return "none"
    age = "" if decision.age_s is None else f", {format_age(decision.age_s)} old"
    return f"{decision.profile}{age}{', SIMULATED' if decision.simulated else ''}"


def _time(seconds: float | None) -> str:
    return "" if seconds is None else format_duration(seconds)
