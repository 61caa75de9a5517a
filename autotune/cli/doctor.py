"""`pega-tune doctor`."""

import typer

from pega_tune.autotune.cli.errors import ExitCode
from pega_tune.autotune.cli.session import session_of


def add_to(app: typer.Typer) -> None:
    """Registers the command."""
    app.command("doctor")(doctor)


def doctor(context: typer.Context) -> None:
    """Tell what works here, and how to mend the rest.

    Exit code 3 if no GPU could be swept here.
    """
    from pega_tune.autotune.doctor import Status, examine

    session = session_of(context)
    findings = tuple(examine(session.url))
    usable = all(finding.status is not Status.FAILED for finding in findings)
    rows = [
        {"part": each.part, "status": str(each.status), "detail": each.detail, "hint": each.hint} for each in findings
    ]
    lines: list[str] = []
    for each in findings:
        lines.append(f"{each.status:<8} {each.part:<10} {each.detail}")
        if each.hint:
            lines.append(f"{'':<8} {'':<10} -> {each.hint}")
    lines.append("")
    lines.append("a GPU can be swept here" if usable else "no GPU can be swept here; --device sim:h200 works anywhere")
    session.output.answer({"usable": usable, "checks": rows}, lines)
    if not usable:
        raise typer.Exit(ExitCode.DEVICE)
