"""`Auto` lives in serving processes: importing and asking it must not load what they do not need."""

import json
import subprocess
import sys
from pathlib import Path

HEAVY = {"alembic", "click", "cuda", "llvmlite", "numba", "numba_cuda", "numpy", "scipy", "sqlalchemy", "typer"}
ROOT = Path(__file__).parents[2]

PROGRAM = """
import json, sys
from pega_tune import Auto
decision = Auto.rule_only().decide(16384, 64 << 20)
loaded = sorted({name.partition(".")[0] for name in sys.modules})
print(json.dumps({"plan": decision.to_json()["plan"], "loaded": loaded}))
"""


def test_auto_loads_nothing_heavy(tmp_path):
    command = [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(ROOT)!r})\n{PROGRAM}"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=True)
    answer = json.loads(done.stdout)
    assert answer["plan"]["load"]["backend"] == "kernel"
    assert "pega_tune" in answer["loaded"]
    assert HEAVY.isdisjoint(answer["loaded"])
    assert done.stderr == ""
