"""What a canary found, for people and as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pega_tune.autotune.cli.output import fields, table
from pega_tune.autotune.cli.units import format_duration
from pega_tune.autotune.layouts import SHUFFLED, NamedLayout

if TYPE_CHECKING:
    from pega_tune.autotune.measuring.statistics import Interval
    from pega_tune.autotune.verify.verification import CheckedCell, Verification
    from pega_tune.kernels.shape import TransferShape

_HEADINGS = ("DIRECTION", "RANGES", "OF", "LAYOUT", "PLAN", "STORED", "NOW", "CHANGE", "INTERVAL", "")


def verify_document(found: Verification) -> dict[str, Any]:
    """The outcome as a JSON object."""
    return {
        "profile": found.profile_id,
        "device": found.device.uuid,
        "simulated": found.device.simulated,
        "verdict": str(found.verdict),
        "reasons": list(found.reasons),
        "changed": list(found.stale),
        "cells": [_cell(cell) for cell in found.cells],
        "seconds": found.seconds,
    }


def verify_lines(found: Verification) -> list[str]:
    """The outcome for people."""
    head = fields(
        [
            ("profile", found.profile_id),
            ("device", f"{found.device.provenance.name} ({found.device.uuid})"),
            ("verdict", str(found.verdict)),
            ("reasons", "; ".join(found.reasons)),
            ("changed", ", ".join(found.stale)),
            ("measured", format_duration(found.seconds) if found.cells else ""),
        ]
    )
    if not found.cells:
        return head
    return [*head, "", *table(_HEADINGS, (_row(cell) for cell in found.cells)), "", _LEGEND]


_LEGEND = "STORED and NOW are times over those of a contiguous copy, whose own are in seconds"


def _row(cell: CheckedCell) -> tuple[str, ...]:
    shape, change = cell.shape, cell.change
    place = (str(shape.direction), str(shape.merged_ranges), f"{shape.average_range_bytes} B", _layout(shape))
    plan = "contiguous copy" if cell.plan is None else cell.plan.key
    if change is None:
        return (*place, plan, "-", "-", "-", "-", cell.detail or "not known")
    show = format_duration if cell.plan is None else _factor
    times = (show(change.stored.estimate), show(change.now.estimate))
    found = change.alone
    return (*place, plan, *times, _factor(found.estimate), f"{found.low:.3f} to {found.high:.3f}", str(cell.state))


def _layout(shape: TransferShape) -> str:
    """How the ranges lie, where it is not the usual way."""
    return "" if (layout := NamedLayout.fitting(shape)) == SHUFFLED else str(layout)


def _factor(value: float) -> str:
    return f"{value:.3f}"


def _cell(cell: CheckedCell) -> dict[str, Any]:
    shape, change = cell.shape, cell.change
    found = None if change is None else change.alone
    return {
        "subject": cell.subject,
        "direction": str(shape.direction),
        "ranges": shape.merged_ranges,
        "bytes": shape.total_bytes,
        "host_runs": shape.host_runs,
        "pitch": shape.pitch,
        "layout": str(NamedLayout.fitting(shape)),
        "plan": None if cell.plan is None else cell.plan.to_json(),
        "unit": "seconds" if cell.plan is None else "times of a contiguous copy",
        "stored": None if change is None else _interval(change.stored),
        "now": None if change is None else _interval(change.now),
        "change": None if found is None else found.estimate,
        "low": None if found is None else found.low,
        "high": None if found is None else found.high,
        "state": str(cell.state),
        "detail": cell.detail,
    }


def _interval(interval: Interval) -> dict[str, float]:
    return {"median": interval.estimate, "low": interval.low, "high": interval.high}
