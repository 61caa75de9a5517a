"""Where the database is, by option, by environment, and by default."""

from pathlib import Path

import pytest

from pega_tune.errors import UsageError
from pega_tune.profiles.policy.settings import (
    TIMING_VARIABLES,
    database_url,
    environment_record,
    sqlite_path,
    visible_devices,
)


@pytest.fixture(autouse=True)
def _no_setting(monkeypatch):
    for name in ("PEGA_TUNE_DB", *TIMING_VARIABLES):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("option", "url", "path"),
    [
        ("/data/p.db", "sqlite:////data/p.db", "/data/p.db"),
        ("p.db", "sqlite:///p.db", "p.db"),
        ("./sub/p#1 %.db", "sqlite:///sub/p#1 %.db", "sub/p#1 %.db"),
        ("sqlite:///p.db", "sqlite:///p.db", "p.db"),
        ("sqlite:////data/p.db", "sqlite:////data/p.db", "/data/p.db"),
        ("sqlite+pysqlite:////data/p.db", "sqlite+pysqlite:////data/p.db", "/data/p.db"),
    ],
)
def test_paths_and_sqlite_urls_name_a_file(option, url, path):
    assert database_url(option) == url
    assert sqlite_path(url) == Path(path)


@pytest.mark.parametrize("url", ["postgresql://user:word@host/db", "postgresql+psycopg://host/db", "mysql://host/db"])
def test_other_databases_pass_through(url):
    assert database_url(url) == url
    assert sqlite_path(url) is None


@pytest.mark.parametrize(
    "option",
    [
        ":memory:",
        "sqlite://",
        "sqlite:///",
        "sqlite:///:memory:",
        "sqlite:///file::memory:?cache=shared&uri=true",
        "sqlite:///file:p.db?uri=true",
        "sqlite:///p.db?mode=ro",
        "sqlite+pysqlite:////data/p.db?timeout=5",
        "://",
        "://host/db",
        "postgresql://user:word@host:port/db",
        "postgresql://[::1/db",
        "sqlite:////data/\udcff.db",
        "sqlite://p.db",
        "p?.db",
        "",
        "  ",
    ],
)
def test_what_is_no_lasting_file_is_refused(option):
    with pytest.raises(UsageError) as caught:
        database_url(option)
    assert caught.value.hint


def test_the_option_comes_before_the_environment(monkeypatch):
    monkeypatch.setenv("PEGA_TUNE_DB", "/data/env.db")
    assert database_url() == "sqlite:////data/env.db"
    assert database_url("/data/p.db") == "sqlite:////data/p.db"


def test_an_empty_variable_is_not_set(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.setenv("PEGA_TUNE_DB", "")
    assert sqlite_path(database_url()) == tmp_path / "pega-tune" / "pega-tune.db"
    assert list(tmp_path.iterdir()) == []


def test_a_tilde_is_home(monkeypatch):
    monkeypatch.setenv("HOME", "/home/someone")
    assert sqlite_path(database_url("~/p.db")) == Path("/home/someone/p.db")


def test_the_environment_is_recorded_whole(monkeypatch):
    monkeypatch.setenv("CUDA_LAUNCH_BLOCKING", "1")
    record = environment_record().to_json()
    assert record.pop("CUDA_LAUNCH_BLOCKING") == "1"
    assert set(record.values()) == {None}
    assert {"CUDA_DEVICE_MAX_CONNECTIONS", "CUDA_MPS_PIPE_DIRECTORY", "NUMBA_ENABLE_CUDASIM"} <= set(record)


def test_visible_devices_are_as_set(monkeypatch):
    assert visible_devices() is None
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert visible_devices() == ""
