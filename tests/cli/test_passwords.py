"""Every command on a server: the password of its URL is in nothing that anybody can look at."""

import json
import logging
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import typer

from pega_tune.autotune.cli.main import PROGRAM, app, run, separate
from pega_tune.autotune.cli.output import Output
from pega_tune.autotune.cli.session import Session
from pega_tune.autotune.devices import find_device
from pega_tune.autotune.replay.codec import decode
from pega_tune.errors import PegaTuneError
from pega_tune.profiles.store.access import Access
from pega_tune.profiles.store.database import Database
from pega_tune.profiles.store.engine_setup import open_engine
from pega_tune.profiles.store.errors import StoreError
from pega_tune.profiles.store.store import Store
from tests.helpers.bundles import bundle
from tests.helpers.cli import Program, wait_until
from tests.helpers.hidden import SECRET, assert_hidden, assert_silent
from tests.helpers.places import server_place
from tests.helpers.postgresql import PASSWORD, Server
from tests.helpers.store import host_view, sweep_record

SIM = ("--device", "sim:h200")
ONE = ("--ranges", "1", "--bytes", "65536")
NO_DATABASE = ("devices", "shape", "bench transfer", "bench serving")
"""Commands that look into no database."""

SLOW = ("doctor", "sweep", "verify", "bench")

Call = Callable[..., None]


@pytest.fixture
def shapes(tmp_path: Path) -> Path:
    path = tmp_path / "shapes.jsonl"
    path.write_text(json.dumps({"merged_ranges": 1, "total_bytes": 65536, "direction": "h2d"}) + "\n")
    return path


@pytest.fixture
def ask(capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture) -> Call:
    """Runs the program, also in both its manners of speaking; what it prints and what it logs holds no password."""
    for name in (None, "sqlalchemy", "psycopg"):
        caplog.set_level(logging.DEBUG, name)

    def call(*arguments: object) -> None:
        for manner in (["--json", "--debug"],) if arguments[0] in SLOW else (["--json"], ["--debug"]):
            run([*map(str, arguments), *manner])
            printed = capsys.readouterr()
            assert SECRET not in printed.out + printed.err, arguments
            assert SECRET not in caplog.text, arguments
            caplog.clear()

    return call


def calls(folder: Path, shapes: Path) -> dict[str, tuple[object, ...]]:
    """Every command that looks into a database, in an order in which each finds what it needs; X stands for an id."""
    sweep = (*SIM, "--shapes", shapes, "--colocation", "idle", "--budget", "1s")
    return {
        "db current": (),
        "db upgrade": (),
        "doctor": (),
        "sweep": sweep,
        "sweeps list": (),
        "sweeps show": ("X",),
        "sweeps export": ("X", "-o", folder / "sweep.tape"),
        "profiles list": (),
        "profiles show": ("X",),
        "decide": (*SIM, *ONE),
        "verify": SIM,
        "export": ("X", "-o", folder / "bundle.json"),
        "import": (folder / "bundle.json",),
        "bench lookup": SIM,
        "bench regret": SIM,
        "fleet pull": SIM,
        "fleet push": (),
        "fleet list": (),
        "profiles retire": ("X",),
        "profiles rm": ("X",),
        "db check": (),
        "db backup": (folder / "copy.db",),
    }


def test_every_command_is_called_here(tmp_path: Path) -> None:
    called = {*calls(tmp_path, tmp_path), *NO_DATABASE}
    assert set(_names(typer.main.get_command(app))) == called


def _names(command: Any, path: str = "") -> Iterator[str]:
    for name, each in command.commands.items():
        yield from _names(each, f"{path}{name} ") if hasattr(each, "commands") else (f"{path}{name}",)


def test_a_day_on_a_server(ask: Call, postgresql: Server, shapes: Path, tmp_path: Path) -> None:
    url = postgresql.url(postgresql.create())
    for name, arguments in calls(tmp_path, shapes).items():
        if name == "profiles list":
            with Store.open(url) as store:
                store.import_bundle(bundle(device=find_device("sim:h200").facts))
        ids = (_id(url, name) if each == "X" else each for each in arguments)
        ask(*name.split(), *ids, *_where(name, url, tmp_path / "local.db"))
    assert_hidden(tmp_path, postgresql, url)


def test_what_measured_is_noted_without_it(postgresql: Server, shapes: Path, tmp_path: Path) -> None:
    url, tape = postgresql.url(postgresql.create()), tmp_path / "sweep.tape"
    arguments = ["sweep", *SIM, "--shapes", str(shapes), "--colocation", "idle", "--budget", "1s", "--db", url]
    run(arguments)
    noted = f"pega-tune {' '.join(arguments)}"
    assert run(["sweeps", "export", _id(url, "sweeps"), "-o", str(tape), "--command", noted, "--db", url]) == 0
    command = decode(tape.read_bytes()).command
    assert command.startswith("pega-tune sweep --device sim:h200")
    assert SECRET not in command


