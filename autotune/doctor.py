"""What works on this machine, and what to do about what does not: one finding for each part on the way to a sweep."""

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import TypeAlias

from pega_tune.autotune.capability_findings import findings_of
from pega_tune.autotune.compiler_check import CompilerError, check_compiler
from pega_tune.autotune.devices import find_device
from pega_tune.autotune.engine import Capabilities
from pega_tune.autotune.findings import Finding, Status
from pega_tune.autotune.isolated import IsolatedEngine
from pega_tune.autotune.isolation.messages import RemoteError
from pega_tune.autotune.verify.findings import profile_findings
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
_PACKAGES_HINT = "pip install 'pega-tune[cu13]'"
_BREAKING = ("NUMBA_ENABLE_CUDASIM", "NUMBA_DISABLE_JIT")
_DISTORTING = (
    "CUDA_LAUNCH_BLOCKING",
    "CUDA_DEVICE_MAX_CONNECTIONS",
    "NUMBA_CUDA_DEBUGINFO",
    # A client of an MPS daemon gets fewer SMs by it, or waits for others; without a daemon nobody reads them.
    settings.MPS_THREADS_VARIABLE,
    settings.MPS_PRIORITY_VARIABLE,
)
_HARMLESS = ((settings.MPS_THREADS_VARIABLE, "100"),)


Ask: TypeAlias = Callable[[DeviceFacts], Capabilities]
"""Starts the engine of a device, and asks it; raises `DeviceError`."""


@dataclass(frozen=True, slots=True)
class Examination:
    """What was found out.

    Attributes:
        findings: one for each part.
        capabilities: of the devices whose engine starts, by their UUID.
    """

    findings: tuple[Finding, ...]
    capabilities: Mapping[str, Capabilities]

    @property
    def usable(self) -> bool:
        """Whether a GPU can be swept here."""
        return all(finding.status is not Status.FAILED for finding in self.findings)


def examine(database: str) -> Examination:
    """Looks at everything; compiling, and starting the engine of every GPU, take some seconds each.

    A profile whose device has changed since it was measured is verified, which takes some seconds, too.

    Args:
        database: its URL; it is never created or migrated, and all that is added is what a verification found.
    """
    devices, driver = _driver()
    capabilities, findings = examine_devices(devices)
    return Examination((*_before(driver), *findings, *_after(devices, database)), capabilities)


def examine_devices(
    devices: tuple[DeviceFacts, ...], ask: Ask | None = None
) -> tuple[dict[str, Capabilities], tuple[Finding, ...]]:
    """What the engines of devices can do, by UUID, and what is found about each device.

    Args:
        devices: in CUDA's order.
        ask: asks an engine; None starts the real one.
    """
    capabilities: dict[str, Capabilities] = {}
    findings: list[Finding] = []
    for ordinal, facts in enumerate(devices):
        name = f"GPU {ordinal}"
        findings.append(_device(facts))
        if findings[-1].status is Status.FAILED:
            continue
        found = _engine(name, facts, ask or ask_engine)
        if isinstance(found, Finding):
            findings.append(found)
        else:
            capabilities[facts.uuid] = found
            findings += findings_of(name, found)
    return capabilities, tuple(findings)


def _before(driver: Finding) -> Iterator[Finding]:
    yield Finding("python", Status.OK, f"{sys.version.split()[0]} ({sys.executable})")
    yield _packages()
    yield driver


def _after(devices: tuple[DeviceFacts, ...], database: str) -> Iterator[Finding]:
    yield _telemetry()
    yield _toolchain(devices)
    yield _variables()
    for capability in sorted({device.identity.compute_capability for device in devices}) or [_STAND_IN_CAPABILITY]:
        yield _compiler(capability)
    yield _cache()
    yield _database(database)
    yield from profile_findings(devices, database)


def _packages() -> Finding:
    versions = {name: _version(name) for name in _PACKAGES}
    missing = [name for name, version in versions.items() if version is None]
    if missing:
        return Finding("packages", Status.FAILED, f"not installed: {', '.join(missing)}", _PACKAGES_HINT)
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


def _engine(name: str, facts: DeviceFacts, ask: Ask) -> Capabilities | Finding:
    """What the engine of a device can do, or why it does not start."""
    try:
        return ask(facts)
    except DeviceError as error:
        return Finding("engine", Status.FAILED, f"{name}: {error.message}", error.hint)
    except RemoteError as error:  # a package that is missing or broken, for instance
        return Finding("engine", Status.FAILED, f"{name}: {str(error).strip().splitlines()[-1]}", _PACKAGES_HINT)


def ask_engine(facts: DeviceFacts) -> Capabilities:
    """Starts the engine of a device in a process of its own, as a sweep does.

    Raises:
        DeviceError: it does not start.
    """
    choice = find_device(facts.uuid)
    with closing(IsolatedEngine(choice.factory, choice.timeouts)) as engine:
        return engine.capabilities()


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
    active = {name for name, value in values.items() if value and value != "0" and (name, value) not in _HARMLESS}
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
    obstacle = _obstacle(path)
    if not obstacle:
        return Finding("database", Status.OK, f"none yet; the first sweep makes {path}")
    return Finding("database", Status.FAILED, f"{path} cannot be made: {obstacle}", "name another with --db")


def _cache() -> Finding:
    """Without a place for them kernels work, and are compiled every time."""
    path = settings.compile_cache_directory()
    if path is None:
        return Finding("cache", Status.OK, f"compiled kernels are not kept; {settings.CACHE_VARIABLE} names a place")
    obstacle = _obstacle(path / "kernel")
    if not obstacle:
        return Finding("cache", Status.OK, f"compiled kernels are kept in {path}")
    detail = f"{path} cannot be used: {obstacle}; kernels are compiled anew in every process"
    return Finding("cache", Status.WARNING, detail, f"name another directory with {settings.CACHE_VARIABLE}")


def _obstacle(path: Path) -> str:
    """Why a file cannot be made, one line; empty if it can, with the directories above it."""
    folder = next(parent for parent in path.absolute().parents if parent.exists())
    if folder.is_dir() and os.access(folder, os.W_OK | os.X_OK):
        return ""
    return f"{folder} is not {'writable' if folder.is_dir() else 'a directory'}"


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
