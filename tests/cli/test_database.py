"""A database that cannot be used is refused with exit code 4 and left as it was; and the commands of `db`."""

import re
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from tests.helpers.cli import Program

DATA = 4
COMMANDS = {
    "sweeps list": ("sweeps", "list"),
    "profiles show": ("profiles", "show", "ab"),
    "sweep": ("sweep", "--device", "sim:h200"),
    "sweep resume": ("sweep", "--resume", "ab"),
    "decide": ("decide", "--device", "sim:h200", "--ranges", 1, "--bytes", 1),
    "db upgrade": ("db", "upgrade"),
}


def directory(path: Path, _swept: Path) -> None:
    path.mkdir()


def text_file(path: Path, _swept: Path) -> None:
    path.write_text("my shopping list\n" * 100)


def of_another_program(path: Path, _swept: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE bookmark (url TEXT)")


def from_a_newer_version(path: Path, swept: Path) -> None:
    shutil.copy(swept, path)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")


def a_loop(path: Path, _swept: Path) -> None:
    path.symlink_to(path.name)


def without_measurements(path: Path, swept: Path) -> None:
    shutil.copy(swept, path)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("DROP TABLE measurement")


UNUSABLE = {
    "directory": directory,
    "SQLite": text_file,
    "another program|not a pega-tune database": of_another_program,
    "newer|9999": from_a_newer_version,
}


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
@pytest.mark.parametrize(("says", "make"), UNUSABLE.items(), ids=UNUSABLE)
def test_an_unusable_database_is_refused_and_left_alone(
    program: Program, swept: Path, command: tuple[object, ...], says: str, make: Callable[[Path, Path], None]
) -> None:
    make(program.database, swept)
    before = content(program.database)
    result = program(*command)
    assert result.code == DATA, result.stdout + result.stderr
    assert result.stdout == ""
    assert re.search(says, result.errors[0])
    assert content(program.database) == before


@pytest.mark.parametrize("make", UNUSABLE.values(), ids=UNUSABLE)
def test_the_doctor_tells_of_an_unusable_database(
    program: Program, swept: Path, make: Callable[[Path, Path], None]
) -> None:
    make(program.database, swept)
    result = program("doctor", "--json")
    (database,) = [check for check in result.json["checks"] if check["part"] == "database"]
    assert result.code == 3
    assert database["status"] == "failed"
    assert str(program.database) in database["detail"]


@pytest.mark.parametrize("command", ["upgrade", "current", "check", "backup"])
def test_a_link_that_leads_nowhere_is_refused(program: Program, swept: Path, command: str) -> None:
    a_loop(program.database, swept)
    result = program("db", command, *(["copy.db"] if command == "backup" else []))
    assert result.code == DATA
    assert "symbolic link" in result.errors[0]


def test_a_sweep_writes_nothing_into_a_damaged_database(program: Program, swept: Path) -> None:
    without_measurements(program.database, swept)
    before = content(program.database)
    refused = program("sweep", "--device", "sim:h200")
    assert refused.code == DATA
    assert "damaged: the table measurement is missing" in refused.errors[0]
    assert "db check" in refused.errors[0]
    assert content(program.database) == before
    report = program("db", "check", "--json")
    assert report.code == DATA
    assert "the table measurement is missing" in report.json["damage"]


def test_a_read_only_database_answers_and_takes_no_sweep(informed: Program) -> None:
    # Root could write it all the same, but respects the mode.
    informed.database.chmod(0o444)
    assert informed("profiles", "list").code == 0
    assert informed("decide", "--device", "sim:h200", "--ranges", 1, "--bytes", 1).code == 0
    before = content(informed.database)
    refused = informed("sweep", "--device", "sim:h200")
    assert refused.code == DATA
    assert "read-only" in refused.errors[0]
    assert content(informed.database) == before


def test_a_database_in_a_read_only_directory_answers(informed: Program) -> None:
    informed.folder.chmod(0o555)
    try:
        assert informed("sweeps", "list").code == 0
        assert informed("decide", "--device", "sim:h200", "--ranges", 1, "--bytes", 1).code == 0
        assert informed("sweep", "--device", "sim:h200").code == DATA
    finally:
        informed.folder.chmod(0o755)


def test_upgrade_makes_a_database_and_says_so_once(program: Program) -> None:
    first, second = program("db", "upgrade", "--json"), program("db", "upgrade", "--json")
    assert first.json == {"before": None, "revision": "0001", "backup": None}
    assert second.json == {"before": "0001", "revision": "0001", "backup": None}
    assert program("db", "current", "--json").json == {"revision": "0001", "expected": "0001"}


def test_current_makes_no_database(program: Program) -> None:
    assert program("db", "current", "--json").json == {"revision": None, "expected": "0001"}
    assert not program.database.exists()


def test_check_counts_and_finds_a_sound_database_sound(informed: Program) -> None:
    report = informed("db", "check", "--json")
    assert report.code == 0
    assert report.json["ok"] is True
    assert {"table": "sweep", "rows": 1} in report.json["counts"]


def test_check_tells_of_damage(informed: Program) -> None:
    data = bytearray(informed.database.read_bytes())
    data[len(data) // 2 :] = b"\xa5" * (len(data) - len(data) // 2)
    informed.database.write_bytes(data)
    report = informed("db", "check", "--json")
    assert report.code == DATA
    assert report.json["ok"] is False
    assert report.json["damage"]


def test_a_backup_is_the_database_and_is_never_overwritten(informed: Program) -> None:
    target = informed.folder / "copy.db"
    assert informed("db", "backup", target, "--json").json == {"backup": str(target)}
    assert informed("sweeps", "list").stdout == informed("--db", target, "sweeps", "list").stdout
    refused = informed("db", "backup", target)
    assert refused.code == DATA
    assert "exists" in refused.errors[0]


def content(path: Path) -> dict[str, bytes]:
    """Every file that belongs to the database, byte for byte."""
    files = [path, *path.parent.glob(f"{path.name}-*")] if path.is_file() else list(path.iterdir())
    return {file.name: file.read_bytes() for file in files}
