import signal

import pytest
import typer

from pega_tune.autotune.cli.errors import ExitCode, Failure, explain
from pega_tune.autotune.cli.signals import Interruption
from pega_tune.errors import DataError, DeviceError, PegaTuneError, UsageError


class NarrowError(DeviceError):
    code = "narrow"


@pytest.mark.parametrize(
    ("error", "exit_code", "code"),
    [
        (UsageError("x"), ExitCode.USAGE, "usage"),
        (DeviceError("x"), ExitCode.DEVICE, "device"),
        (NarrowError("x"), ExitCode.DEVICE, "narrow"),
        (DataError("x"), ExitCode.DATA, "data"),
        (PegaTuneError("x"), ExitCode.INTERNAL, "internal"),
        (typer.BadParameter("x"), ExitCode.USAGE, "usage"),
        (PermissionError(13, "Permission denied", "x.db"), ExitCode.DATA, "file"),
        (FileNotFoundError(2, "No such file or directory"), ExitCode.DATA, "file"),
        (MemoryError(), ExitCode.DEVICE, "memory"),
        (ZeroDivisionError("x"), ExitCode.INTERNAL, "internal"),
        (Interruption(signal.SIGINT), 130, "interrupted"),
        (Interruption(signal.SIGTERM), 143, "interrupted"),
    ],
)
def test_every_error_has_its_exit_code(error: BaseException, exit_code: int, code: str) -> None:
    failure = explain(error)
    assert (failure.exit_code, failure.code) == (exit_code, code)


def test_message_and_hint_are_one_line_each() -> None:
    failure = explain(DataError("the file\n  is cut", "get\tanother"))
    assert failure == Failure(ExitCode.DATA, "data", "the file is cut", "get another")


def test_an_internal_error_names_itself_and_asks_for_a_report() -> None:
    failure = explain(KeyError("grid"))
    assert failure.message == "internal error: KeyError: 'grid'"
    assert "report" in failure.hint


@pytest.mark.parametrize("error", [DataError, RuntimeError])
def test_a_password_in_a_url_is_blotted_out(error: type[Exception]) -> None:
    failure = explain(error("postgresql://me:s3@cret@db.example/x?sslpassword=s3cret is not usable"))
    assert failure.message.endswith("postgresql://me:***@db.example/x?sslpassword=*** is not usable")
