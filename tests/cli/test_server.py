"""The program on a database server, and that the password of its URL gets nowhere else."""

import json
import logging
import traceback
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import pytest

from pega_tune.autotune.cli.main import run
from pega_tune.errors import PegaTuneError
from pega_tune.profiles.store.migrate import backup, check, current, upgrade
from pega_tune.profiles.store.store import Store
from tests.helpers.cli import Result
from tests.helpers.hidden import SECRET, assert_hidden
from tests.helpers.postgresql import PASSWORD, Server
from tests.helpers.store import host_view, profile_record, sweep_record

DATA = 4
USAGE = 2


@pytest.fixture
def url(postgresql: Server) -> str:
    """An empty database."""
    return postgresql.url(postgresql.create())


@pytest.fixture
def shapes(tmp_path: Path) -> Path:
    path = tmp_path / "shapes.jsonl"
    path.write_text(json.dumps({"merged_ranges": 1, "total_bytes": 65536, "direction": "h2d"}) + "\n")
    return path


@pytest.fixture
def program(capsys: pytest.CaptureFixture[str]) -> Callable[..., Result]:
    """The program, run in this process, where it starts fast; it looks for the password in all that is printed."""

    def call(*arguments: object) -> Result:
        code = run([str(argument) for argument in arguments])
        printed = capsys.readouterr()
        assert SECRET not in printed.out + printed.err
        return Result(code, printed.out, printed.err)

    return call


def test_the_password_is_one_that_would_be_noticed() -> None:
    assert SECRET in PASSWORD
    assert SECRET in quote(PASSWORD, safe="")


def test_a_day_on_a_server(
    program: Callable[..., Result], postgresql: Server, url: str, shapes: Path, tmp_path: Path
) -> None:
    def ask(*arguments: object) -> Result:
        return program("--db", url, *arguments, "--debug")

    assert ask("db", "current", "--json").json["revision"] is None
    assert ask("db", "check").code == DATA
    assert ask("db", "upgrade", "--json").json == {"before": None, "revision": "0001", "backup": None}
    swept = ask("sweep", "--device", "sim:h200", "--shapes", shapes, "--colocation", "idle", "--budget", "3s", "--json")
    assert swept.code in (0, 5), swept.stderr
    assert ask("sweeps", "list", "--json").json["sweeps"][0]["sweep"] == swept.json["sweep"]
    assert ask("sweeps", "show", swept.json["sweep"][:6]).code == 0
    assert ask("profiles", "list", "--json").json["profiles"][0]["id"] == swept.json["profile"]
    assert ask("profiles", "show", swept.json["profile"]).code == 0
    checked = ask("db", "check", "--json").json
    assert checked["ok"]
    copy = tmp_path / "copy.db"
    assert ask("db", "backup", copy).code == 0
    assert program("--db", copy, "db", "check", "--json").json["counts"] == checked["counts"]
    refused = ask("decide", "--device", "sim:h200", "--ranges", 1, "--bytes", 1)
    assert refused.code == DATA
    assert "fleet pull" in refused.stderr
    assert_hidden(tmp_path, postgresql, url)


@pytest.mark.parametrize("verbose", ["--debug", "--json"])
def test_refusals_do_not_show_it(program: Callable[..., Result], postgresql: Server, verbose: str) -> None:
    server = postgresql.url("none").partition("@")[2]
    good = quote(PASSWORD, safe="")
    for url, code in {
        postgresql.url("none"): DATA,
        f"postgresql://tester:{good}wrong@{server}": DATA,
        f"postgresql://nobody:{good}@{server}": DATA,
        f"postgresql://tester:{good}@/x?host=/nowhere": DATA,
        f"postgresql://tester:{good}@localhost:1/x": DATA,
        f"postgresql://tester:{good}@{server}&sslmode=nonsense": DATA,
        f"postgresql://tester:{good}@{server}&nonsense=1": DATA,
        f"postgresql://{server.replace('?', f'?user=tester&password={good}&')}": DATA,
        f"postgresql://tester:{PASSWORD}@{server}": USAGE,
    }.items():
        result = program("--db", url, "sweeps", "list", verbose)
        assert result.code == code, (url, result.stderr)
        assert "internal" not in result.stderr + result.stdout


def test_a_traceback_and_a_log_do_not_show_it(postgresql: Server, url: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    missing, wrong = postgresql.url("none"), postgresql.url("postgres", password=f"{PASSWORD}wrong")
    for attempt in (current, check, upgrade, Store.open, lambda url: backup(url, Path("/nowhere/at all"))):
        for refused in (missing, wrong):
            with pytest.raises(PegaTuneError) as caught:
                attempt(refused)
            assert SECRET not in "".join(traceback.format_exception(caught.value))
            assert SECRET not in caught.value.message + caught.value.hint
    with Store.open(url, host=host_view()) as store:
        store.add_sweep(sweep_record())
        store.add_profile(profile_record())
        assert SECRET not in repr(vars(store))
    assert SECRET not in caplog.text
    assert_hidden(None, postgresql, url)
