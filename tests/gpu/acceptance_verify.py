"""Measures on a real GPU whether the publish gate passes and canaries see what they should, and writes it down as JSON.

    python tests/gpu/acceptance_verify.py --out DIR --part PART [--db FILE] [--device DEVICE] [--commit HASH]

    sweep    a quick sweep into OUT/verify.db: published, within a minute, its second pass agrees
    same     ten times `pega-tune verify` on the device as it is: holds, each within ten seconds, start included
    scaled   ten times with the stored times of one kind of plan a factor of 1.15 longer, in a copy of the database
    hog      three times while another process keeps the link busy: does not hold

All but `sweep` take FILE, or the database that `sweep` has left, or make that first. No part takes longer than 9
minutes. Exit code 1 if a line fails. A simulated device rehearses all parts but `hog`.
"""
# ruff: noqa: E402 (the script runs from a bare checkout)

import argparse
import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from pega_tune.autotune.devices import find_device
from tests.gpu.acceptance import Line, commit, stamped
from tests.helpers.scaled import scale_kind

TIMES, HOGGED = 10, 3
FACTOR = 1.15
MOST_S = 10.0
SWEEP_S = 60.0
HOG_START_S = 8.0  # until its copies run
LIMIT_S = 200.0


@dataclass(frozen=True, slots=True)
class Run:
    """One run of the program."""

    what: str
    code: int
    seconds: float
    answer: Any


@dataclass
class Results:
    """What was run so far, for the record."""

    device: str
    runs: list[Run] = field(default_factory=list)

    def on_device(self, what: str, database: Path, *arguments: str) -> Run:
        """As `tune`, of a command that measures."""
        return self.tune(what, database, *arguments, "--device", self.device)

    def tune(self, what: str, database: Path, *arguments: str) -> Run:
        """Runs the program to its end; what it answers is JSON."""
        begin_s = time.monotonic()
        command = [sys.executable, "-m", "pega_tune", "--json", "--db", str(database), *arguments]
        done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, timeout=LIMIT_S, check=False)
        run = Run(what, done.returncode, time.monotonic() - begin_s, json.loads(done.stdout))
        self.runs.append(run)
        sys.stdout.write(f"{what}: exit {run.code} after {run.seconds:.2f} s: {_short(run.answer)}\n")
        sys.stdout.flush()
        return run


def _short(answer: Any) -> str:
    told = {name: answer.get(name) for name in ("verdict", "state", "reasons", "error") if name in answer}
    return json.dumps(told)


def sweep(results: Results, database: Path) -> Iterator[Line]:
    """The publish gate of a quick sweep."""
    run = results.on_device("quick sweep", database, "sweep", "--preset", "quick")
    yield Line(f"exit code of a quick sweep: {run.answer.get('reasons')}", run.code, 0, 0)
    yield Line("seconds of a quick sweep, all in", run.seconds, None, SWEEP_S)
    shown = results.tune("its second pass", database, "sweeps", "show", run.answer["sweep"])
    again = shown.answer["second_pass"]
    yield Line("shapes in the second pass", len(again["shapes"]), 9, 9)
    yield Line("shapes at which it does not agree", sum(not shape["agrees"] for shape in again["shapes"]), None, 0)
    yield Line("mean loss in the second pass", again["mean_loss"], None, 0.03)


def same(results: Results, database: Path) -> Iterator[Line]:
    """Nothing has changed, and the canary says so."""
    runs = [results.on_device(f"verify {n}", database, "verify", "--seed", str(n)) for n in range(TIMES)]
    yield _counted(runs, "holds", TIMES)
    yield Line("seconds of a verify, the longest, start included", max(run.seconds for run in runs), None, MOST_S)
    yield Line("exit codes other than 0", sum(run.code != 0 for run in runs), None, 0)


def scaled(results: Results, database: Path) -> Iterator[Line]:
    """One kind of plan is not what it was; the kinds that the profile chooses take turns."""
    seen = results.on_device("verify, as it is", database, "verify")
    kinds = _chosen_kinds(seen.answer)
    yield Line(f"kinds of plans that are looked at: {kinds}", len(kinds), 2, None)
    runs = []
    for n in range(TIMES):
        kind = kinds[n % len(kinds)]
        copy = database.with_name("scaled.db")
        copy.unlink(missing_ok=True)
        scale_kind(database, copy, kind, FACTOR)
        runs.append(results.on_device(f"verify {n}, {kind}", copy, "verify", "--seed", str(n)))
    yield _counted(runs, "drifted", TIMES - 1)


def hog(results: Results, database: Path) -> Iterator[Line]:
    """A neighbour uses the link."""
    with _hog():
        runs = [
            results.on_device(f"verify {n} beside a hog", database, "verify", "--seed", str(n)) for n in range(HOGGED)
        ]
    yield Line("verifies beside a hog that hold", sum(run.answer.get("verdict") == "holds" for run in runs), None, 0)
    yield Line("verifies beside a hog that end with 5", sum(run.code == 5 for run in runs), HOGGED, None)


@contextmanager
def _hog() -> Iterator[None]:
    other = subprocess.Popen([sys.executable, "-m", "tests.helpers.gpu_hog"], cwd=ROOT)
    try:
        time.sleep(HOG_START_S)
        yield
    finally:
        other.kill()
        other.wait()


def _chosen_kinds(answer: Any) -> list[str]:
    """The kinds that are compared at two shapes or more, the commonest first."""
    counted = Counter(cell["subject"] for cell in answer["cells"] if cell["plan"] is not None)
    return [kind for kind, count in counted.most_common() if count > 1]


def _counted(runs: Sequence[Run], verdict: str, least: int) -> Line:
    found = Counter(run.answer.get("verdict") for run in runs)
    return Line(f"verifies of {len(runs)} that say {verdict}: {dict(found)}", found[verdict], least, None)


def main() -> int:
    """Measures one part."""
    parts: dict[str, Callable[[Results, Path], Iterator[Line]]] = {
        "sweep": sweep,
        "same": same,
        "scaled": scaled,
        "hog": hog,
    }
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="folder for the results")
    parser.add_argument("--part", required=True, choices=parts)
    parser.add_argument("--db", type=Path, help="a database with a published profile of the device")
    parser.add_argument("--device", default="auto", help="as for pega-tune")
    parser.add_argument("--commit", default=commit(), help="what was measured, where there is no git")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    facts = find_device(options.device).facts
    results = Results(options.device)
    lines: list[Line] = []
    database = options.db or options.out / "verify.db"
    todo = [options.part] if options.part == "sweep" or database.exists() else ["sweep", options.part]
    for part in todo:
        for line in parts[part](results, database):
            lines.append(line)
            sys.stdout.write(f"{line}\n")
            sys.stdout.flush()
    written = stamped(options, facts, lines) | {"runs": [asdict(run) for run in results.runs]}
    text = json.dumps(written, indent=1, allow_nan=False)
    (options.out / f"acceptance-verify-{options.part}.json").write_text(text + "\n")
    return 0 if all(line.passed for line in lines) else 1


if __name__ == "__main__":
    raise SystemExit(main())