def _where(name: str, url: str, local: Path) -> tuple[object, ...]:
    return ("--db", local, "--fleet", url) if name.startswith("fleet") else ("--db", url)


def _id(url: str, command: str) -> str:
    """The newest sweep or profile."""
    with Store.open(url, create=False, read_only=True) as store:
        if command.startswith("sweeps"):
            return store.sweeps()[0].sweep.sweep_id
        return store.profiles()[0].profile_id


REFUSED = {
    "missing": lambda server: server.url("none"),
    "wrong password": lambda server: server.url("postgres", f"{PASSWORD}wrong"),
    "empty": lambda server: server.url("postgres"),
    "in the query": lambda server: _in_query(server.url("none")),
    "no such option": lambda server: f"{server.url('none')}&nonsense=1",
    "of a kind that is not supported": lambda server: server.url("none").replace("postgresql", "mysql"),
    "mistyped": lambda server: server.url("none").replace("://", ":/"),
}


def _in_query(url: str) -> str:
    user, _, rest = url.partition("@")
    secret = user.rpartition(":")[2]
    return f"postgresql://tester@{rest}&password={secret}"


FILLING = ("db upgrade", "sweep", "import", "fleet push")


@pytest.mark.parametrize("kind", REFUSED)
def test_what_is_refused(ask: Call, postgresql: Server, shapes: Path, tmp_path: Path, kind: str) -> None:
    url = REFUSED[kind](postgresql)
    for name, arguments in calls(tmp_path, shapes).items():
        if name in (FILLING if kind == "empty" else ()) or (name == "doctor" and kind != "wrong password"):
            continue
        given = [*name.split(), *arguments, *_where(name, url, tmp_path / "local.db")]
        ask(*given)
        if error := _raised([str(each) for each in given]):
            assert_silent(error)
    assert SECRET not in " ".join(str(path) for path in tmp_path.rglob("*"))


def _raised(argv: list[str]) -> BaseException | None:
    """The exception itself, which `run` turns into a line."""
    call = separate(argv)
    command = typer.main.get_command(app)
    try:
        context = command.make_context(PROGRAM, list(call.rest), obj=Session(call.database, Output(json=True)))
        with context:
            command.invoke(context)
    except PegaTuneError as error:
        return error
    except typer.Exit:
        pass
    return None


def test_what_the_driver_raises_would_be_noticed(postgresql: Server) -> None:
    import psycopg

    with pytest.raises(psycopg.OperationalError) as caught:
        psycopg.connect(postgresql.url("none"))
    led_to = StoreError("it is not usable")
    led_to.__context__ = caught.value
    for error in (caught.value, led_to):
        with pytest.raises(AssertionError, match=r"leads to a (FinishedPGconn|OperationalError)"):
            assert_silent(error)


def test_a_server_that_goes_away(postgresql: Server) -> None:
    place = server_place(postgresql)
    with Store.open(place.url, host=host_view(give_up_s=0.05)) as store:
        postgresql.stop()
        try:
            with pytest.raises(StoreError) as caught:
                store.add_sweep(sweep_record())
            assert_silent(caught.value)
        finally:
            postgresql.start()


@pytest.mark.parametrize("name", ["password", "sslpassword"])
def test_a_database_does_not_show_it(postgresql: Server, name: str) -> None:
    url, secret = postgresql.url("none"), quote(PASSWORD, safe="")
    database = Database.parse(f"{url.replace(f':{secret}@', '@')}&{name}={secret}")
    engine = open_engine(database, Access.READ, host_view())
    whole = engine.url.render_as_string(hide_password=False)
    for shown in (repr(database), str(database), repr(engine), str(engine.url), repr(engine.url), whole):
        assert SECRET not in shown


def test_no_process_is_started_with_it(postgresql: Server, shapes: Path, tmp_path: Path) -> None:
    program = Program(tmp_path)
    url = postgresql.url(postgresql.create())
    arguments = ("sweep", *SIM, "--shapes", str(shapes), "--colocation", "idle", "--budget", "1s")
    process = subprocess.Popen(
        [sys.executable, "-m", "pega_tune", *arguments],
        cwd=tmp_path,
        env=program.environment | {"PEGA_TUNE_DB": url},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    seen: set[str] = set()
    wait_until(lambda: seen.update(_command_lines(process.pid)) or process.poll() is not None, "the end of a sweep")
    result = program.finish(process)
    assert SECRET not in result.stdout + result.stderr
    assert len(seen) > 1, result.stderr
    assert not [line for line in seen if SECRET in line]


def _command_lines(pid: int) -> Iterator[str]:
    """Of a process, and of all that it started."""
    with suppress(OSError):  # it has ended
        yield Path(f"/proc/{pid}/cmdline").read_text()
        for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            yield from _command_lines(int(child))
