"""`pega-tune profiles list`, `show`, `retire` and `rm`."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pega_tune.autotune.cli.devices import describe, document
from pega_tune.autotune.cli.options import ProfileArgument
from pega_tune.autotune.cli.output import fields, table
from pega_tune.autotune.cli.session import session_of
from pega_tune.autotune.cli.stored import profile_named
from pega_tune.autotune.cli.units import format_age, format_duration, format_size, format_time
from pega_tune.errors import UsageError
from pega_tune.profiles.policy.choose import evidence_of
from pega_tune.profiles.policy.terms import Colocation, Evidence, Hint

if TYPE_CHECKING:
    from pega_tune.profiles.policy.table import CompiledPolicy, Option, Table
    from pega_tune.profiles.store.records import FitRecord, ProfileRecord

app = typer.Typer(name="profiles", help="What was learnt.")

# Shapes whose best plans `show` lists: few small ranges to many, from a KV block's slice to whole blocks.
_RANGES = (1, 16, 256, 4096, 16_384)
_RANGE_BYTES = (4 << 10, 64 << 10, 1 << 20)
SHOWN_RUNTIME = "full"
_MOST_BYTES = 256 << 20


@app.command("list")
def list_profiles(context: typer.Context) -> None:
    """List the profiles in the database, newest first."""
    session = session_of(context)
    with session.read_store() as store:
        records = store.profiles()
    session.output.answer(
        {"profiles": [_summary(record) for record in records]},
        table(("PROFILE", "DEVICE", "CLASS", "STATE", "MADE", ""), (_row(record) for record in records)),
    )


@app.command("show")
def show_profile(context: typer.Context, profile: ProfileArgument) -> None:
    """Show a profile: its device, its state, and a few fastest plans."""
    from pega_tune.profiles.policy.compiled import decode

    session = session_of(context)
    named = profile_named(session, profile)
    record = named.record
    policy = decode(record.compiled)
    whole = {
        **_summary(record),
        "reasons": list(record.reasons),
        "sweep": record.sweep_id,
        "shipped": named.shipped,
        "digest": record.digest,
        "kernel_digest": record.kernel_digest,
        "method_version": record.method_version,
        "device_facts": document(record.device),
        "tables": [_table_document(each) for each in policy.tables],
        "fits": [_fit_document(fit) for fit in record.fits],
    }
    session.output.answer(whole, _lines(record, policy))


@app.command("retire")
def retire_profile(
    context: typer.Context,
    profile: ProfileArgument,
    reason: Annotated[str, typer.Option(metavar="TEXT", help="Why; it is shown wherever the profile is.")] = "",
    undo: Annotated[bool, typer.Option("--undo", help="Take it into use again.")] = False,
) -> None:
    """Take a profile out of use.

    It stays in the database, and nothing answers from it.
    """
    session = session_of(context)
    if undo and reason:
        raise UsageError("a reason is kept with a retired profile, and --undo takes it away", "leave --reason out")
    with session.write_store(create=False) as store:
        changed = store.retire(profile, reason, undo=undo)
        record = store.profile(profile)
    again = "" if changed else " already"
    session.output.answer(
        {**_summary(record), "reasons": list(record.reasons), "changed": changed},
        [f"profile {record.profile_id} is {record.state}{again}"],
    )


@app.command("rm")
def remove_profile(context: typer.Context, profile: ProfileArgument) -> None:
    """Delete a profile that is not in use.

    One that is published is retired first. What checks of it found goes, too; the sweep that measured it stays, but
    makes no profile again: a bundle of it does, so export one before.
    """
    session = session_of(context)
    with session.write_store(create=False) as store:
        record = store.profile(profile)
        blocks = len(store.finished_blocks(record.sweep_id))
        store.remove_profile(record.profile_id)
    kept = f"its sweep {record.sweep_id} stays, with {blocks} blocks" if blocks else "it was measured elsewhere"
    again = "`pega-tune import` of a bundle of it brings it back"
    if blocks:
        again = f"no command makes a profile of that sweep again: {again}, and `pega-tune sweep` measures anew"
    session.output.answer(
        {**_summary(record), "sweep": record.sweep_id, "blocks_kept": blocks},
        [
            f"profile {record.profile_id} of {record.device.uuid} was deleted, with what checks of it found; {kept}",
            session.output.advised(again),
        ],
    )


def _summary(record: ProfileRecord) -> dict[str, Any]:
    return {
        "id": record.profile_id,
        "profile": record.profile_id,  # as all other commands call it
        "device": record.device.uuid,
        "class": record.device.class_id,
        "state": str(record.state),
        "published_at": record.created_at.isoformat(),
        "simulated": record.device.simulated,
    }


def _row(record: ProfileRecord) -> tuple[str, ...]:
    device = record.device
    made = format_time(record.created_at)
    return (
        record.profile_id,
        device.uuid,
        device.class_id,
        str(record.state),
        made,
        "simulated" if device.simulated else "",
    )


def _table_document(each: Table) -> dict[str, Any]:
    return {
        "direction": str(each.direction),
        "colocation": str(each.colocation),
        "runtime": str(each.runtime),
        "hint": str(each.hint),
        "range_edges": list(each.range_edges),
        "size_edges": list(each.size_edges),
        "measured_ranges": list(each.measured_ranges),
        "measured_sizes": list(each.measured_sizes),
        "margin": each.margin,
        "fastest": [
            {
                "merged_ranges": ranges,
                "range_bytes": size,
                "plan": option.plan.to_json(),
                "time_s": option.predicted.time_s,
                "stall_s": option.predicted.stall_s,
                "evidence": str(evidence_of(option)),
                "block": _block(each, ranges, size),
                "basis": _basis(each, ranges, size),
            }
            for ranges, size, option in _lattice(each)
        ],
    }


def _fit_document(fit: FitRecord) -> dict[str, Any]:
    return {
        "family": fit.family,
        "direction": fit.direction,
        "colocation": str(fit.colocation),
        "model": fit.model,
        "parameters": fit.parameters,
        "residual": fit.residual,
        "reason": fit.reason,
    }


def _lattice(each: Table) -> list[tuple[int, int, Option]]:
    """The fastest option of each listed shape that was measured: ranges, bytes per range, option."""
    shapes = [(ranges, size) for size in _RANGE_BYTES for ranges in _RANGES if ranges * size <= _MOST_BYTES]
    return [(ranges, size, each.look_up(ranges, size)[0]) for ranges, size in shapes if each.covers(ranges, size)]


def _block(each: Table, ranges: int, size: int) -> str | None:
    """Key of the measured block that the cell of a shape rests on; None if the profile does not tell."""
    return each.sources[each.evidence[each.index(ranges, size)]] if each.sources else None


def _basis(each: Table, ranges: int, size: int) -> str:
    """How the time of a shape is known, by where the block lies that its cell rests on."""
    key = _block(each, ranges, size)
    if key is None:
        return "not told"
    from pega_tune.autotune.sweep.keys import shape_of

    try:
        shape = shape_of(key)
    except UsageError:  # of another maker of profiles
        return "not told"
    here = each.index(shape.merged_ranges, shape.average_range_bytes) == each.index(ranges, size)
    where = "" if key.startswith(f"{each.colocation}/") else ", idle"
    return ("measured" if here else "interpolated") + where


def _lines(record: ProfileRecord, policy: CompiledPolicy) -> list[str]:
    age_s = (datetime.now(UTC) - record.created_at).total_seconds()
    lines = fields(
        [
            ("profile", record.profile_id),
            ("state", str(record.state)),
            ("reasons", "; ".join(record.reasons)),
            *describe(record.device),
            ("made", f"{format_time(record.created_at)}, {format_age(age_s)} ago"),
            ("sweep", record.sweep_id),
            ("kernels", record.kernel_digest[:16]),
            ("digest", record.digest[:16]),
            ("fits", f"{sum(not fit.reason for fit in record.fits)} of {len(record.fits)}" if record.fits else ""),
        ]
    )
    shown = [each for each in policy.tables if each.runtime == SHOWN_RUNTIME]
    without = "; ".join(_title(each) for each in shown if not _lattice(each))
    others = sorted({str(each.runtime) for each in policy.tables} - {SHOWN_RUNTIME})
    for each in filter(_lattice, shown):
        noise = f"plans within {each.margin:.1%} of each other are equal"
        lines += ["", f"{_title(each)} ({noise})", *_table_lines(each)]
    lines += ["", f"none of these shapes was measured, though others were: {without}"] if without else []
    return [*lines, "", f"tables for the runtimes {', '.join(others)} are in --json"] if others else lines


def _title(each: Table) -> str:
    known = "" if each.hint is Hint.NONE else f", {each.hint} ranges"
    return f"{each.direction}, {each.colocation}, runtime {each.runtime}{known}"


def _table_lines(each: Table) -> list[str]:
    """The fastest plans of a table, with how their times are known, beside decode with what is known of the stall."""
    beside = each.colocation is not Colocation.IDLE
    stall = ("STALL",) if beside else ()
    rows = [
        (
            str(ranges),
            format_size(size),
            format_duration(option.predicted.time_s),
            *((_stall(option),) if beside else ()),
            _basis(each, ranges, size),
            option.plan.key,
        )
        for ranges, size, option in _lattice(each)
    ]
    return table(("RANGES", "OF", "TIME", *stall, "TIME IS", "FASTEST PLAN"), rows)


def _stall(option: Option) -> str:
    """What is known of a stall; of most shapes nothing was measured beside decode."""
    evidence, stall_s = evidence_of(option), option.predicted.stall_s
    if evidence is Evidence.NONE or stall_s is None:
        return "no evidence"
    told = format_duration(stall_s) if stall_s else "0 s"
    return f"{told}, fitted" if evidence is Evidence.FITTED else told
