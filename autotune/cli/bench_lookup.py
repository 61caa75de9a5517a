"""`pega-tune bench lookup`: how long look-ups take."""

from __future__ import annotations

import platform
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pega_tune.autotune.cli.options import SeedOption, optional_device
from pega_tune.autotune.cli.output import fields, table
from pega_tune.autotune.cli.session import session_of
from pega_tune.profiles.policy.explain import format_duration

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pega_tune.autotune.bench.lookup import LookupRow
    from pega_tune.autotune.bench.lookup_profile import Subject

_HEADINGS = ("NAME", "MEDIAN", "OF DICT", "OF")


def lookup(
    context: typer.Context,
    device: Annotated[
        str | None,
        typer.Option(metavar="auto|N|UUID|sim:NAME", help="Whose profile.  [default: the GPU here, if any]"),
    ] = None,
    seed: SeedOption = None,
) -> None:
    """Time a look-up in Auto beside one in a dictionary.

    One decision, many at once, and loading a profile, in this process. It needs no GPU: without a profile that fits, a
    bundled one is taken, or that of a simulated device; the answer says which. Nothing is stored.
    """
    from pega_tune.autotune.bench.lookup import LookupShapes, measure
    from pega_tune.autotune.bench.lookup_profile import subject_for
    from pega_tune.profiles.policy.auto import Auto

    session = session_of(context)
    subject = subject_for(Auto.for_device(optional_device(device), session.database))
    shapes = LookupShapes(seed or 0)
    rows = measure(subject.auto, shapes)
    session.output.answer(_document(subject, shapes.seed, rows), _lines(subject, shapes.seed, rows))


def _document(subject: Subject, seed: int, rows: Sequence[LookupRow]) -> dict[str, Any]:
    profile = subject.auto.profile
    return {
        "profile": None if profile is None else profile.profile_id,
        "simulated": profile is not None and profile.device.simulated,
        "tier": str(subject.auto.tier),
        "source": subject.source,
        "python": platform.python_version(),
        "seed": seed,
        "rows": [{"name": row.name, "median_s": row.median_s, "rounds": row.rounds, "note": row.note} for row in rows],
    }


def _lines(subject: Subject, seed: int, rows: Sequence[LookupRow]) -> Iterator[str]:
    profile = subject.auto.profile
    simulated = ", SIMULATED" if profile is not None and profile.device.simulated else ""
    named = "none" if profile is None else f"{profile.profile_id}{simulated}: {subject.source}"
    interpreter = f"{platform.python_implementation()} {platform.python_version()}"
    yield from fields([("profile", named), ("python", interpreter), ("seed", str(seed))])
    yield ""
    yield from table(
        _HEADINGS,
        [(row.name, format_duration(row.median_s), _of_reference(row, rows[0]), row.note) for row in rows],
    )


def _of_reference(row: LookupRow, reference: LookupRow) -> str:
    """How many look-ups in a dictionary it takes as long as; of a whole profile that says nothing."""
    return f"{row.median_s / reference.median_s:.1f}" if row.is_lookup else "-"
