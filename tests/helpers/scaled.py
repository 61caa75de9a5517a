"""A copy of a database in which one kind of plan was measured slower than it was.

python -m tests.helpers.scaled SOURCE TARGET KIND FACTOR
"""

import array
import json
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

from pega_tune.autotune.sweep.choices import kind_of
from pega_tune.kernels.plan import plan_from_json

_SAMPLES = """
    SELECT measurement_id, plan, samples FROM measurement JOIN cell USING (cell_id) WHERE cell.kind <> 'ceiling'
"""


def kinds(source: Path) -> tuple[str, ...]:
    """Kinds of the plans that were measured, as `kind_of` names them."""
    with closing(sqlite3.connect(source)) as connection:
        rows = connection.execute("SELECT DISTINCT plan FROM cell WHERE kind <> 'ceiling'").fetchall()
    return tuple(sorted({kind_of(plan_from_json(json.loads(plan))) for (plan,) in rows}))


def scale_kind(source: Path, target: Path, kind: str, factor: float) -> int:
    """Copies the database and multiplies all that plans of a kind were timed for; how many series there were."""
    with closing(sqlite3.connect(source)) as original, closing(sqlite3.connect(target)) as copy:
        original.backup(copy)
        changed = 0
        with copy:
            for measurement, plan, samples in copy.execute(_SAMPLES).fetchall():
                if kind_of(plan_from_json(json.loads(plan))) == kind:
                    scaled = array.array("d", (factor * sample for sample in array.array("d", samples))).tobytes()
                    copy.execute("UPDATE measurement SET samples = ? WHERE measurement_id = ?", (scaled, measurement))
                    changed += 1
    return changed


if __name__ == "__main__":
    source, target, kind, factor = sys.argv[1:]
    scale_kind(Path(source), Path(target), kind, float(factor))
