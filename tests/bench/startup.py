"""How long commands take to start: medians over whole processes, in seconds. Nothing asserts them."""

import statistics
import sys
import tempfile
import time
from pathlib import Path

from tests.helpers.cli import Program

RUNS = 15
COMMANDS = (
    ("--version",),
    ("--help",),
    ("sweep", "--help"),
    ("decide", "--ranges", "64", "--bytes", "65536"),
    ("devices",),
    ("db", "current"),
)


def main() -> None:
    """Prints one line for each command."""
    with tempfile.TemporaryDirectory() as folder:
        program = Program(Path(folder))
        for command in COMMANDS:
            times_s = [_time_s(program, command) for _ in range(RUNS)]
            low, high = min(times_s), max(times_s)
            print(f"{statistics.median(times_s):.3f} s ({low:.3f} to {high:.3f})  pega-tune {' '.join(command)}")


def _time_s(program: Program, command: tuple[str, ...]) -> float:
    began_s = time.perf_counter()
    result = program(*command)
    if result.code != 0:
        sys.exit(result.stderr)
    return time.perf_counter() - began_s


if __name__ == "__main__":
    main()
