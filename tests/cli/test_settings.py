"""`export --format` for the settings that engines have today."""

import json
from pathlib import Path

import pytest

from pega_tune.autotune.cli.export_settings import SETTINGS_FORMATS
from tests.helpers.cli import Program
from tests.helpers.store import rows

USAGE, DATA = 2, 4
SHAPES = [
    {"merged_ranges": 16384, "total_bytes": 64 << 20, "direction": "h2d", "count": 3},
    {"merged_ranges": 1024, "total_bytes": 8 << 20, "direction": "d2h"},
    {"merged_ranges": 64, "total_bytes": 1 << 20, "direction": "both"},
]


@pytest.fixture
def mix(informed: Program) -> Path:
    path = informed.folder / "mix.jsonl"
    path.write_text("".join(json.dumps(shape) + "\n" for shape in SHAPES))
    return path


@pytest.fixture
def profile(informed: Program) -> str:
    ((found,),) = rows(informed.database, "SELECT profile_id FROM profile")
    return str(found)


@pytest.mark.parametrize("form", SETTINGS_FORMATS)
def test_a_setting_is_chosen_for_a_mix_and_told_with_its_cost(
    informed: Program, profile: str, mix: Path, form: str
) -> None:
    path = informed.folder / "settings"
    result = informed("export", profile, "--format", form, "--shapes", mix, "-o", path, "--json")
    assert result.code == 0, result.stderr
    answer = result.json
    assert (answer["format"], answer["profile"], answer["simulated"]) == (form, profile, True)
    assert answer["settings"]
    assert answer["predicted"]["time_ratio"] > 0.9
    assert (answer["transfers"], answer["basis"]) == (5, "the measured cells of the sweep")
    text = path.read_text()
    assert text.startswith("# SIMULATED")
    assert all(str(value) in text for value in answer["settings"].values())


@pytest.mark.parametrize("form", SETTINGS_FORMATS)
def test_without_a_mix_there_is_no_setting(informed: Program, profile: str, form: str) -> None:
    result = informed("export", profile, "--format", form)
    assert (result.code, result.stdout, len(result.errors)) == (USAGE, "", 1)
    assert "--shapes FILE; `pega-tune shape` prints the lines of such a file" in result.stderr


def test_what_makes_no_sense_is_bad_usage(informed: Program, profile: str, mix: Path) -> None:
    settings = ("--format", "sglang", "--shapes", mix)
    assert informed("export", profile, profile, *settings).code == USAGE
    assert informed("export", profile, *settings, "--runtime", "pegaflow").code == USAGE


def test_a_mix_that_is_none_is_refused(informed: Program, profile: str) -> None:
    path = informed.folder / "none.jsonl"
    path.write_text("{}\n")
    assert informed("export", profile, "--format", "sglang", "--shapes", path).code == DATA


def test_without_the_cells_the_tables_answer(informed: Program, profile: str, mix: Path) -> None:
    bundle = informed.folder / "profile.json"
    assert informed("export", profile, "-o", bundle).code == 0
    informed.database = informed.folder / "elsewhere.db"
    assert informed("import", bundle).code == 0
    result = informed("export", profile, "--format", "pegaflow", "--shapes", mix, "--json")
    assert result.code == 0
    assert result.json["basis"].startswith("the tables of the profile alone")
