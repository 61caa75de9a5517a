"""`pega-tune sweeps list`, `show` and `export`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import fields as attributes
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pega_tune.autotune.cli.devices import describe, document
from pega_tune.autotune.cli.options import SweepArgument, named_file
from pega_tune.autotune.cli.output import fields, table
from pega_tune.autotune.cli.session import session_of
from pega_tune.autotune.cli.units import format_duration, format_time
from pega_tune.errors import DataError, UsageError

if TYPE_CHECKING:
    from pega_tune.autotune.sweep.axes import Axes
    from pega_tune.autotune.sweep.confirming import Loss
    from pega_tune.profiles.store.records import BlockRecord, SweepSummary
    from pega_tune.profiles.store.store import Store

    Counts = dict[str, int]

_STDOUT = Path("-")

app = typer.Typer(name="sweeps", help="What was measured.")


@app.command("list")
def list_sweeps(context: typer.Context) -> None:
    """List the sweeps in the database, newest first."""
    session = session_of(context)
    with session.read_store() as store:
        summaries = store.sweeps()
    session.output.answer(
        {"sweeps": [_summary(summary) for summary in summaries]},
        table(
            ("SWEEP", "DEVICE", "PRESET", "STATE", "BLOCKS", "CELLS", "STARTED", "PROFILE"),
            (_row(summary) for summary in summaries),
        ),
    )


@app.command("show")
def show_sweep(context: typer.Context, sweep: SweepArgument) -> None:
    """Show what a sweep ran on, how far it came, and what it measured."""
    from pega_tune.autotune.cli.confirm_report import confirm_document, confirm_lines
    from pega_tune.autotune.cli.serving_report import serving_documents, serving_lines
    from pega_tune.autotune.sweep.axes import axes
    from pega_tune.autotune.sweep.serving_policy import surveys

    session = session_of(context)
    with session.read_store() as store:
        summary = store.sweep(sweep)
        blocks = tuple(store.blocks(summary.sweep.sweep_id))
        again = _second_pass(store, summary, blocks)
    record = summary.sweep
    counts, seen = _by_axis(axes(blocks)), surveys(blocks)
    statuses = _counted(cell.status for block in blocks for cell in block.cells)
    flags = _counted(str(flag) for block in blocks for flag in block.flags)
    whole = {
        **_summary(summary),
        "seed": record.seed,
        "method_version": record.method_version,
        "kernel_digest": record.kernel_digest,
        "device_facts": document(record.device),
        "axes": counts,
        "serving": serving_documents(seen),
        "second_pass": confirm_document(again),
        "statuses": statuses,
        "flags": flags,
    }
    lines = [
        *fields([*_facts(summary), ("cells by status", _text(statuses)), ("blocks by flag", _text(flags))]),
        "",
        "measured cells by plan axis (value x cells)",
        *fields((axis, _text(values)) for axis, values in counts.items()),
        *confirm_lines(again),
        *serving_lines(seen),
    ]
    session.output.answer(whole, lines)


@app.command("export")
def export_sweep(
    context: typer.Context,
    sweep: SweepArgument,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="Where to, replaced if it is there; - is stdout.")
    ],
    commit: Annotated[str, typer.Option(metavar="ID", help="Of the sources that measured, to be noted.")] = "",
    command: Annotated[str, typer.Option(metavar="TEXT", help="That measured, to be noted.")] = "",
) -> None:
    """Write a sweep with all its samples into a file, to be replayed."""
    from pega_tune.autotune.replay.codec import encode
    from pega_tune.autotune.replay.recording import record_sweep
    from pega_tune.profiles.policy.urls import without_passwords

    session = session_of(context)
    if output == _STDOUT and session.output.json:
        raise UsageError("a recording is no JSON document", "name a file, or leave --json out")
    file = output if output == _STDOUT else named_file(output)
    with session.read_store() as store:
        recording = record_sweep(store, sweep, commit, without_passwords(command))
    content = encode(recording)
    if file == _STDOUT:
        session.output.write(content)
        return
    try:
        file.write_bytes(content)
    except OSError as error:
        raise DataError(f"{file}: {error.strerror}") from error
    whole = {"sweep": recording.sweep.sweep_id, "file": str(file), "blocks": len(recording.blocks)}
    session.output.answer(
        {**whole, "bytes": len(content)},
        fields([(name, str(value)) for name, value in (*whole.items(), ("size", f"{len(content)} bytes"))]),
    )


def _second_pass(store: Store, summary: SweepSummary, blocks: Iterable[BlockRecord]) -> tuple[Loss, ...]:
    """What became of the choices of the sweep's profile; nothing if it has none."""
    from pega_tune.autotune.sweep.confirming import second_pass
    from pega_tune.profiles.policy.compiled import decode

    if summary.profile_id is None:
        return ()
    return second_pass(decode(store.profile(summary.profile_id).compiled), blocks)


def _summary(summary: SweepSummary) -> dict[str, Any]:
    record = summary.sweep
    return {
        "sweep": record.sweep_id,
        "device": record.device.uuid,
        "simulated": record.device.simulated,
        "preset": record.preset,
        "state": str(record.state),
        "reasons": list(record.reasons),
        "blocks": summary.blocks,
        "planned_blocks": record.planned_blocks,
        "cells": summary.cells,
        "seconds": record.seconds,
        "started_at": record.started_at.isoformat(),
        "profile": summary.profile_id,
    }


def _row(summary: SweepSummary) -> tuple[str, ...]:
    record = summary.sweep
    return (
        record.sweep_id,
        record.device.uuid,
        record.preset,
        str(record.state),
        f"{summary.blocks}/{record.planned_blocks}",
        str(summary.cells),
        format_time(record.started_at),
        summary.profile_id or "-",
    )


def _facts(summary: SweepSummary) -> list[tuple[str, str]]:
    record = summary.sweep
    return [
        ("sweep", record.sweep_id),
        *describe(record.device),
        ("preset", f"{record.preset}, seed {record.seed}"),
        ("state", str(record.state)),
        ("reasons", "; ".join(record.reasons)),
        ("blocks", f"{summary.blocks} of {record.planned_blocks}, {summary.cells} cells"),
        ("started", f"{format_time(record.started_at)}, took {format_duration(record.seconds)}"),
        ("profile", summary.profile_id or "none"),
    ]


def _by_axis(measured: Axes) -> dict[str, Counts]:
    """Cells by value, by axis; JSON wants the values as text."""
    return {axis.name: {str(v): n for v, n in getattr(measured, axis.name)} for axis in attributes(measured)}


def _counted(words: Iterable[str]) -> Counts:
    return dict(sorted(Counter(words).items()))


def _text(counts: Counts) -> str:
    return ", ".join(f"{value} x {count}" for value, count in counts.items())
