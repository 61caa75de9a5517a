"""From an exception to what the user is told: one line, a hint, and an exit code."""

from dataclasses import dataclass, replace
from enum import IntEnum

import typer

from pega_tune.autotune.cli.signals import Interruption
from pega_tune.errors import DataError, DeviceError, PegaTuneError, UsageError
from pega_tune.profiles.policy.urls import URL_HINT, without_passwords

# The base of every complaint about the command line. Some releases of Typer carry their own copy of click, others
# import it, and only its subclass is public under one name in all of them.
CommandLineError: type[Exception] = typer.BadParameter.__mro__[1]


class ExitCode(IntEnum):
    """What the program ends with; a signal ends it with 128 + its number."""

    DONE = 0
    INTERNAL = 1
    USAGE = 2
    DEVICE = 3
    DATA = 4
    FLAGGED = 5


@dataclass(frozen=True, slots=True)
class Failure:
    """An error, ready to print.

    Attributes:
        exit_code: what the program ends with.
        code: stable machine-readable name.
        message: one line.
        hint: one line; empty if the message says what to do.
    """

    exit_code: int
    code: str
    message: str
    hint: str = ""


def explain(error: BaseException) -> Failure:
    """What to tell about `error`, whatever it is; passwords in URLs are blotted out."""
    if isinstance(error, Interruption):
        return Failure(128 + error.signum, "interrupted", "interrupted", error.hint)
    if isinstance(error, PegaTuneError):
        return Failure(_exit_code(error), error.code, _one_line(error.message), _one_line(error.hint))
    if isinstance(error, CommandLineError):
        return Failure(ExitCode.USAGE, "usage", _one_line(_complaint(error)), _help_hint(error))
    if isinstance(error, MemoryError):
        return Failure(ExitCode.DEVICE, "memory", "out of memory", "ask for less, e.g. with --max-host-memory")
    if isinstance(error, OSError) and (error.filename or isinstance(error, FileNotFoundError)):
        return _file_failure(error)
    message = _one_line(f"internal error: {type(error).__name__}: {error}")
    return Failure(ExitCode.INTERNAL, "internal", message, "please report it, with the output of --debug")


def without_echo(failure: Failure) -> Failure:
    """The same for arguments that cannot be shown: a URL was cut in pieces."""
    return replace(failure, message="an argument looks like the URL of a server, cut by a blank", hint=URL_HINT)


def _file_failure(error: OSError) -> Failure:
    if not error.filename:  # whatever looks for a file names it, but for os.getcwd
        return Failure(ExitCode.DATA, "file", "the working directory was deleted", "change to another one")
    message = _one_line(f"{error.filename}: {error.strerror}")
    return Failure(ExitCode.DATA, "file", message, "check the path and its rights")


def _exit_code(error: PegaTuneError) -> ExitCode:
    families = ((UsageError, ExitCode.USAGE), (DeviceError, ExitCode.DEVICE), (DataError, ExitCode.DATA))
    return next((code for family, code in families if isinstance(error, family)), ExitCode.INTERNAL)


def _complaint(error: Exception) -> str:
    text = str(getattr(error, "format_message", error.__str__)())
    return text[:1].lower() + text[1:].rstrip(".")


def _help_hint(error: Exception) -> str:
    context = getattr(error, "ctx", None)
    return f"see {context.command_path if context else 'pega-tune'} --help"


def _one_line(text: str) -> str:
    return without_passwords(" ".join(text.split()))
