"""`pega-tune db upgrade`, `current`, `check` and `backup`."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pega_tune.autotune.cli.errors import ExitCode
from pega_tune.autotune.cli.options import named_file
from pega_tune.autotune.cli.output import fields
from pega_tune.autotune.cli.session import session_of

if TYPE_CHECKING:
    from pega_tune.profiles.store.check import CheckReport

app = typer.Typer(name="db", help="Look after the database.")


@app.command("upgrade")
def upgrade(context: typer.Context) -> None:
    """Bring the database to the schema of this version.

    A backup is made before; a missing database is created.
    """
    from pega_tune.profiles.store import migrate

    session = session_of(context)
    done = migrate.upgrade(session.url)
    backup = None if done.backup is None else str(done.backup)
    line = f"the database is at revision {done.after}"
    line += " already" if done.before == done.after else f", it was {done.before or 'empty'}"
    session.output.answer(
        {"before": done.before, "revision": done.after, "backup": backup},
        [line, *([f"the old one is kept as {backup}"] if backup else [])],
    )


@app.command("current")
def current(context: typer.Context) -> None:
    """Show the schema of the database, and the one this version needs."""
    from pega_tune.profiles.store import migrate

    session = session_of(context)
    revision, head = migrate.current(session.url), migrate.head()
    session.output.answer(
        {"revision": revision, "expected": head},
        fields([("revision", revision or "none: there is no database yet"), ("this version needs", head)]),
    )


@app.command("check")
def check(context: typer.Context) -> None:
    """Read the whole database and tell whether it is sound.

    Exit code 4: it is not.
    """
    from pega_tune.profiles.store import migrate

    session = session_of(context)
    report = migrate.check(session.url)
    session.output.answer({**asdict(report), "ok": report.ok}, _lines(report))
    if not report.ok:
        raise typer.Exit(ExitCode.DATA)


@app.command("backup")
def backup(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The new file; it must not exist.")],
) -> None:
    """Copy the database, also while others write to it."""
    from pega_tune.profiles.store import migrate

    session = session_of(context)
    path = migrate.backup(session.url, named_file(file))
    session.output.answer({"backup": str(path)}, [f"the database was copied to {path}"])


def _lines(report: CheckReport) -> list[str]:
    problems = [*report.damage, *report.dangling]
    if report.revision is not None and report.revision != report.expected:
        problems.append(f"the schema is {report.revision}, this version needs {report.expected}")
    return [
        *fields(
            [
                ("database", report.database),
                ("revision", report.revision or "none"),
                *((count.table, f"{count.rows} rows") for count in report.counts),
            ]
        ),
        *problems,
        "sound" if report.ok else "not sound",
    ]
