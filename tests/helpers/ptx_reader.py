"""Reads PTX as far as the tests of the copy kernels need: global-memory accesses, grouped by basic block."""

import re
import subprocess
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from cuda.pathfinder import find_nvidia_binary_utility

_ACCESS = re.compile(r"(?P<guard>@p )?(?P<kind>ld|st)\.global(?:\.L1::\w+)?\.(?P<suffix>[\w.]+)\s")
_BOUNDARY = re.compile(r"^\$\w+:|\bbra\b|^ret;")


@dataclass(frozen=True, slots=True)
class Run:
    """Accesses of one kind, one after the other.

    Attributes:
        kind: `ld` or `st`.
        conditional: whether they are predicated.
        count: how many.
    """

    kind: str
    conditional: bool
    count: int


@dataclass(frozen=True, slots=True)
class Usage:
    """What ptxas says of a kernel."""

    registers: int
    stack_bytes: int
    spill_bytes: int


def access_runs(ptx: str, suffix: str) -> list[tuple[Run, ...]]:
    """Per basic block with such accesses: the runs of accesses whose vector and type is `suffix`, `v2.u64` say."""
    blocks = [tuple(_runs(block, suffix)) for block in _basic_blocks(ptx)]
    return [runs for runs in blocks if runs]


def _basic_blocks(ptx: str) -> list[list[str]]:
    blocks: list[list[str]] = [[]]
    for line in ptx.splitlines():
        if _BOUNDARY.search(line):
            blocks.append([])
        else:
            blocks[-1].append(line)
    return blocks


def _runs(block: list[str], suffix: str) -> list[Run]:
    matches = (_ACCESS.search(line) for line in block)
    accesses = [(m["kind"], m["guard"] is not None) for m in matches if m and m["suffix"] == suffix]
    return [Run(kind, conditional, len(list(run))) for (kind, conditional), run in groupby(accesses)]


def assemble(ptx: str, arch: str, folder: Path) -> Usage:
    """Runs ptxas of the installed toolkit; fails if it refuses the PTX."""
    ptxas = find_nvidia_binary_utility("ptxas")
    assert ptxas, "the toolkit's nvcc package brings ptxas"
    source = folder / "kernel.ptx"
    source.write_text(ptx)
    command = [ptxas, "--verbose", f"--gpu-name={arch}", "--output-file", str(folder / "kernel.cubin"), str(source)]
    said = subprocess.run(command, check=False, capture_output=True, text=True)
    assert said.returncode == 0, said.stderr
    numbers = re.search(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", said.stderr)
    registers = re.search(r"Used (\d+) registers", said.stderr)
    assert numbers
    assert registers
    return Usage(int(registers[1]), int(numbers[1]), int(numbers[2]) + int(numbers[3]))
