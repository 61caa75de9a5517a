"""`export` and `import`: a profile goes from one database to another, or is refused without a trace."""

import json
import os
import shlex
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from pega_tune.profiles.bundle.document import to_document, write
from pega_tune.profiles.bundle.files import write_bundle
from pega_tune.profiles.bundle.packaged import packaged_bundles
from pega_tune.profiles.policy.sources import PACKAGED
from pega_tune.profiles.policy.terms import Hint, ProfileState
from tests.helpers.bundles import bundle, sealed, table, with_tables
from tests.helpers.cli import Program

USAGE, DATA = 2, 4
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


def test_an_empty_name_is_bad_usage(informed: Program) -> None:
    for command in (("import", ""), ("db", "backup", "")):
        result = informed(*command)
        assert (result.code, len(result.errors)) == (USAGE, 1)
        assert "names no file" in result.stderr


def test_a_dash_is_stdout(informed: Program, exported: Path) -> None:
    profile = json.loads(exported.read_text())["profile_id"]
    before = sorted(os.listdir(informed.folder))
    assert informed("export", profile, "-o", "-").stdout == informed("export", profile).stdout
    assert sorted(os.listdir(informed.folder)) == before


def test_who_imports_a_draft_is_told_that_it_is_not_used(program: Program) -> None:
    path = program.folder / "draft.json"
    write_bundle(bundle(state=ProfileState.DRAFT, reasons=("throttled",)), path)
    result = program("import", path)
    assert result.code == 0
    assert result.stderr == ("warning: the profile is a draft, not published, and decide does not use it: throttled\n")


def test_a_profile_of_the_future_is_refused(program: Program) -> None:
    path = program.folder / "future.json"
    write_bundle(bundle(created_at=datetime.now(UTC) + timedelta(days=400)), path)
    result = program("import", path)
    assert (result.code, len(result.errors)) == (DATA, 1)
    assert "was made in the future" in result.stderr
    assert not list(program.folder.glob("test.db*"))


def test_a_recording_is_told_from_a_bundle(informed: Program) -> None:
    (listed,) = informed("sweeps", "list", "--json").json["sweeps"]
    recording = informed.folder / "sweep.jsonl.gz"
    informed("sweeps", "export", listed["sweep"], "-o", recording)
    result = informed("import", recording)
    assert (result.code, len(result.errors)) == (DATA, 1)
    assert "as the recording of a sweep is, and no bundle" in result.stderr


def test_tables_without_any_listed_shape_are_named_and_not_shown_empty(program: Program) -> None:
    tall = table(measured_ranges=(20_000, 30_000), hint=Hint.HOST_RUNS)
    path = program.folder / "profile.json"
    write_bundle(bundle(table(), tall), path)
    program("import", path)
    shown = program("profiles", "show", "abc123").stdout
    assert shown.count("RANGES") == 1
    assert "none of these shapes was measured, though others were: h2d, idle, runtime full, host-runs ranges" in shown
    document = program("profiles", "show", "abc123", "--json").json
    assert (document["id"], document["profile"]) == ("abc123", "abc123")


def test_an_empty_id_is_a_mistake_of_the_caller(informed: Program) -> None:
    for words in (("profiles", "show"), ("profiles", "rm"), ("sweeps", "show"), ("export",)):
        result = informed(*words, "")
        assert (result.code, len(result.errors)) == (USAGE, 1)
        assert "an empty text names no " in result.stderr


def test_the_shipped_profile_is_shown_and_exported_under_its_id(program: Program) -> None:
    shipped = next(packaged_bundles(PACKAGED))
    shown = program("profiles", "show", shipped.profile_id, "--json")
    assert (shown.code, shown.json["id"], shown.json["shipped"]) == (0, shipped.profile_id, True)
    assert "shipped with pega-tune" in shown.stderr
    assert program("export", shipped.profile_id).stdout.encode() == write(shipped)
    assert program("profiles", "show", shipped.profile_id[:6]).code == DATA
    assert not program.database.exists()


def test_a_profile_is_retired_and_removed(informed: Program, exported: Path) -> None:
    profile = json.loads(exported.read_text())["profile_id"]
    asked = ("decide", "--device", "sim:h200", "--ranges", 16384, "--bytes", 67108864, "--json")
    refused = informed("profiles", "rm", profile)
    assert refused.code == DATA
    assert f"profiles retire {profile}" in refused.stderr
    assert informed("profiles", "retire", profile, "--reason", "a test").stdout == f"profile {profile} is retired\n"
    answer = informed(*asked)
    assert (answer.json["profile"], answer.json["tier"]) == (None, "rule")
    assert "is retired and is not used" in answer.stderr
    assert "a test" in informed("profiles", "show", profile).stdout
    again = informed("import", exported)
    assert (again.code, "profiles retire" in again.stderr) == (0, True)
    assert informed("profiles", "retire", profile, "--undo", "--json").json["changed"]
    assert informed(*asked).json["profile"] == profile
    informed("profiles", "retire", profile)
    assert informed("profiles", "retire", profile, "--undo", "--reason", "fine").code == USAGE
    removed = informed("profiles", "rm", profile, "--json")
    assert removed.code == 0
    assert removed.json["blocks_kept"] > 0
    assert informed("profiles", "list", "--json").json["profiles"] == []
    assert informed("sweeps", "show", removed.json["sweep"]).code == 0
    assert informed("import", exported).code == informed("profiles", "retire", profile).code == 0
    told = informed("profiles", "rm", profile).stdout
    assert "no command makes a profile of that sweep again" in told


def test_the_same_profile_retired_elsewhere_comes_with_advice_that_works(informed: Program, exported: Path) -> None:
    profile = json.loads(exported.read_text())["profile_id"]
    informed("profiles", "retire", profile)
    retired = informed.folder / "retired.json"
    informed("export", profile, "-o", retired)
    informed("profiles", "retire", profile, "--undo")
    hint = informed("import", retired, "--json").json["error"]["hint"]
    _, advised, _ = hint.split("`")
    assert informed(*shlex.split(advised)[1:]).code == 0
    again = informed("import", retired, "--json").json
    assert (again["added"], again["state"]) == (False, "retired")
