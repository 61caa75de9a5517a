"""`export` and `import`: a profile goes from one database to another, or is refused without a trace."""

import json
import os
from pathlib import Path

import pytest

from pega_tune.profiles.bundle.document import to_document, write
from tests.helpers.bundles import bundle, sealed, with_tables
from tests.helpers.cli import Program

DATA = 4
LARGE = ("--ranges", 16384, "--bytes", "64MiB", "--direction", "h2d")


@pytest.fixture
def exported(informed: Program) -> Path:
    """The bundle of the one profile of the simulated device."""
    (profile,) = informed("profiles", "list", "--json").json["profiles"]
    path = informed.folder / "profile.json"
    result = informed("export", profile["id"], "-o", path, "--json")
    assert result.code == 0, result.stderr
    assert result.json["file"] == str(path)
    return path


def elsewhere(program: Program) -> Program:
    other = Program(program.folder / "elsewhere")
    other.folder.mkdir()
    return other


def test_a_profile_answers_on_another_host_as_on_its_own(informed: Program, exported: Path) -> None:
    other = elsewhere(informed)
    other.database = other.folder / "new.db"
    imported = other("import", exported, "--json")
    assert (imported.code, imported.json["added"], imported.json["simulated"]) == (0, True, True)
    there, here = (each("decide", "--device", "sim:h200", *LARGE, "--json").json for each in (other, informed))
    assert {**there, "age_s": None} == {**here, "age_s": None}
    shown = other("profiles", "show", imported.json["profile"][:6], "--json").json
    assert shown["digest"] == json.loads(exported.read_text())["policy"]["sha256"]
    assert other("db", "check").code == 0
    assert other("sweeps", "show", shown["sweep"]).code == 0
    resumed = other("sweep", "--resume", shown["sweep"], "--device", "sim:h200", "--json")
    assert resumed.code == DATA


def test_importing_twice_says_so(informed: Program, exported: Path) -> None:
    result = informed("import", exported)
    assert result.code == 0
    assert "it was there already" in result.stdout


def test_a_simulated_profile_says_so_everywhere(informed: Program, exported: Path) -> None:
    profile = json.loads(exported.read_text())["profile_id"]
    assert json.loads(exported.read_text())["simulated"] is True
    for result in (
        informed("export", profile),
        informed("export", profile, "-o", exported),
        informed("import", exported),
    ):
        assert "warning: SIMULATED" in result.stderr
    assert "SIMULATED" in result.stdout


def test_without_a_file_the_bundle_is_the_answer(informed: Program, exported: Path) -> None:
    profile = json.loads(exported.read_text())["profile_id"]
    assert informed("export", profile[:6]).stdout == exported.read_text()
    assert informed("export", profile, "--json").json == json.loads(exported.read_text())


def test_a_file_that_is_there_is_replaced(informed: Program, exported: Path) -> None:
    before = exported.read_bytes()
    exported.write_text("old")
    assert informed("export", json.loads(before)["profile_id"], "-o", exported).code == 0
    assert exported.read_bytes() == before


DOCUMENT = to_document(bundle())
REFUSED = {
    "cut": write(bundle())[:-9],
    "changed": write(bundle()).replace(b"lab-7", b"lab-8"),
    "newer": sealed({**DOCUMENT, "schema": 99}),
    "signed with nothing": sealed({**DOCUMENT, "signature": {}}),
    "no tables": sealed(with_tables(DOCUMENT, b"junk")),
    "deep": b"[" * 100_000,
    "markup": sealed({**DOCUMENT, "profile_id": "[red]x"}),
    "escape": sealed({**DOCUMENT, "kernel_digest": "\x1b[31m"}),
    "a database": b"SQLite format 3\0" + bytes(range(256)),
    "empty": b"",
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_refused_bundle_is_one_line_and_leaves_no_trace(program: Program, name: str) -> None:
    path = program.folder / "bundle.json"
    path.write_bytes(REFUSED[name])
    before = sorted(os.listdir(program.folder))
    result = program("import", path)
    assert (result.code, result.stdout) == (DATA, "")
    assert len(result.stderr.splitlines()) == len(result.errors) == 1
    assert str(path) in result.stderr
    assert "\x1b" not in result.stderr
    assert sorted(os.listdir(program.folder)) == before


@pytest.mark.parametrize("name", ["absent.json", "."])
def test_what_is_no_file_is_refused(program: Program, name: str) -> None:
    assert program("import", program.folder / name).code == DATA


def test_a_profile_that_is_not_there_cannot_be_exported(informed: Program) -> None:
    assert informed("export", "nothing").code == DATA


def test_a_place_that_cannot_be_written_is_refused(informed: Program, exported: Path) -> None:
    profile = json.loads(exported.read_text())["profile_id"]
    result = informed("export", profile, "-o", informed.folder / "absent" / "x.json")
    assert (result.code, len(result.errors)) == (DATA, 1)


def test_an_unknown_format_is_bad_usage(informed: Program, exported: Path) -> None:
    result = informed("export", json.loads(exported.read_text())["profile_id"], "--format", "xml")
    assert (result.code, "xml" in result.stderr) == (2, True)
