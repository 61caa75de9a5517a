"""The program `pega-tune`: from an argument vector to an exit code."""

import sys
import traceback
from collections.abc import Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from io import StringIO
from typing import NoReturn

import typer

from pega_tune import __version__
from pega_tune.autotune.cli import (
    bench,
    bundles,
    db,
    decide,
    devices,
    doctor,
    fleet,
    profiles,
    shape,
    sweep,
    sweeps,
    verify,
)
from pega_tune.autotune.cli.cut_urls import shows_password
from pega_tune.autotune.cli.errors import explain, without_echo
from pega_tune.autotune.cli.output import Output, StdoutClosedError, claim_stdout
from pega_tune.autotune.cli.session import Session
from pega_tune.autotune.cli.signals import raise_on_signals
from pega_tune.errors import UsageError

PROGRAM = "pega-tune"
READER_LEFT = 141  # what a shell reports of a program that died of SIGPIPE
_SWITCHES = ("--json", "--debug")

app = typer.Typer(
    name=PROGRAM,
    add_completion=False,
    pretty_exceptions_enable=False,
    pretty_exceptions_show_locals=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for register in (doctor, devices, shape, sweep, decide, verify, bundles):
    register.add_to(app)
for group in (sweeps, profiles, bench, fleet, db):
    app.add_typer(group.app)


@app.callback()
def _program(
    context: typer.Context,
    database: str = typer.Option(
        "", "--db", metavar="URL", help="Database: a path or a URL. [default: PEGA_TUNE_DB, else a file of the user]"
    ),
    as_json: bool = typer.Option(False, "--json", help="Answer with one JSON document."),
    debug: bool = typer.Option(False, "--debug", help="Show where an internal error came from."),
    version: bool = typer.Option(False, "--version", help="Show the version and exit."),
) -> None:
    """Measures how this GPU best moves fragmented KV-cache ranges, and answers with a copy plan.

    --db, --json and --debug are accepted before and after the command. A SIZE is written 4KiB or 4K (4096 bytes), or
    4KB (4000 bytes); a TIME 50ms, 90s or 5m.
    """


@dataclass(frozen=True, slots=True)
class Invocation:
    """An argument vector, its global options taken out.

    Attributes:
        database: value of `--db`; None if it was not given.
        json: whether `--json` was given.
        debug: whether `--debug` was given.
        rest: the other arguments, in their order.
    """

    database: str | None
    json: bool
    debug: bool
    rest: tuple[str, ...]


def separate(argv: Sequence[str]) -> Invocation:
    """Takes the global options out, wherever they stand before a `--`."""
    end = argv.index("--") if "--" in argv else len(argv)
    rest: list[str] = []
    database: str | None = None
    arguments = iter(argv[:end])
    for argument in arguments:
        if argument in _SWITCHES:
            continue
        if argument == "--db":
            database = next(arguments, None)
            if database is None or database.startswith("--"):
                rest = ["--db"]  # the parser complains about the missing value
                break
        elif argument.startswith("--db="):
            database = argument.removeprefix("--db=")
        else:
            rest.append(argument)
    switches = argv[:end]
    return Invocation(database, "--json" in switches, "--debug" in switches, (*rest, *argv[end:]))


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """Runs the program on `argv` (the process's own by default) and leaves with its exit code."""
    claim_stdout()
    raise_on_signals()
    code = run(list(sys.argv[1:] if argv is None else argv))
    sys.exit(code)


def run(argv: Sequence[str]) -> int:
    """Runs the program; every failure has become a message and an exit code."""
    call = separate(argv)
    output = Output(json=call.json, database=call.database)
    try:
        _require_text(argv)
        if "--version" in call.rest[:1]:
            output.answer({"version": __version__}, [f"{PROGRAM} {__version__}"])
            return 0
        if call.json and {"-h", "--help"} & set(call.rest):
            return _help_document(call, output)
        return _invoke(call, output)
    except StdoutClosedError:
        return READER_LEFT
    except BaseException as error:
        if call.debug:
            _trace(error, output, argv)
        return _report(error, output, argv)


def _require_text(argv: Sequence[str]) -> None:
    """Refuses bytes that are no text; Python turns them into signs that neither a file nor a database takes.

    Raises:
        UsageError: as said.
    """
    for argument in argv:
        try:
            argument.encode()
        except UnicodeEncodeError:
            raise UsageError(f"the argument {argument!r} is not UTF-8 text", "rename what it names") from None


def _invoke(call: Invocation, output: Output) -> int:
    arguments = list(call.rest)
    if not arguments and not call.json:
        arguments = ["--help"]
    command = typer.main.get_command(app)
    # Typer's own `main` would turn Ctrl-C into another exception and print usage errors itself.
    try:
        with command.make_context(PROGRAM, arguments, obj=Session(call.database, output)) as context:
            command.invoke(context)
    except typer.Exit as end:
        return end.exit_code
    return 0


def _help_document(call: Invocation, output: Output) -> int:
    with redirect_stdout(StringIO()) as text:
        code = _invoke(call, output)
    output.answer({"help": text.getvalue()}, ())
    return code


def _trace(error: BaseException, output: Output, argv: Sequence[str]) -> None:
    text = "".join(traceback.format_exception(error))
    if not shows_password(text, argv):
        output.note(text, end="")


def _report(error: BaseException, output: Output, argv: Sequence[str]) -> int:
    failure = explain(error)
    if shows_password(f"{failure.message} {failure.hint}", argv):
        failure = without_echo(failure)
    output.fail(failure)
    return failure.exit_code
