"""Judges on a real GPU what `Auto` answers where no sweep has been, and writes it down as JSON.

    python tests/gpu/acceptance_policy.py --out DIR --part PART [--db FILE] [--device SPEC] [--seed N] [--commit HASH]

    regret   40 held-out shapes of each direction: Auto's regret against the noise floor and every static rule
    tail     20 held-out bursts of which Auto claims a budget kept, in two colocations, and some of which it does not
    twice    two quick sweeps in separate processes: how often they agree, and what it costs where they do not

`regret` and `tail` judge the newest profile in FILE, which a standard sweep has made. No part takes longer than
9 minutes; both terms of a ratio come from the same block. The device may be simulated. Exit code 1 if a line fails.
"""
# ruff: noqa: E402 (the script runs from a bare checkout)

import argparse
import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from pega_tune.autotune.bench.regret_profile import auto_of
from pega_tune.autotune.bench.regret_twice import Agreement, Learnt, agreement
from pega_tune.autotune.devices import find_device
from pega_tune.errors import PegaTuneError
from pega_tune.kernels.shape import Direction
from pega_tune.profiles.policy.settings import database_url
from pega_tune.profiles.policy.terms import Colocation
from pega_tune.profiles.store.store import Store
from tests.gpu.acceptance import Line, commit, stamped

SEED = 5
SHAPES = 40
CLAIMS = 20
COLOCATIONS = (Colocation.TIME_SLICED, Colocation.SAME_CONTEXT)
MOST_MEAN, MOST_MAX = 0.02, 0.08  # above the floor
MOST_BROKEN = 1
EQUAL = 0.02  # medians of equal plans beside decode differ by so much
LEAST_ALIKE, MOST_CROSS_REGRET = 0.95, 0.03
LEAST_CELLS = 60  # of a quick sweep, which has some hundred where nothing is short


