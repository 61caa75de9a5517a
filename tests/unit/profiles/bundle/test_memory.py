"""No bundle takes more than 200 MB to import: neither one that is refused, nor the heaviest that is not."""

import json
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import pytest

from pega_tune.profiles.bundle.document import to_document
from pega_tune.profiles.policy.compiled import MAX_CONTAINERS, MAX_VALUES
from tests.helpers.bundles import bundle, sealed, with_tables
from tests.helpers.cli import Program

LIMIT_BYTES = 200_000_000
DATA = 4
SMALL: dict[str, Any] = json.loads(zlib.decompress(bundle().compiled))
ROOM = MAX_VALUES - 1000
COLUMNS = tuple(SMALL["options"])
PROGRAM = """
import sys
from pega_tune.autotune.cli.main import main
try:
    main()
finally:
    with open("/proc/self/status") as status:
        print(next(line for line in status if line.startswith("VmHWM")), file=sys.stderr)
"""


def options(count: int, time_s: float = 1.5e-5) -> dict[str, list[Any]]:
    """So many options more than there are; a reader makes an object of each number."""
    last = {name: column[-1] for name, column in SMALL["options"].items()}
    served = dict.fromkeys(("time_s", "stall_s", "extra_s", "completion_p99_s"), time_s)
    return {name: SMALL["options"][name] + [value] * count for name, value in (last | served).items()}


def far_apart(count: int) -> list[int]:
    """Indices of options, by turns the 300th and the first, as differences."""
    return [300, -300] * (count // 2)


def ones(count: int) -> dict[str, Any]:
    empty = {"plans": [], "sources": [], "tables": [], "options": {name: [] for name in COLUMNS}}
    return empty | {"lists": [[1] * count]}


REFUSED: dict[str, dict[str, Any]] = {
    "ones": ones(4_190_000),
    "one list": {"lists": [*SMALL["lists"], [0] * 3_500_000]},
    "lists": {"lists": [*SMALL["lists"], *[[0] * 30] * 110_000]},
    "options": {"options": options(250_000)},
    "texts": {"sources": ["a"] * 1_000_000},
    "a text of wide signs": {"sources": ["a" * 8_000_000 + "\U0001f600"] * 2},
}
TAKEN: dict[str, dict[str, Any]] = {
    "one list": {"options": options(400), "lists": [*SMALL["lists"], [0], far_apart(ROOM - 6 * 400)]},
    "lists": {"options": options(400), "lists": [*SMALL["lists"], *[far_apart(6)] * (MAX_CONTAINERS - 100)]},
    "options": {"options": options(ROOM // len(COLUMNS))},
    "whole numbers": {"options": options(ROOM // len(COLUMNS), 1000)},
    "a text of wide signs": {"sources": ["a" * 8_000_000 + "\U0001f600"]},
}


def imported(folder: Path, content: dict[str, Any]) -> tuple[int, int]:
    """The exit code of `import` for tables with this in them, and the most memory that the process held, in bytes."""
    blob = zlib.compress(json.dumps({**SMALL, **content}, separators=(",", ":")).encode(), 9)
    path = folder / "heavy.json"
    path.write_bytes(sealed(with_tables(to_document(bundle()), blob)))
    program = Program(folder)
    command = [sys.executable, "-c", PROGRAM, "--db", str(program.database), "import", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, env=program.environment, cwd=folder, check=False)
    said, _, peak = done.stderr.partition("VmHWM:")
    assert len(said.splitlines()) == (1 if done.returncode else 0), done.stderr
    return done.returncode, int(peak.split()[0]) << 10


@pytest.mark.parametrize("name", REFUSED)
def test_a_bomb_is_refused_in_one_line(name: str, tmp_path: Path) -> None:
    code, peak_bytes = imported(tmp_path, REFUSED[name])
    assert code == DATA
    assert peak_bytes < LIMIT_BYTES


@pytest.mark.parametrize("name", TAKEN)
def test_the_heaviest_tables_that_are_taken_stay_within_the_limit(name: str, tmp_path: Path) -> None:
    code, peak_bytes = imported(tmp_path, TAKEN[name])
    assert code == 0
    assert peak_bytes < LIMIT_BYTES
