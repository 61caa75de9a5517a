"""The one reader of environment variables: where the database and the cache are, and what bears on timing."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import platformdirs

from pega_tune.profiles.policy.errors import QuestionError
from pega_tune.profiles.policy.urls import require_file_name, require_url

DATABASE_VARIABLE = "PEGA_TUNE_DB"
DATABASE_FILE = "pega-tune.db"
FLEET_VARIABLE = "PEGA_TUNE_FLEET"
CACHE_VARIABLE = "PEGA_TUNE_CACHE"
VISIBLE_DEVICES_VARIABLE = "CUDA_VISIBLE_DEVICES"
MPS_PIPE_VARIABLE = "CUDA_MPS_PIPE_DIRECTORY"
MPS_LOG_VARIABLE = "CUDA_MPS_LOG_DIRECTORY"
MPS_THREADS_VARIABLE = "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"
MPS_PRIORITY_VARIABLE = "CUDA_MPS_CLIENT_PRIORITY"

TIMING_VARIABLES = (
    "CUDA_DEVICE_MAX_CONNECTIONS",
    "CUDA_DEVICE_MAX_COPY_CONNECTIONS",
    "CUDA_DEVICE_ORDER",
    "CUDA_DISABLE_PERF_BOOST",
    "CUDA_LAUNCH_BLOCKING",
    "CUDA_MODULE_LOADING",
    MPS_THREADS_VARIABLE,
    MPS_PRIORITY_VARIABLE,
    "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT",
    MPS_PIPE_VARIABLE,
    "CUDA_SCALE_LAUNCH_QUEUES",
    VISIBLE_DEVICES_VARIABLE,
    "NUMBA_CPU_NAME",
    "NUMBA_CUDA_DEBUGINFO",
    "NUMBA_DISABLE_JIT",
    "NUMBA_ENABLE_CUDASIM",
    "NUMBA_OPT",
)
"""Variables of the CUDA driver and of numba that change how fast, or whether, things run."""

_DEFAULT_MPS_PIPES = Path("/tmp/nvidia-mps")  # noqa: S108 - the default that NVIDIA's MPS documentation gives

_KERNELS = "kernels"

# Of numba, and of those by which libraries of a toolkit are found.
_COMPILER_PREFIXES = ("NUMBA_", "CUDA_HOME", "CUDA_PATH", "CONDA_PREFIX")

_SQLITE_SCHEMES = ("sqlite", "sqlite+pysqlite")
_HINT = "give a file, sqlite:///relative.db, sqlite:////absolute.db, or the URL of another database"


@dataclass(frozen=True, slots=True)
class EnvironmentRecord:
    """The variables that bear on timing, as (name, value) by name; None where a variable is not set."""

    variables: tuple[tuple[str, str | None], ...]

    def to_json(self) -> dict[str, str | None]:
        """The variables as a JSON object."""
        return dict(self.variables)


def database_url(option: str | None = None) -> str:
    """The SQLAlchemy URL of the database.

    Args:
        option: what the user said: a path or a URL. Without it `PEGA_TUNE_DB` is asked, and without that the database
            is a file in the per-user data directory. Nothing is created.

    Raises:
        QuestionError: not a usable database; an in-memory one is refused, since nothing could be found again.
    """
    given = option if option is not None else os.environ.get(DATABASE_VARIABLE) or None
    if given is None:
        return f"sqlite:///{platformdirs.user_data_path('pega-tune', appauthor=False) / DATABASE_FILE}"
    if "://" in given:
        sqlite_path(given)
        return given
    require_file_name(given)
    return f"sqlite:///{_checked(given, Path(given).expanduser())}"


def fleet_url(option: str | None = None) -> str | None:
    """The URL of the database that the hosts share: `option`, else `PEGA_TUNE_FLEET`; None without either.

    Raises:
        QuestionError: not a usable database.
    """
    given = option if option is not None else os.environ.get(FLEET_VARIABLE) or None
    return None if given is None else database_url(given)


def sqlite_path(url: str) -> Path | None:
    """The file behind an SQLite URL; None for every other kind of database.

    Raises:
        QuestionError: no URL at all, or an SQLite URL with options or without a usable file.
    """
    require_url(url)
    scheme, _, rest = url.partition("://")
    if scheme not in _SQLITE_SCHEMES:
        return None
    if "?" in rest:
        raise QuestionError(f"{url!r} has options, which are not supported in the URL of an SQLite file", _HINT)
    if rest and not rest.startswith("/"):
        raise QuestionError(f"{url!r} has two slashes where an SQLite URL has three or four", _HINT)
    return _checked(url, Path(rest[1:]))


def compile_cache_directory() -> Path | None:
    """Where compiled kernels are kept; nothing is created.

    Returns:
        A directory inside the one that `PEGA_TUNE_CACHE` names, or without it inside the per-user cache directory; None
        if the variable is empty, or there is no such directory.
    """
    given = os.environ.get(CACHE_VARIABLE)
    if given is not None and not given.strip():
        return None
    if given is not None:
        return Path(os.path.abspath(os.path.expanduser(given))) / _KERNELS
    path = platformdirs.user_cache_path("pega-tune", appauthor=False)
    return path / _KERNELS if path.is_absolute() else None  # without a home it begins with a tilde


def compiler_variables() -> tuple[tuple[str, str], ...]:
    """The variables that may change what compiling gives, as (name, value) by name."""
    found = ((name, value) for name, value in os.environ.items() if name.startswith(_COMPILER_PREFIXES))
    return tuple(sorted(found))


def visible_devices() -> str | None:
    """`CUDA_VISIBLE_DEVICES` as it is set, for messages; None if it is not."""
    return os.environ.get(VISIBLE_DEVICES_VARIABLE)


def environment_record() -> EnvironmentRecord:
    """The variables that bear on timing, as they are now."""
    return EnvironmentRecord(tuple((name, os.environ.get(name)) for name in TIMING_VARIABLES))


def mps_pipe_directory() -> Path:
    """Where a program that CUDA is started in looks for an MPS daemon, be there one or not."""
    return Path(os.environ.get(MPS_PIPE_VARIABLE) or _DEFAULT_MPS_PIPES)


def environment_with(changes: Mapping[str, str | None]) -> dict[str, str]:
    """The environment of a child process: ours, with some variables set, and those without a value not set."""
    kept = {name: value for name, value in os.environ.items() if name not in changes}
    return kept | {name: value for name, value in changes.items() if value is not None}


def change_environment(changes: Mapping[str, str | None]) -> None:
    """Sets some variables of this process, or unsets those without a value, before a library reads them."""
    for name, value in changes.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def _checked(given: str, path: Path) -> Path:
    name = str(path)
    if not given.strip() or name == ".":
        raise QuestionError(f"{given!r} names no database file", _HINT)
    if ":memory:" in name or name.startswith("file:"):
        raise QuestionError(f"{given!r} is not a plain file, and what is learnt has to last", _HINT)
    if "?" in name:
        raise QuestionError(f"{given!r} has a question mark, which a database URL cannot hold in a path", _HINT)
    return path