@dataclass
class Run:
    """What is measured, and what has been found, for the record.

    Attributes:
        out: folder for the results.
        device: as a user writes it.
        database: of the profile that is judged.
        seed: of the held-out shapes.
        answers: what the program printed.
    """

    out: Path
    device: str
    database: Path
    seed: int
    answers: list[Any] = field(default_factory=list)

    def tune(self, *arguments: object, database: Path | None = None) -> tuple[Any, int]:
        """Runs the program in a process of its own; its answer and its exit code."""
        asked = [str(argument) for argument in arguments]
        program = [sys.executable, "-m", "pega_tune", "--json", "--db", str(database or self.database), *asked]
        done = subprocess.run(program, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
        answer = json.loads(done.stdout)
        self.answers.append({"command": asked, "exit_code": done.returncode, "answer": answer})
        return answer, done.returncode

    def judge(self, *arguments: object) -> tuple[Any, int]:
        """Has the newest profile judged, published or not."""
        known, _ = self.tune("profiles", "list")
        newest = known["profiles"][0]["id"] if known.get("profiles") else "none"
        return self.tune("bench", "regret", "--device", self.device, "--profile", newest, *arguments)


def regret(run: Run) -> Iterator[Line]:
    """Throughput, all features known."""
    answer, code = run.judge("--count", SHAPES, "--seed", run.seed, "--within", "8m")
    yield _sound(answer, code)
    if "error" in answer:
        return
    for each in answer["directions"]:
        way, floor, (auto, *rules) = each["direction"], each["floor"], each["rows"]
        yield Line(f"held-out shapes, {way}", auto["n"], SHAPES, SHAPES)
        yield Line(f"mean regret above the floor of {floor:.4f}, {way}", auto["mean"] - floor, None, MOST_MEAN)
        yield Line(f"largest regret above the floor, {way}", auto["max"] - floor, None, MOST_MAX)
        for rule in rules:
            more = None if rule["mean"] is None else rule["mean"] - auto["mean"]
            yield Line(f"mean regret of {rule['rule']} above that of Auto, {way}", more, 1e-6, None)
    yield Line("directions", len(answer["directions"]), len(Direction), None)


def _sound(answer: Mapping[str, Any], code: int) -> Line:
    return Line(f"exit code, profile {answer.get('profile')}: {answer.get('error') or answer.get('flags')}", code, 0, 0)


def tail(run: Run) -> Iterator[Line]:
    """Claims in two colocations, judged together."""
    bursts: list[Mapping[str, Any]] = []
    for number, colocation in enumerate(COLOCATIONS):
        asked = ("--count", CLAIMS // len(COLOCATIONS), "--seed", run.seed + number, "--within", "235s")
        answer, code = run.judge("--objective", "tail-bounded", "--colocation", colocation, *asked)
        yield _sound(answer, code)
        bursts += answer.get("shapes", [])
    claimed = [burst for burst in bursts if burst["budget_met"]]
    yield Line("bursts claimed as kept", len(claimed), CLAIMS, None)
    yield Line("claims that were not kept", sum(not burst["kept"] for burst in claimed), None, MOST_BROKEN)
    outside = [_named(burst) for burst in bursts if burst["possible"] and not burst["kept"]]
    yield Line(f"bursts where a plan kept the budget and Auto's did not {outside}", len(outside), None, MOST_BROKEN)
    missed = [_named(b) for b in bursts if not b["budget_met"] and b["possible"] and b["evidence"] != "none"]
    yield Line(f"bursts where a plan kept it and Auto knew of none {missed}", len(missed), None, MOST_BROKEN)
    for rule, ratios in _rules_within(claimed).items():
        name = f"time of {rule} over Auto's, less 1, over {len(ratios)} claims where both keep the budget"
        yield Line(name, fmean(ratios) - 1, -EQUAL, None)


def _named(burst: Mapping[str, Any]) -> str:
    return f"{burst['ranges']}x{burst['bytes']}/{burst['layout']}"


def _rules_within(bursts: Sequence[Mapping[str, Any]]) -> dict[str, list[float]]:
    """By static rule, its completion latency over that of Auto in each burst where both kept the budget."""
    found: dict[str, list[float]] = {}
    for burst in bursts:
        rows = {row["name"]: row for row in burst["rows"]}
        for row in burst["rows"]:
            if row["kind"] == "static" and row["kept"] and rows["auto"]["kept"]:
                found.setdefault(row["name"], []).append(row["completion_s"] / rows["auto"]["completion_s"])
    return found


def twice(run: Run) -> Iterator[Line]:
    """The same device, measured twice; see `regret_twice` for what is compared."""
    database = run.out / "twice.db"
    profiles = []
    for seed in (1, 2):
        sweep = ("sweep", "--device", run.device, "--preset", "quick", "--seed", seed)
        answer, code = run.tune(*sweep, database=database)
        yield Line(f"exit code of sweep {seed}: {answer.get('error') or answer.get('reasons')}", code, 0, 0)
        profiles.append(answer.get("profile"))
    if not all(profiles):
        yield Line("profiles of two sweeps", None, 2, None)
        return
    found = _compared(database, profiles)
    run.answers.append(_document(found))
    yield Line("shapes of the lattice that both have measured", len(found.cells), LEAST_CELLS, None)
    yield Line(f"alike ({found.alike:.3f}) or equivalent", found.share, LEAST_ALIKE, None)
    spread = found.cross_regret
    words = f"mean cross-regret, largest {spread.max:.3f}, {found.unjudged} not timed" if spread else "cross-regret"
    yield Line(words, spread.mean if spread else None, None, MOST_CROSS_REGRET)


def _compared(database: Path, profiles: Sequence[str]) -> Agreement:
    with Store.open(database_url(str(database)), create=False, read_only=True) as store:
        records = [store.profile(profile) for profile in profiles]
        first, second = (Learnt(auto_of(record), tuple(store.blocks(record.sweep_id))) for record in records)
    return agreement(first, second)


def _document(found: Agreement) -> list[dict[str, Any]]:
    return [
        {
            "shape": asdict(cell.shape),
            "choices": [plan.key for plan in cell.choices],
            "margin": cell.margin,
            "ratio": cell.ratio,
            "regrets": cell.regrets,
            "agrees": cell.agrees,
        }
        for cell in found.cells
    ]


def main() -> int:
    """Measures one part."""
    parts: dict[str, Callable[[Run], Iterator[Line]]] = {"regret": regret, "tail": tail, "twice": twice}
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="folder for the results")
    parser.add_argument("--part", required=True, choices=tuple(parts))
    parser.add_argument("--db", type=Path, help="where the profile is, for regret and tail; by default OUT/profiles.db")
    parser.add_argument("--device", default="auto", help="what to measure")
    parser.add_argument("--seed", type=int, default=SEED, help="of the held-out shapes")
    parser.add_argument("--commit", default=commit(), help="what was measured, where there is no git")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    database = (options.db or options.out / "profiles.db").resolve()
    run = Run(options.out.resolve(), options.device, database, options.seed)
    lines: list[Line] = []
    try:
        facts = find_device(options.device).facts
        for line in parts[options.part](run):
            lines.append(line)
            sys.stdout.write(f"{line}\n")
            sys.stdout.flush()
    except PegaTuneError as error:
        sys.stdout.write(f"stopped: {error.message}; {error.hint}\n")
        return 3
    written = stamped(options, facts, lines) | {"answers": run.answers}
    text = json.dumps(written, separators=(",", ":"), allow_nan=False)
    (options.out / f"acceptance-policy-{options.part}.json").write_text(text + "\n")
    return 0 if all(line.passed for line in lines) else 1


if __name__ == "__main__":
    raise SystemExit(main())
