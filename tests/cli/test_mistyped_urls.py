"""URLs of servers gone wrong are refused, their passwords shown nowhere, and no file is made of them."""

from pathlib import Path

import pytest

from pega_tune.autotune.cli.main import run

SECRET = "s3cret"
USAGE = 2
MISTYPED = (
    f"postgresql:/u:{SECRET}@h/db",
    f"u:{SECRET}@h/db",
    f"u:{SECRET}@h",
    f"postgresql//u:{SECRET}@h/db",
    f"postgresql:u:{SECRET}@h/db",
    f"postgresql;//u:{SECRET}@h/db",
    f"postgres u:{SECRET}@h/db",
    f"postgre sql://u:{SECRET}@h/db",
    f" postgresql:/u:{SECRET}@h/db",
    f"'postgresql://u:{SECRET}@h/db'",
    f"postgresql://u:{SECRET}/db",
    f"postgresql://u:{SECRET}",
    f"postgresql://u:a {SECRET}@h:port/db",
    f"postgresql://u:a@{SECRET}@h/db",
    f"postgresql://u:[{SECRET}@h/db",
    f"jdbc:postgresql://h/db?user=u&password={SECRET}",
    f"host=h password={SECRET}",
    f"host=h password = '{SECRET} x'",
)
STRAY = (*MISTYPED[:7], f"postgresql://u:{SECRET}@h/x", f"postgresql://u:a {SECRET}@h/x", f"postgresql://u:{SECRET}/x")


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def shown(capsys: pytest.CaptureFixture[str]) -> str:
    printed = capsys.readouterr()
    return printed.out + printed.err


@pytest.mark.parametrize("url", MISTYPED)
@pytest.mark.parametrize("verbose", ["--json", "--debug"])
def test_as_a_database(url: str, verbose: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for arguments in (
        ["--db", url, "db", "check"],
        ["--db", url, "db", "upgrade"],
        ["--db", url, "decide", "--device", "sim:h200", "--ranges", "1", "--bytes", "1"],
        ["fleet", "list", "--fleet", url],
    ):
        assert run([*arguments, verbose]) == USAGE, arguments
        assert SECRET not in shown(capsys)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("text", STRAY)
@pytest.mark.parametrize("verbose", ["--json", "--debug"])
def test_where_none_is_expected(text: str, verbose: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    database = tmp_path / "x.db"
    assert run(["--db", str(database), "db", "upgrade"]) == 0
    for arguments in (["db", "backup", text], ["import", text], ["sweeps", "list", text], ["profiles", "show", text]):
        run(["--db", str(database), *arguments, verbose])
        assert SECRET not in shown(capsys), arguments
    assert SECRET not in " ".join(str(path) for path in tmp_path.rglob("*"))


@pytest.mark.parametrize(
    "pieces",
    [
        [f"postgresql://u:a {SECRET}@h/x"],
        [f"http://u:a {SECRET}@h/x"],
        [f"u:a {SECRET}@h/x"],
        [f"http://u:{SECRET}/x"],
        ["postgresql://u:a", f"{SECRET}@h/x"],
        ["http://u:a", SECRET, "b@h/x"],
        [f"u:{SECRET}", "b@h/x"],
        ["u:", f"{SECRET}@h/x"],
    ],
)
@pytest.mark.parametrize("verbose", ["--json", "--debug"])
def test_where_the_parser_complains(pieces: list[str], verbose: str, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (
        pieces,
        ["decide", *pieces],
        ["decide", "--objective", *pieces],
        ["--db", *pieces, "sweeps", "list"],
        ["sweep", "--device", *pieces],
    ):
        assert run([*arguments, verbose]) != 0, arguments
        assert SECRET not in shown(capsys), arguments
