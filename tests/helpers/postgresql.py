"""A PostgreSQL server of the tests' own: it listens on a Unix socket in a temporary folder, and nowhere else."""

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from contextlib import closing
from functools import cached_property
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import quote

import pytest

from pega_tune.profiles.store.migrate import upgrade

PASSWORD = "s3ntinel%2F:@ &pw"
"""Of every database that a test uses, so that tests can look for it wherever it should not be."""

ALL_HERE = "PEGA_TUNE_TEST_ALL"
"""Environment variable of CI: what other tests need is installed, and they fail without it instead of being skipped."""

_USER = "tester"
_DEBIAN = Path("/usr/lib/postgresql")
# What is acknowledged is lost only if the machine itself dies, so the tests need not wait for its disk.
_SETTINGS = {
    "autovacuum": "off",
    "dynamic_shared_memory_type": "mmap",
    "fsync": "off",
    "full_page_writes": "off",
    "jit": "off",
    "listen_addresses": "",
    "log_statement": "all",
    "max_connections": "60",
    "shared_buffers": "16MB",
}


class Server:
    """A running server with a user that needs `PASSWORD`; a context manager."""

    def __init__(self, programs: Path) -> None:
        self._programs = programs
        # Short: the path of a socket has 107 bytes at most.
        self._folder = Path(tempfile.mkdtemp(prefix="pega"))
        self._account = _account()
        self._numbers = count(1)
        self._process: subprocess.Popen[bytes] | None = None
        self.log = self._folder / "log"
        """What the server says, statements and refusals included."""
        if self._account:
            os.chown(self._folder, self._account.pw_uid, self._account.pw_gid)

    def __enter__(self) -> Self:
        try:
            self._initialise()
            self.start()
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop(signal.SIGQUIT)
        self._remove()

    def url(self, database: str, password: str = PASSWORD) -> str:
        """The URL of a database, existing or not."""
        return f"postgresql://{_USER}:{quote(password, safe='')}@/{database}?host={self._folder}"

    def create(self, template: str = "template0") -> str:
        """Makes a database, a copy of `template`, and returns its name."""
        name = f"test{next(self._numbers)}"
        self._administer(f"CREATE DATABASE {name} TEMPLATE {template}")
        return name

    def drop(self, database: str) -> None:
        """Removes a database, whoever may still be connected to it."""
        self._administer(f"DROP DATABASE {database} WITH (FORCE)")

    @cached_property
    def migrated(self) -> str:
        """A database with our tables."""
        name = self.create()
        upgrade(self.url(name))
        return name

    def program(self, name: str) -> Path:
        """One of PostgreSQL's client programs."""
        return self._programs / name

    def start(self) -> None:
        """Starts the server and waits until it answers."""
        arguments = [part for name, value in _SETTINGS.items() for part in ("-c", f"{name}={value}")]
        with self.log.open("ab") as log:
            self._process = self._run(
                "postgres", "-D", self._folder / "data", "-k", self._folder, *arguments, output=log.fileno()
            )
        self._wait()

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """Stops it: SIGINT cuts connections off in an orderly way, SIGQUIT is a crash, of which it has to recover."""
        if self._process is None:
            return
        self._process.send_signal(how)
        self._process.wait(30)
        self._process = None

    def _initialise(self) -> None:
        secret = self._folder / "secret"
        secret.write_text(PASSWORD)
        secret.chmod(0o644)
        options = ["--auth=scram-sha-256", f"--username={_USER}", f"--pwfile={secret}", "--encoding=UTF8"]
        with self.log.open("ab") as log:
            done = self._run(
                "initdb", "-D", self._folder / "data", "--no-sync", "--locale=C", *options, output=log.fileno()
            )
        assert done.wait(60) == 0, self.log.read_text()
        secret.unlink()

    def _run(self, program: str, *arguments: object, output: int) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(
            # However the tests end, no server stays behind.
            ["setpriv", "--pdeathsig", "QUIT", str(self._programs / program), *map(str, arguments)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd=self._folder,
            user=self._account.pw_uid if self._account else None,
            group=self._account.pw_gid if self._account else None,
            extra_groups=[] if self._account else None,
        )

    def _wait(self) -> None:
        import psycopg

        deadline = time.monotonic() + 60
        while True:
            try:
                self._administer("SELECT 1")
            except psycopg.OperationalError:
                assert self._process is not None
                ended = self._process.poll() is not None or time.monotonic() > deadline
                assert not ended, self.log.read_text()
                time.sleep(0.02)
            else:
                return

    def _administer(self, sql: str) -> None:
        import psycopg

        address = {"host": str(self._folder), "user": _USER, "password": PASSWORD, "dbname": "postgres"}
        with closing(psycopg.connect(**address, autocommit=True)) as connection:
            connection.execute(sql.encode())

    def _remove(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)


def start_server() -> Server:
    """A server, to be entered; where there is none, and it is not CI, the test is skipped."""
    programs = find_programs()
    if programs is None or find_spec("psycopg") is None:
        what = "PostgreSQL's server (Debian: postgresql)" if programs is None else "psycopg (make setup)"
        if os.environ.get(ALL_HERE):
            pytest.fail(f"{what} is not installed")
        pytest.skip(f"needs {what}")
    return Server(programs)


def find_programs() -> Path | None:
    """The folder of `initdb` and `postgres`; None if there is none. Debian keeps it off the search path."""
    folders = [Path(found).resolve().parent] if (found := shutil.which("initdb")) else []
    folders += sorted(_DEBIAN.glob("*/bin"), reverse=True)
    return next(
        (folder for folder in folders if all((folder / name).exists() for name in ("initdb", "postgres"))), None
    )


def _account() -> pwd.struct_passwd | None:
    """Whom the server runs as: it refuses root; None is the user that runs the tests."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    raise AssertionError("there is no user whom the server could run as")
