"""`Auto` lives in serving processes: importing and asking it must not load what they do not need."""

import json
import subprocess
import sys
from pathlib import Path

from pega_tune.profiles.bundle.files import read_bundle
from pega_tune.profiles.policy.sources import PACKAGED

HEAVY = {
    "alembic",
    "click",
    "cryptography",
    "cuda",
    "llvmlite",
    "numba",
    "numba_cuda",
    "numpy",
    "scipy",
    "sqlalchemy",
    "typer",
}
ROOT = Path(__file__).parents[2]

PROGRAM = """
import json, sys
from pega_tune import Auto
auto = Auto.rule_only()
decision = auto.decide(16384, 64 << 20)
assert auto.explain(16384, 64 << 20).decision is auto.decide(16384, 64 << 20) is decision
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


LIVE = """
import json, sys
from pega_tune import Auto, LiveAuto
from pega_tune.kernels.facts import DeviceFacts
path, facts = sys.argv[1], DeviceFacts.from_json(json.loads(sys.argv[2]))
loaded = Auto.load(path, facts)
with LiveAuto(facts, "absent.db") as live:
    live.check()
    answers = [each.decide(64, 64 << 12, "h2d").profile for each in (loaded, live)]
print(json.dumps({"answers": answers, "loaded": sorted({name.partition(".")[0] for name in sys.modules})}))
"""


def test_bundles_and_following_a_database_load_nothing_heavy_either(tmp_path):
    (path,) = PACKAGED.glob("*.json")
    facts = read_bundle(path).device.to_json()
    program = f"import sys; sys.path.insert(0, {str(ROOT)!r})\n{LIVE}"
    command = [sys.executable, "-c", program, str(path), json.dumps(facts)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=True)
    answer = json.loads(done.stdout)
    assert answer["answers"] == [read_bundle(path).profile_id] * 2
    assert HEAVY.isdisjoint(answer["loaded"])
    assert done.stderr == ""
