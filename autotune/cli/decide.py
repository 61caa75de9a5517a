"""`pega-tune decide`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from pega_tune.autotune.cli.options import optional_device
from pega_tune.autotune.cli.output import fields
from pega_tune.autotune.cli.session import Session, session_of
from pega_tune.autotune.cli.units import format_age, parse_duration, parse_size
from pega_tune.kernels.plan import CopyPlan
from pega_tune.profiles.policy.explain import format_duration
from pega_tune.profiles.policy.terms import Evidence

if TYPE_CHECKING:
    from pega_tune.profiles.policy.auto import Auto
    from pega_tune.profiles.policy.decision import Decision


def add_to(app: typer.Typer) -> None:
    """Registers the command."""
    app.command("decide")(decide)


def decide(
    context: typer.Context,
    ranges: Annotated[int, typer.Option("--ranges", metavar="N", help="Merged ranges, per direction.")],
    total_bytes: Annotated[str, typer.Option("--bytes", metavar="SIZE", help="Of all ranges, per direction.")],
    direction: Annotated[str, typer.Option(metavar="h2d|d2h|both", help="Which way.")] = "both",
    objective: Annotated[
        str, typer.Option(metavar="throughput|balanced|tail-bounded|strict", help="What to optimise.")
    ] = "balanced",
    budget: Annotated[
        float,
        typer.Option(
            metavar="F",
            help="Stall that tail-bounded allows, as a fraction of a decode step; only where stalls were measured.",
        ),
    ] = 0.1,
    period: Annotated[
        str,
        typer.Option(
            metavar="TIME",
            help="From one burst of transfers to the next; slower plans are passed over where times are known.",
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
        int | None,
        typer.Option(metavar="N", help="Runs that are adjacent on the host side alone; changes no answer yet."),
    ] = None,
) -> None:
    """Answer how to run a transfer.

    From the profile that fits the device best, else by a rule; the answer says which, and why.
    """
    session = session_of(context)
    period_s = parse_duration(period)
    decision = _auto(session, device).decide(
        ranges,
        parse_size(total_bytes),
        direction,
        objective=objective,
        budget=budget,
        period_s=period_s,
        colocation=colocation,
        runtime=runtime,
        host_runs=host_runs,
    )
    for warning in decision.warnings:
        session.output.warn(warning)
    session.output.answer(decision.to_json(), _lines(decision, period_s))


def _auto(session: Session, device: str | None) -> Auto:
    from pega_tune.profiles.policy.auto import Auto

    return Auto.for_device(optional_device(device), session.database)


def _lines(decision: Decision, period_s: float) -> list[str]:
    plan, predicted = decision.plan, decision.predicted
    plans = [("plan", plan.key)] if isinstance(plan, CopyPlan) else [("load", plan.load.key), ("save", plan.save.key)]
    return fields(
        [
            *plans,
            ("time", _time(predicted.time_s) + _place(decision)),
            ("stall", _time(predicted.stall_s)),
            ("completion p99", _time(predicted.completion_p99_s)),
            ("budget met", _budget_met(decision, period_s)),
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


def _place(decision: Decision) -> str:
    place = decision.predicted_for
    return "" if place is None else f" (for {place.merged_ranges} ranges of {place.average_range_bytes} B)"


def _budget_met(decision: Decision, period_s: float) -> str:
    if decision.budget_met:
        return "yes"
    time_s = decision.predicted.time_s
    too_slow = time_s is not None and time_s >= period_s  # whatever it costs decode
    return "no" if too_slow or decision.evidence is Evidence.MEASURED else "not known"


def _time(seconds: float | None) -> str:
    return "" if seconds is None else format_duration(seconds)
