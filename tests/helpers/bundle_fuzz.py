"""Damaged bundles through `import`, as many as one likes, in a process whose memory is watched.

    PYTHONPATH=. .venv/bin/python -m tests.helpers.bundle_fuzz --mutants 100000 --through-cli 200

Prints what became of them, and stops at the first that is neither refused as it should be nor taken whole.
"""

import argparse
import hashlib
import json
import random
import resource
import sqlite3
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pega_tune.errors import DataError
from pega_tune.profiles.bundle.document import read, write
from pega_tune.profiles.bundle.files import read_bundle
from pega_tune.profiles.bundle.keys import TrustedKey, read_signing_key, read_trusted_key
from pega_tune.profiles.policy.auto import Auto
from pega_tune.profiles.store.bundles import bundle_of
from pega_tune.profiles.store.store import Store
from tests.helpers.bundle_mutants import mutants
from tests.helpers.bundles import SIMULATED, bundle, table
from tests.helpers.cli import Program
from tests.helpers.keys import make_keys
from tests.helpers.store import sqlite_url

LONGEST_LINE = 1000


@dataclass(slots=True)
class Outcome:
    """What became of the mutants, and the most memory that it took.

    Attributes:
        counts: mutants by outcome.
        peak_bytes: resident, of this process.
        children_peak_bytes: resident, of the largest run of the program.
    """

    counts: Counter[str] = field(default_factory=Counter)
    peak_bytes: int = 0
    children_peak_bytes: int = 0

    def to_json(self) -> dict[str, Any]:
        return {
            **self.counts,
            "peak_bytes": self.peak_bytes,
            "children_peak_bytes": self.children_peak_bytes,
        }


@dataclass(frozen=True, slots=True)
class Corpus:
    """Sound bundles, the smallest first, some of them signed with the trusted key."""

    texts: tuple[bytes, ...]
    trusted: TrustedKey


def corpus(folder: Path) -> Corpus:
    """Small bundles of real and simulated devices."""
    keys = make_keys(folder)
    signing = read_signing_key(keys.private)
    small, wide = bundle(), bundle(table(range_edges=(1, 64), cells=table().cells * 2))
    simulated = replace(small, device=SIMULATED, profile_id="fff")
    texts = (write(small), write(small, signing), write(wide), write(simulated, signing))
    return Corpus(texts, read_trusted_key(keys.public))


def through_import(base: Corpus, store: Store, database: Path, texts: Iterator[bytes]) -> Counter[str]:
    """Takes each text into the store, as the command does, or sees it refused without a trace."""
    counts: Counter[str] = Counter()
    path = database.with_name("mutant.json")
    with closing(sqlite3.connect(database)) as watcher:
        for text in texts:
            path.write_bytes(text)
            before = _version(watcher)
            with _named(text):
                outcome = _imported(store, path)
                if outcome != "added":
                    assert _version(watcher) == before, "a refused bundle was written in part"
                if outcome != "refused":
                    Auto.load(path, allow_drafts=True).decide(1000, 1 << 20, "h2d")
                _require_distrust(base, text)
            counts[outcome] += 1
    return counts


def through_program(program: Program, texts: Iterator[bytes]) -> Counter[str]:
    """The same with the command, each in a process of its own."""
    counts: Counter[str] = Counter()
    path = program.folder / "mutant.json"
    for text in texts:
        path.write_bytes(text)
        before = _content(program.database)
        result = program("import", path)
        with _named(text):
            assert result.code in {0, 4}, result
            assert "Traceback" not in result.stderr, result
            if result.code == 4:
                assert (result.stdout, len(result.errors)) == ("", 1), result
                assert len(result.stderr.splitlines()) == 1, result
                assert _content(program.database) == before, "a refused bundle was written in part"
        counts[f"cli {result.code}"] += 1
    return counts


def run(folder: Path, count: int, through_cli: int, seed: int) -> Outcome:
    """Everything, with the database in a folder."""
    outcome = Outcome()
    base = corpus(folder)
    database = folder / "fuzz.db"
    with Store.open(sqlite_url(database)) as store:
        store.import_bundle(bundle())
        outcome.counts.update(through_import(base, store, database, mutants(base.texts, count, seed)))
        for record in store.profiles():
            read(write(bundle_of(record)))
    program = Program(folder / "program")
    program.folder.mkdir()
    program("import", _file(program.folder / "sound.json", base.texts[0]))
    some = list(mutants(base.texts, 2 * len(base.texts[0]), seed + 1))
    chosen = random.Random(seed).sample(some, through_cli)
    outcome.counts.update(through_program(program, iter(chosen)))
    outcome.peak_bytes = _peak_bytes()
    outcome.children_peak_bytes = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss << 10
    return outcome


def _peak_bytes() -> int:
    # What `getrusage` tells reaches back to the process that started this one.
    status = Path("/proc/self/status").read_text()
    (line,) = (line for line in status.splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) << 10


def _imported(store: Store, path: Path) -> str:
    try:
        return "added" if store.import_bundle(read_bundle(path)) else "known"
    except DataError as error:
        message = error.message
    assert message.isprintable(), message
    assert len(message) < LONGEST_LINE, message
    return "refused"


def _require_distrust(base: Corpus, text: bytes) -> None:
    try:
        read(text, base.trusted)
    except DataError:
        return
    assert text in base.texts, "a changed bundle is trusted"


@contextmanager
def _named(text: bytes) -> Iterator[None]:
    """Keeps the mutant that something went wrong with."""
    try:
        yield
    except BaseException as error:
        kept = Path(tempfile.gettempdir()) / f"mutant-{hashlib.sha256(text).hexdigest()[:12]}.json"
        kept.write_bytes(text)
        error.add_note(f"the mutant is kept in {kept}")
        raise


def _version(watcher: sqlite3.Connection) -> int:
    """Changes with every commit of another connection."""
    (version,) = watcher.execute("PRAGMA data_version").fetchone()
    assert isinstance(version, int)
    return version


def _content(database: Path) -> tuple[str, ...]:
    with closing(sqlite3.connect(database)) as connection:
        return tuple(connection.iterdump())


def _file(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mutants", type=int, default=100_000)
    parser.add_argument("--through-cli", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        outcome = run(Path(folder), asked.mutants, asked.through_cli, asked.seed)
    sys.stdout.write(json.dumps(outcome.to_json()) + "\n")


if __name__ == "__main__":
    main()
