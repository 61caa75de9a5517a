"""`export` in the formats that are compiled in, or mounted."""

import json
import subprocess
import sys

import pytest

from tests.helpers.cli import Program
from tests.helpers.emitted import loaded

FORMATS = ("python", "rust", "c", "configmap")
USAGE, DATA = 2, 4


@pytest.fixture
def profile(informed: Program) -> str:
    (found,) = informed("profiles", "list", "--json").json["profiles"]
    return str(found["id"])


@pytest.mark.parametrize("form", FORMATS)
def test_a_simulated_profile_is_written_in_every_format_and_says_so(informed: Program, profile: str, form: str) -> None:
    file = informed.folder / "policy"
    written = informed("export", profile[:6], "--format", form, "-o", file, "--json")
    assert (written.code, written.json) == (0, {"format": form, "file": str(file)})
    assert "warning: SIMULATED" in written.stderr
    assert "SIMULATED" in file.read_text()


def test_without_a_file_the_text_is_the_answer(informed: Program, profile: str) -> None:
    file = informed.folder / "policy"
    export = ("export", profile, "--format", "configmap")
    assert informed(*export, "-o", file).code == 0
    assert informed(*export).stdout == file.read_text()
    assert informed(*export, "--json").json == {"format": "configmap", "text": file.read_text()}


def test_emitted_python_answers_as_decide_and_matches_no_real_device(informed: Program, profile: str) -> None:
    file = informed.folder / "policy.py"
    assert informed("export", profile, "--format", "python", "-o", file).code == 0
    assert subprocess.run([sys.executable, "-S", "-I", file], check=False).returncode == 0
    module = loaded(file.read_text())
    (device,) = (each for each in informed("devices", "--json").json["devices"] if each["uuid"] == "sim:h200")
    here = module.Facts.from_json(device["facts"])
    there = module.Facts.from_json(device["facts"] | {"uuid": "GPU-11111111-2222-3333-4444-555555555555"})
    assert (module.matches(here), module.matches(there)) == (True, False)
    words = ("--ranges", 16384, "--bytes", 1 << 26, "--direction", "h2d", "--objective", "strict")
    told = informed("decide", "--device", "sim:h200", *words, "--json").json
    found = module.profile_for(here).policy("h2d", objective="strict").decide(16384, 1 << 26)
    assert (found.plan.backend, found.predicted.time_s) == (told["plan"]["backend"], told["predicted"]["time_s"])
    assert (found.budget_met, found.profile) == (told["budget_met"], told["profile"])


def test_a_runtime_narrows_the_file(informed: Program, profile: str) -> None:
    export = ("export", profile, "--format", "python")
    whole, narrow = (informed(*export, *more).stdout for more in ((), ("--runtime", "kernel-options")))
    assert len(narrow) < len(whole)
    assert loaded(narrow).PROFILES[0].policy("h2d", runtime="kernel-options")
    with pytest.raises(ValueError, match="without the runtime full"):
        loaded(narrow).PROFILES[0].policy("h2d")


@pytest.mark.parametrize(
    "words",
    [
        ("--format", "python", "--shapes", "absent.jsonl"),
        ("--format", "configmap", "--runtime", "full"),
        ("--format", "c", "--sign", "absent.pem"),
    ],
)
def test_options_that_a_format_has_not_are_bad_usage(informed: Program, profile: str, words: tuple[str, ...]) -> None:
    result = informed("export", profile, *words, "--json")
    assert result.code == USAGE
    assert json.loads(result.stdout)["error"]["hint"]


def test_several_profiles_of_which_one_is_missing_are_refused(informed: Program, profile: str) -> None:
    result = informed("export", profile, "nothing", "--format", "c")
    assert (result.code, result.stdout) == (DATA, "")
