"""`pega-tune bench regret`: what `Auto` costs against the best plan, where no sweep has been."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pega_tune.autotune.cli.bench_outcome import flagged, troubles
from pega_tune.autotune.cli.bench_regret_report import Judged, claims_document, claims_lines, document, left_out, lines
from pega_tune.autotune.cli.engines import EngineOptions, StartMps, require_mps, started
from pega_tune.autotune.cli.errors import ExitCode
from pega_tune.autotune.cli.options import BESIDE_DECODE, DeviceOption, SeedOption, colocations, given
from pega_tune.autotune.cli.progress import StepProgress
from pega_tune.autotune.cli.session import Session, session_of
from pega_tune.autotune.cli.shapes_file import read_shapes
from pega_tune.autotune.cli.units import format_duration, parse_duration
from pega_tune.errors import UsageError
from pega_tune.kernels.shape import Direction
from pega_tune.profiles.policy.terms import Objective

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pega_tune.autotune.bench.regret import RegretResult
    from pega_tune.autotune.bench.regret_beside import ClaimsResult
    from pega_tune.autotune.bench.regret_claims import ClaimsPlan, ClaimsRequest
    from pega_tune.autotune.bench.regret_plan import RegretRequest
    from pega_tune.autotune.devices import DeviceChoice
    from pega_tune.kernels.facts import DeviceFacts
    from pega_tune.profiles.policy.auto import Auto
    from pega_tune.profiles.policy.terms import Colocation

_JUDGED = (Objective.THROUGHPUT, Objective.TAIL_BOUNDED)


@dataclass(frozen=True, slots=True)
class _Run:
    """What every way of judging needs: where to print, the device, whom to judge, and how long it may take."""

    session: Session
    choice: DeviceChoice
    auto: Auto
    within_s: float


def regret(
    context: typer.Context,
    device: DeviceOption = "auto",
    seed: SeedOption = None,
    count: Annotated[
        int | None,
        typer.Option(metavar="N", help="Shapes of each direction; of tail-bounded, claims.  [default: 40; 20]"),
    ] = None,
    shapes: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="These shapes instead of held-out ones; a JSON object on each line."),
    ] = None,
    direction: Annotated[
        str | None,
        typer.Option(metavar="h2d|d2h|both", help="Which way.  [default: each of the three; of tail-bounded, both]"),
    ] = None,
    objective: Annotated[
        str,
        typer.Option(
            metavar="throughput|tail-bounded", help="What is asked of Auto; tail-bounded checks what it claims."
        ),
    ] = "throughput",
    profile: Annotated[
        str | None, typer.Option(metavar="ID", help="Whose tables answer.  [default: what fits the device best]")
    ] = None,
    budget: Annotated[
        float | None,
        typer.Option(metavar="F", help="Of tail-bounded: stall allowed, a fraction of a decode step.  [default: 0.1]"),
    ] = None,
    colocation: Annotated[
        str | None, typer.Option(metavar="WORD", help="Of tail-bounded: where decode runs.  [default: time-sliced]")
    ] = None,
    start_mps: StartMps = False,
    within: Annotated[str, typer.Option(metavar="TIME", help="Begin no shape after it.")] = "10m",
) -> None:
    """Judge what Auto answers at shapes that no sweep has seen.

    Its choice is measured beside all that may be better. Regret is t(chosen) / t(best) - 1. The best is picked in one
    half of the rounds and timed in the other, so that an equal plan costs nothing; the floor is what such a pick costs
    against that of the other half. Every rule that systems ship has a row. With tail-bounded, bursts run beside decode,
    and every claim to keep the budget is checked. Nothing is stored. Exit code 4: there is no profile. Exit code 5: the
    device was disturbed, or something failed; the answer says what.
    """
    judged = _objective(objective)
    if shapes is not None and count is not None:
        raise UsageError("--count is of held-out shapes, and --shapes says which to take", "leave one of them out")
    asked: dict[str, Any] = {"seed": seed, "count": count, "shapes": None if shapes is None else read_shapes(shapes)}
    if judged is Objective.THROUGHPUT:
        _refuse({"--budget": budget, "--colocation": colocation, "--start-mps": start_mps or None})
        ways = None if direction is None else (_direction(direction),)
        request = _regret_request(given({**asked, "directions": ways}))
        _judge_regret(_begin(context, device, profile, within), request)
        return
    places = None if colocation is None else colocations(colocation, BESIDE_DECODE)
    way = None if direction is None else _direction(direction)
    claims = _claims_request(given({**asked, "direction": way, "budget": budget}), places)
    require_mps(start_mps, (claims.colocation,))
    _judge_claims(_begin(context, device, profile, within), claims, start_mps)


def _objective(word: str) -> Objective:
    if word not in _JUDGED:
        hint = f"choose one of: {', '.join(_JUDGED)}"
        raise UsageError(f"regret of {word!r} is not measured", hint)
    return Objective(word)


def _direction(word: str) -> Direction:
    known = [str(direction) for direction in Direction]
    if word not in known:
        raise UsageError(f"there is no direction {word!r}", f"choose one of: {', '.join(known)}")
    return Direction(word)


def _refuse(options: dict[str, Any]) -> None:
    """Options that are for `tail-bounded` alone."""
    odd = next((name for name, value in options.items() if value is not None), None)
    if odd is not None:
        raise UsageError(f"{odd} is for --objective tail-bounded", "leave it out")


def _regret_request(asked: dict[str, Any]) -> RegretRequest:
    from pega_tune.autotune.bench.regret_plan import RegretRequest

    return RegretRequest(**asked)


def _claims_request(asked: dict[str, Any], places: tuple[Colocation, ...] | None) -> ClaimsRequest:
    from pega_tune.autotune.bench.regret_claims import ClaimsRequest

    if places is not None and len(places) > 1:
        raise UsageError("claims are checked in one colocation at a time", "name one")
    return ClaimsRequest(**asked) if places is None else ClaimsRequest(**asked, colocation=places[0])


def _begin(context: typer.Context, device: str, profile: str | None, within: str) -> _Run:
    from pega_tune.autotune.devices import find_device
    from pega_tune.autotune.verify.lookup import NoProfileError

    within_s = parse_duration(within)
    session = session_of(context)
    choice = find_device(device)
    session.note_device(choice.facts)
    auto = _auto(session, choice.facts, profile)
    if auto.profile is None:
        raise NoProfileError(
            "; ".join(auto.warnings) or f"no profile fits {choice.facts.uuid}",
            "without one there is nothing to judge; --profile ID names one that is not published",
        )
    for warning in auto.warnings:
        session.output.warn(warning)
    return _Run(session, choice, auto, within_s)


def _auto(session: Session, facts: DeviceFacts, profile: str | None) -> Auto:
    from pega_tune.autotune.bench.regret_profile import auto_of
    from pega_tune.profiles.policy.auto import Auto

    if profile is None:
        return Auto.for_device(facts, session.database)
    with session.read_store() as store:
        record = store.profile(profile)
    if record.device.class_id != facts.class_id:
        session.output.warn(f"profile {record.profile_id} is of another class of device: {record.device.uuid}")
    return auto_of(record)


def _judge_regret(run: _Run, request: RegretRequest) -> None:
    from pega_tune.autotune.bench.regret import measure_all
    from pega_tune.autotune.bench.regret_plan import plan_regret

    output, progress = run.session.output, StepProgress(run.session.output)
    with started(run.choice) as engine, closing(progress):
        plan = plan_regret(request, run.auto, engine.capabilities())
        _tell(run, len(plan.shapes), "shapes", plan.estimate_s)
        progress.expect(len(plan.shapes))
        result = measure_all(plan, engine, run.within_s, lambda shape: progress.step(shape.held_out.key))
    for warning in dict.fromkeys(_warnings(result)):
        output.warn(warning)
    head = Judged(run.choice.facts, run.auto)
    output.answer(document(head, request, result), list(lines(head, request, result)))
    if flagged(result.shapes) or result.summary().untimed:
        raise typer.Exit(ExitCode.FLAGGED)


def _judge_claims(run: _Run, request: ClaimsRequest, start_mps: bool) -> None:
    from pega_tune.autotune.bench.regret_beside import check_all
    from pega_tune.autotune.bench.regret_claims import plan_claims

    output, progress = run.session.output, StepProgress(run.session.output)
    with started(run.choice, EngineOptions(start_mps)) as engine, closing(progress):
        plan = plan_claims(request, run.auto, engine.capabilities())
        if plan.is_short:
            output.warn(_shortage(plan))
        _tell(run, len(plan.bursts), "bursts", plan.estimate_s)
        progress.expect(len(plan.bursts))
        result = check_all(plan, run.auto, engine, run.within_s, lambda burst: progress.step(burst.held_out.key))
    for warning in dict.fromkeys(_claim_warnings(result)):
        output.warn(warning)
    head = Judged(run.choice.facts, run.auto)
    output.answer(claims_document(head, request, result), list(claims_lines(head, request, result)))
    if flagged(result.bursts):
        raise typer.Exit(ExitCode.FLAGGED)


def _shortage(plan: ClaimsPlan) -> str:
    """Why there are fewer claims to check than were asked for."""
    request = plan.request
    return (
        f"claims to check: {plan.claims} instead of {request.count}, as Auto makes no more about {plan.drawn} bursts; "
        f"they need evidence of decode {request.colocation}, and a standard sweep has more of it than a quick one"
    )


def _tell(run: _Run, count: int, what: str, estimate_s: float) -> None:
    """How long it should take, before anything has run."""
    limit = f"begins nothing new after {format_duration(run.within_s)}"
    run.session.output.note(f"{what} to measure: {count}; about {format_duration(estimate_s)}, {limit}")


def _warnings(result: RegretResult) -> Iterator[str]:
    for shape in result.shapes:
        key = shape.planned.held_out.key
        yield from troubles(shape, lambda _row, key=key: key)  # type: ignore[misc]
        row = shape.row("auto")
        if row.halves is None:
            yield f"{key}: what Auto takes could not be timed: {row.status}{row.detail and f' ({row.detail})'}"
    yield from left_out(result.too_large, result.too_late, "shapes")


def _claim_warnings(result: ClaimsResult) -> Iterator[str]:
    for burst in result.bursts:
        key = burst.burst.held_out.key
        yield from troubles(burst, lambda _row, key=key: key)  # type: ignore[misc]
    yield from left_out(result.too_large, result.too_late, "bursts")
