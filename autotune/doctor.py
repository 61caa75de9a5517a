"""What works on this machine, and what to do about what does not: one finding for each part on the way to a sweep."""

import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from importlib import metadata
from pathlib import Path

from pega_tune.autotune.compiler_check import CompilerError, check_compiler
from pega_tune.errors import DeviceError, PegaTuneError
from pega_tune.kernels import nvml, probe
from pega_tune.kernels.facts import DeviceFacts
from pega_tune.profiles.policy import settings
from pega_tune.profiles.policy.schema import SCHEMA_REVISION

_OLDEST_CAPABILITY = (7, 5)
_STAND_IN_CAPABILITY = (9, 0)  # what the compiler is tried with where no GPU names one
_PACKAGES = ("numba", "numba-cuda", "cuda-core", "cuda-bindings", "numpy", "scipy", "sqlalchemy", "alembic")
_TOOLCHAIN = ("nvidia-cuda-nvcc", "nvidia-nvjitlink")
_TOOLCHAIN_HINT = "install the one that fits the driver: pip install 'pega-tune[cu13]' or 'pega-tune[cu12]'"
_BREAKING = ("NUMBA_ENABLE_CUDASIM", "NUMBA_DISABLE_JIT")
_DISTORTING = ("CUDA_LAUNCH_BLOCKING", "CUDA_DEVICE_MAX_CONNECTIONS", "NUMBA_CUDA_DEBUGINFO")


class Status(StrEnum):
    """How a part is; a sweep on a GPU needs that none has failed."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Finding:
    """What was found out about one part.

    Attributes:
        part: its name.
        status: how it is.
        detail: one line.
        hint: what to do; empty if nothing is to be done.
    """

    part: str
    status: Status
    detail: str
    hint: str = ""


def examine(database: str) -> Iterator[Finding]:
    """Yields the findings as they are made; compiling takes some seconds.

    Args:
        database: its URL; it is looked at, never created or migrated.
    """
    yield Finding("python", Status.OK, f"{sys.version.split()[0]} ({sys.executable})")
    yield _packages()
    devices, driver = _driver()
    yield driver
    yield from map(_device, devices)
    yield from (_batched_copies(ordinal) for ordinal in range(len(devices)))
    yield _telemetry()
    yield _toolchain(devices)
    yield _variables()
    for capability in sorted({device.identity.compute_capability for device in devices}) or [_STAND_IN_CAPABILITY]:
        yield _compiler(capability)
    yield _database(database)


def _packages() -> Finding:
    versions = {name: _version(name) for name in _PACKAGES}
    missing = [name for name, version in versions.items() if version is None]
    if missing:
        return Finding(
            "packages", Status.FAILED, f"not installed: {', '.join(missing)}", "pip install 'pega-tune[cu13]'"
        )
    return Finding("packages", Status.OK, ", ".join(f"{name} {version}" for name, version in versions.items()))


def _driver() -> tuple[tuple[DeviceFacts, ...], Finding]:
    try:
        devices = probe.list_devices(settings.visible_devices())
    except DeviceError as error:
        return (), Finding("driver", Status.FAILED, error.message, error.hint)
    facts = devices[0].staleness
    return devices, Finding("driver", Status.OK, f"{facts.driver or 'version unknown'}, CUDA {facts.cuda or 'unknown'}")


def _device(facts: DeviceFacts) -> Finding:
    identity = facts.identity
    major, minor = identity.compute_capability
    detail = f"{facts.provenance.name} ({facts.uuid}), {identity.sm_count} SMs, compute capability {major}.{minor}"
    if identity.compute_capability < _OLDEST_CAPABILITY:
        return Finding("device", Status.FAILED, detail, "compute capability 7.5 or newer is needed")
    return Finding("device", Status.OK, detail)


def _batched_copies(ordinal: int) -> Finding:
    """They are tried in a process of their own, since drivers are known to crash and to hang in them."""
    try:
        from pega_tune.kernels.batch_probe import probe_batch

        support = probe_batch(ordinal)
    except ImportError as error:
        return Finding("batched copies", Status.WARNING, f"not tried on GPU {ordinal}: {error}")
    if support.supported:
        return Finding("batched copies", Status.OK, f"work on GPU {ordinal}, signature {support.signature}")
    hint = "sweeps work, and leave batch plans out"
    return Finding("batched copies", Status.WARNING, f"do not work on GPU {ordinal}: {support.reason}", hint)


def _telemetry() -> Finding:
    """NVML is not needed to measure, only to know under what conditions it was done."""
    hint = "sweeps work, but cannot tell clocks, throttling and other processes"
    try:
        library = nvml.Nvml(nvml.load())
        version = library.driver_version()
        library.close()
    except OSError as error:
        return Finding("telemetry", Status.WARNING, f"NVML cannot be loaded ({error})", hint)
    except nvml.NvmlError as error:
        return Finding("telemetry", Status.WARNING, f"NVML does not work ({error})", hint)
    return Finding("telemetry", Status.OK, f"NVML of driver {version}")


def _toolchain(devices: tuple[DeviceFacts, ...]) -> Finding:
    """A CUDA 13 compiler's code does not load into a driver of CUDA 12; within one major version it does."""
    versions = {name: _version(name) or _version(f"{name}-cu12") for name in _TOOLCHAIN}
    found = {name: version for name, version in versions.items() if version is not None}
    if len(found) < len(_TOOLCHAIN):
        detail = f"no wheel of {', '.join(sorted(set(_TOOLCHAIN) - set(found)))}; a toolkit on this machine may do"
        return Finding("toolchain", Status.WARNING, detail, _TOOLCHAIN_HINT)
    detail = ", ".join(f"{name} {version}" for name, version in found.items())
    driver = next((device.staleness.cuda for device in devices if device.staleness.cuda), None)
    newest = max(int(version.split(".")[0]) for version in found.values())
    if driver is not None and newest > int(driver.split(".")[0]):
        return Finding("toolchain", Status.FAILED, f"{detail}; the driver supports CUDA {driver}", _TOOLCHAIN_HINT)
    return Finding("toolchain", Status.OK, detail)


