"""Where the database is, by option, by environment, and by default."""

import os
from pathlib import Path

import pytest

from pega_tune.errors import UsageError
from pega_tune.profiles.policy.settings import (
    TIMING_VARIABLES,
    change_environment,
    compile_cache_directory,
    compiler_variables,
    database_url,
    environment_record,
    environment_with,
    fleet_url,
    mps_pipe_directory,
    sqlite_path,
    visible_devices,
)


@pytest.fixture(autouse=True)
def _no_setting(monkeypatch):
    for name in ("PEGA_TUNE_DB", "PEGA_TUNE_CACHE", *TIMING_VARIABLES):
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


def test_an_mps_daemon_is_looked_for_where_cuda_does(monkeypatch):
    assert mps_pipe_directory() == Path("/tmp/nvidia-mps")
    monkeypatch.setenv("CUDA_MPS_PIPE_DIRECTORY", "/run/mps")
    assert mps_pipe_directory() == Path("/run/mps")


def test_a_child_has_our_environment_but_for_what_is_changed(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    monkeypatch.setenv("CUDA_LAUNCH_BLOCKING", "1")
    changed = environment_with({"CUDA_VISIBLE_DEVICES": None, "CUDA_MPS_CLIENT_PRIORITY": "1"})
    assert "CUDA_VISIBLE_DEVICES" not in changed
    assert (changed["CUDA_LAUNCH_BLOCKING"], changed["CUDA_MPS_CLIENT_PRIORITY"]) == ("1", "1")
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "1"
    assert environment_with({}) == dict(os.environ)


def test_our_own_environment_can_be_changed_before_anybody_reads_it(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    monkeypatch.setenv("CUDA_MPS_CLIENT_PRIORITY", "0")  # so that it is as before afterwards
    change_environment({"CUDA_VISIBLE_DEVICES": None, "CUDA_MPS_CLIENT_PRIORITY": "1", "CUDA_MODULE_LOADING": None})
    assert visible_devices() is None
    assert os.environ["CUDA_MPS_CLIENT_PRIORITY"] == "1"


def test_the_cache_is_the_users(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert compile_cache_directory() == tmp_path / "pega-tune" / "kernels"
    assert list(tmp_path.iterdir()) == []


def test_a_variable_moves_the_cache_or_turns_it_off(monkeypatch, tmp_path):
    monkeypatch.setenv("PEGA_TUNE_CACHE", "/data/cache")
    assert compile_cache_directory() == Path("/data/cache/kernels")
    monkeypatch.setenv("HOME", "/home/someone")
    monkeypatch.setenv("PEGA_TUNE_CACHE", "~/cache")
    assert compile_cache_directory() == Path("/home/someone/cache/kernels")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PEGA_TUNE_CACHE", "here")
    assert compile_cache_directory() == tmp_path / "here" / "kernels"
    for empty in ("", "  "):
        monkeypatch.setenv("PEGA_TUNE_CACHE", empty)
        assert compile_cache_directory() is None


def test_what_may_change_compiling_is_told(monkeypatch):
    before = compiler_variables()
    monkeypatch.setenv("NUMBA_OPT", "0")
    monkeypatch.setenv("CUDA_LAUNCH_BLOCKING", "1")
    assert set(compiler_variables()) == {*before, ("NUMBA_OPT", "0")}
    assert list(compiler_variables()) == sorted(compiler_variables())


def test_the_fleet_has_no_default(monkeypatch):
    monkeypatch.delenv("PEGA_TUNE_FLEET", raising=False)
    assert fleet_url() is None
    monkeypatch.setenv("PEGA_TUNE_FLEET", "postgresql://db.example/pega")
    assert fleet_url() == "postgresql://db.example/pega"
    assert fleet_url("/data/p.db") == "sqlite:////data/p.db"
