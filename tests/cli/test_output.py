"""Answers stay whole and alone on stdout, whatever it is connected to."""

import os

import pytest

from tests.helpers.cli import Program, Result


@pytest.mark.parametrize(
    "variables",
    [
        {"COLUMNS": "20"},
        {"NO_COLOR": "1"},
        {"FORCE_COLOR": "1", "TERM": "dumb"},
        {"LC_ALL": "C"},
        {"PYTHONWARNINGS": "error"},
    ],
    ids=str,
)
def test_tables_are_neither_wrapped_nor_coloured(informed: Program, variables: dict[str, str]) -> None:
    for command in (("sweeps", "list"), ("profiles", "list"), ("devices",)):
        assert informed(*command, **variables).stdout == informed(*command).stdout
    assert "\x1b" not in informed("--help", **variables).stdout


def test_json_is_one_document_even_if_every_warning_is_an_error(program: Program) -> None:
    result = program("sweep", "--device", "sim:h200", "--json", PYTHONWARNINGS="error")
    assert result.code == 0, result.stderr
    assert result.json["state"] == "published"


def test_json_is_accepted_before_and_after_the_command(informed: Program) -> None:
    before, after = informed("--json", "sweeps", "list"), informed("sweeps", "list", "--json")
    assert before.json == after.json
    assert len(before.json["sweeps"]) == 1


def test_a_reader_that_leaves_is_no_error(informed: Program) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with open(writing, "w") as nobody:
        result = informed.finish(informed.start("sweeps", "list", stdout=nobody))
    assert result == Result(141, "", "")


def test_a_full_disk_is_told(informed: Program) -> None:
    with open("/dev/full", "w") as full:
        result = informed.finish(informed.start("sweeps", "list", stdout=full))
    assert result == Result(4, "", "error: the answer cannot be written: No space left on device\n")


@pytest.mark.parametrize(
    ("command", "says"),
    [(("sweeps", "list"), "the answer cannot be written"), (("profiles", "show", "zz"), "zz")],
)
def test_an_error_that_is_no_document_is_a_line(informed: Program, command: tuple[str, ...], says: str) -> None:
    with open("/dev/full", "w") as full:
        result = informed.finish(informed.start(*command, "--json", stdout=full))
    assert result.code == 4
    (line,) = result.stderr.splitlines()
    assert line.startswith("error: ")
    assert says in line


def test_without_a_traceback_flag_there_is_no_traceback(program: Program) -> None:
    for flags, expected in (((), False), (("--debug",), True)):
        result = program("sweep", "--device", "tesla", *flags)
        assert ("Traceback" in result.stderr) is expected
