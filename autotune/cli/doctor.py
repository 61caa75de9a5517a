"""`pega-tune doctor`."""

from dataclasses import asdict

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
    from pega_tune.autotune.doctor import examine

    session = session_of(context)
    found = examine(session.url)
    width = max(len(each.part) for each in found.findings)
    lines: list[str] = []
    for each in found.findings:
        lines.append(f"{each.status:<8} {each.part:<{width}} {each.detail}")
        if each.hint:
            lines.append(f"{'':<8} {'':<{width}} -> {session.output.advised(each.hint)}")
    usable = "a GPU can be swept here" if found.usable else "no GPU can be swept here; --device sim:h200 works anywhere"
    document = {
        "usable": found.usable,
        "checks": [{**asdict(each), "hint": session.output.advised(each.hint)} for each in found.findings],
        "capabilities": [{"device": uuid, **asdict(each)} for uuid, each in found.capabilities.items()],
    }
    session.output.answer(document, [*lines, "", usable])
    if not found.usable:
        raise typer.Exit(ExitCode.DEVICE)