def _variables() -> Finding:
    values = settings.environment_record().to_json()
    active = {name for name, value in values.items() if value and value != "0"}
    breaking = sorted(active.intersection(_BREAKING))
    distorting = sorted(active.intersection(_DISTORTING))
    if breaking:
        detail = f"{', '.join(breaking)}: the kernels do not run natively"
        return Finding("variables", Status.FAILED, detail, f"unset {' '.join(breaking)}")
    if distorting:
        detail = f"{', '.join(distorting)}: timings will differ from those without"
        return Finding("variables", Status.WARNING, detail, f"unset {' '.join(distorting)}")
    return Finding("variables", Status.OK, "none that distort timings")


def _compiler(capability: tuple[int, int]) -> Finding:
    target = f"sm_{capability[0]}{capability[1]}"
    try:
        seconds = check_compiler(capability)
    except CompilerError as error:
        return Finding("compiler", Status.FAILED, f"{target}: {error.message}", error.hint or _TOOLCHAIN_HINT)
    return Finding("compiler", Status.OK, f"a copy kernel for {target} was compiled and linked in {seconds:.1f} s")


def _database(url: str) -> Finding:
    from pega_tune.profiles.store import migrate
    from pega_tune.profiles.store.revision import wrong_revision

    try:
        path = settings.sqlite_path(url)
        revision = migrate.current(url)
        if path is not None and not path.exists():
            return _future_database(path)
        if revision not in (None, SCHEMA_REVISION):
            raise wrong_revision(str(path or "the database"), revision)
    except PegaTuneError as error:
        return Finding("database", Status.FAILED, error.message, error.hint)
    except PermissionError as error:
        detail = f"{error.filename} cannot be reached: {error.strerror}"
        return Finding("database", Status.FAILED, detail, "name another with --db")
    return Finding("database", Status.OK, f"{path or 'the server'}, schema {revision or 'none yet'}")


def _future_database(path: Path) -> Finding:
    folder = next(parent for parent in path.absolute().parents if parent.exists())
    if folder.is_dir() and os.access(folder, os.W_OK | os.X_OK):
        return Finding("database", Status.OK, f"none yet; the first sweep makes {path}")
    reason = "writable" if folder.is_dir() else "a directory"
    detail = f"{path} cannot be made: {folder} is not {reason}"
    return Finding("database", Status.FAILED, detail, "name another with --db")


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
