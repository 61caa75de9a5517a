"""`pega-tune sweep`."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pega_tune.autotune.cli.engines import EngineOptions, StartMps, require_mps, started
from pega_tune.autotune.cli.errors import ExitCode
from pega_tune.autotune.cli.options import colocations, given
from pega_tune.autotune.cli.output import fields
from pega_tune.autotune.cli.session import Session, session_of
from pega_tune.autotune.cli.shapes_file import read_shapes
from pega_tune.autotune.cli.signals import Interruption
from pega_tune.autotune.cli.units import format_duration, parse_duration, parse_size
from pega_tune.errors import DeviceError, UsageError
from pega_tune.profiles.policy.explain import counted

if TYPE_CHECKING:
    from collections.abc import Generator

    from pega_tune.autotune.devices import DeviceChoice
    from pega_tune.autotune.sweep.events import SweepEvent, SweepFinished
    from pega_tune.autotune.sweep.request import SweepRequest
    from pega_tune.kernels.facts import DeviceFacts


_LARGEST_SEED = 2**63 - 1  # what a database's integers hold


def add_to(app: typer.Typer) -> None:
    """Registers the command."""
    app.command("sweep")(sweep)


def sweep(
    context: typer.Context,
    device: Annotated[
        str | None, typer.Option(metavar="auto|N|UUID|sim:NAME", help="What to measure.  [default: auto]")
    ] = None,
    preset: Annotated[
        str | None, typer.Option(metavar="quick|standard|thorough", help="How much to measure.  [default: quick]")
    ] = None,
    budget: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="A duration, after which nothing new begins, e.g. 5m.  [default: by preset]"),
    ] = None,
    shapes: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Measure these shapes, too; a JSON object on each line.")
    ] = None,
    colocation: Annotated[
        str | None,
        typer.Option(
            metavar="WORDS",
            help="Where decode runs, among idle, same-context, time-sliced, mps.  [default: by preset]",
        ),
    ] = None,
    decode: Annotated[
        str | None,
        typer.Option(metavar="builtin|torch|external:CMD|none", help="What decodes beside.  [default: builtin]"),
    ] = None,
    model: Annotated[
        str | None, typer.Option(metavar="NAME|layers=N,...", help="Its shape.  [default: qwen3-4b]")
    ] = None,
    start_mps: StartMps = False,
    max_device_memory: Annotated[
        str | None, typer.Option(metavar="SIZE", help="Most device memory to use, e.g. 2GiB.  [default: what is free]")
    ] = None,
    max_host_memory: Annotated[
        str | None, typer.Option(metavar="SIZE", help="Most pinned host memory to use.  [default: what is free]")
    ] = None,
    allow_busy: Annotated[
        bool, typer.Option("--allow-busy", help="Measure although other processes use the device.")
    ] = False,
    resume: Annotated[
        str | None,
        typer.Option(metavar="ID", help="Measure what is missing of an earlier sweep; with --budget, in that time."),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(metavar="N", min=0, max=_LARGEST_SEED, help="Of every random choice.  [default: 0]"),
    ] = None,
    exhaustive: Annotated[
        bool,
        typer.Option(
            "--exhaustive",
            help="Compare every plan there is, without decode, at a few shapes or at those of --shapes alone; the "
            "preset is thorough unless given.",
        ),
    ] = False,
    search: Annotated[
        str | None,
        typer.Option(
            metavar="fixed|adaptive",
            help="What is compared at your shapes and where every axis is looked at: fixed lists of plans, or what a "
            "search among all plans leaves.  [default: fixed]",
        ),
    ] = None,
) -> None:
    """Measure a device and store a profile of it.

    Ctrl-C loses nothing that was finished. Exit code 5: the profile is a draft or partial.
    """
    asked = {
        "preset": preset or ("thorough" if exhaustive and resume is None else None),
        "budget_s": None if budget is None else parse_duration(budget),
        "shapes": None if shapes is None else read_shapes(shapes),
        "colocations": None if colocation is None else colocations(colocation),
        "decode": decode,
        "model": model,
        "max_device_bytes": None if max_device_memory is None else parse_size(max_device_memory),
        "max_host_bytes": None if max_host_memory is None else parse_size(max_host_memory),
        "allow_busy": allow_busy or None,
        "seed": seed,
        "exhaustive": exhaustive or None,
        "adaptive": None if search is None else _is_adaptive(search),
    }
    if resume is None:
        require_mps(start_mps, () if colocation is None else colocations(colocation))
    session = session_of(context)
    asking = _Asking(device, given(asked), EngineOptions(start_mps))
    finished = _begin(session, asking) if resume is None else _resume(session, asking, resume)
    session.output.answer(_document(finished), _lines(finished))
    if finished.state == "partial":
        session.output.note(
            f"measure what is missing with: {_resuming(finished.sweep_id, asking.options)} --budget TIME"
        )
    if finished.state != "published":
        raise typer.Exit(ExitCode.FLAGGED)


def _is_adaptive(search: str) -> bool:
    if search not in ("fixed", "adaptive"):
        raise UsageError(f"there is no search {search!r}", "choose one of: fixed, adaptive")
    return search == "adaptive"


@dataclass(frozen=True, slots=True)
class _Asking:
    """What the user wrote: the device if any, of the request what was given, and how to run the engine."""

    device: str | None
    given: dict[str, Any]
    options: EngineOptions


def _begin(session: Session, asking: _Asking) -> SweepFinished:
    from pega_tune.autotune.sweep.request import SweepRequest

    request = SweepRequest(**asking.given)
    choice = _find(asking.device or "auto", request)
    with session.write_store(create=True) as store, started(choice, asking.options) as engine:
        from pega_tune.autotune.sweep.run import run_sweep  # takes a second to load: what is refused need not wait

        return _follow(session, choice.facts, run_sweep(request, engine, store), asking.options)


def _resume(session: Session, asking: _Asking, sweep_id: str) -> SweepFinished:
    from pega_tune.autotune.sweep.request import SweepRequest

    given = dict(asking.given)
    budget_s, allow_busy = given.pop("budget_s", None), given.pop("allow_busy", False)
    with session.write_store(create=False) as store:
        begun = store.sweep(sweep_id).sweep
        request = SweepRequest.from_json(begun.request)
        _require_unchanged(sweep_id, request, given)
        choice = _find(asking.device or begun.device.uuid, request)
        with started(choice, asking.options) as engine:
            from pega_tune.autotune.sweep.run import Resumption, resume_sweep

            resumption = Resumption(sweep_id, budget_s, allow_busy)
            return _follow(session, choice.facts, resume_sweep(resumption, engine, store), asking.options)


def _require_unchanged(sweep_id: str, stored: SweepRequest, given: dict[str, Any]) -> None:
    """A resumed sweep measures what it was begun for."""
    changed = [name for name, value in given.items() if replace(stored, **{name: value}) != stored]
    if changed:
        raise UsageError(
            f"sweep {sweep_id} was begun otherwise: {', '.join(changed)}", "leave that out, or start a new sweep"
        )


def _find(device: str, request: SweepRequest) -> DeviceChoice:
    from pega_tune.autotune.devices import MemoryLimits, find_device

    return find_device(device, MemoryLimits(request.max_device_bytes, request.max_host_bytes))


def _follow(
    session: Session, facts: DeviceFacts, events: Generator[SweepEvent, None, None], options: EngineOptions
) -> SweepFinished:
    """Shows the events as they come, to the end; the last one is the result."""
    from pega_tune.autotune.cli.progress import Progress
    from pega_tune.autotune.sweep.events import SweepFinished, SweepStarted
    from pega_tune.profiles.store.errors import DatabaseDamagedError, StoreError

    progress = Progress(session.output)
    sweep_id, result = "", None
    try:
        with closing(events):
            for event in events:
                if isinstance(event, SweepStarted):
                    sweep_id = event.sweep_id
                    session.note_device(facts)
                progress.show(event)
                if isinstance(event, SweepFinished):
                    result = event
    except (Interruption, DeviceError, StoreError) as error:
        if sweep_id and not isinstance(error, DatabaseDamagedError):
            kept = f"what was finished is stored; go on with: {_resuming(sweep_id, options)}"
            error.hint = "; ".join(filter(None, (error.hint, kept)))
        raise
    finally:
        progress.end()
    assert result is not None, "a sweep ends with SweepFinished"
    return result


def _resuming(sweep_id: str, options: EngineOptions) -> str:
    """The command that goes on with a sweep; its request and its device are stored, how to run the engine is not."""
    return f"pega-tune sweep --resume {sweep_id}{' --start-mps' if options.start_mps else ''}"


def _document(finished: SweepFinished) -> dict[str, Any]:
    return {
        "sweep": finished.sweep_id,
        "profile": finished.profile_id,
        "state": str(finished.state),
        "reasons": list(finished.reasons),
        "lost": list(finished.lost),
        "blocks": finished.blocks,
        "cells": finished.cells,
        "seconds": finished.seconds,
    }


def _amount(finished: SweepFinished) -> str:
    return f"{counted(finished.cells, 'cell')} in {counted(finished.blocks, 'block')}"


def _lines(finished: SweepFinished) -> list[str]:
    return fields(
        [
            ("sweep", finished.sweep_id),
            ("profile", f"{finished.profile_id or 'none'}, {finished.state}"),
            ("unknown" if finished.state == "published" else "reasons", "; ".join(finished.reasons)),
            *(("lost", line) for line in finished.lost),
            ("measured", f"{_amount(finished)}, {format_duration(finished.seconds)}"),
        ]
    )
