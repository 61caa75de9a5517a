"""What README shows of commands whose answer is always the same is what they print; it may leave lines out."""

import re
import shlex

import pytest

from tests.helpers.cli import REPOSITORY, Program

COMMAND = re.compile(r"^\$ pega-tune ((?:bench (?:transfer|serving)|shape) .+)\n((?:(?!\$|```).*\n)+)", re.MULTILINE)
SAMPLES = [(found[1], found[2]) for found in COMMAND.finditer((REPOSITORY / "README.md").read_text())]


def without_columns(text: str) -> list[str]:
    """Lines without the spaces that align them with others, which may have been left out."""
    return [" ".join(line.split()) for line in text.splitlines()]


def test_there_are_samples() -> None:
    assert [command.split(" --")[0] for command, _ in SAMPLES] == ["shape", "bench transfer", "bench serving"]


@pytest.mark.parametrize(("command", "sample"), SAMPLES, ids=[command for command, _ in SAMPLES])
def test_every_line_of_a_sample_is_printed_in_its_order(program: Program, command: str, sample: str) -> None:
    result = program(*shlex.split(command.partition(" > ")[0]))
    assert result.code == 0, result.stderr
    printed = iter(without_columns(result.stderr + result.stdout))
    stale = next(
        (line for line in without_columns(sample.rstrip()) if line not in printed), None
    )  # reads on where it stopped
    assert stale is None, f"regenerate what README shows of {command}"
