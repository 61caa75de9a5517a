"""What around a sweep bears on timing, and who runs it."""

import json
import os
import platform
import socket
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from typing import Protocol

from pega_tune.profiles.policy.settings import environment_record

PACKAGES = ("pega-tune", "numba", "numba-cuda", "cuda-bindings", "cuda-core", "numpy", "scipy")


class Clock(Protocol):
    """Where a sweep takes its times from."""

    def now(self) -> datetime:
        """The time of day, aware, UTC."""

    def seconds(self) -> float:
        """Seconds since some moment, never going back."""


class SystemClock:
    """The clocks of this host."""

    def now(self) -> datetime:
        """As `Clock.now`."""
        return datetime.now(UTC)

    def seconds(self) -> float:
        """As `Clock.seconds`."""
        return time.monotonic()


@dataclass(frozen=True, slots=True)
class Owner:
    """The process that runs a sweep, by default this one."""

    pid: int = field(default_factory=os.getpid)
    host: str = field(default_factory=socket.gethostname)


def environment_json() -> str:
    """Variables and package versions that bear on timing, as canonical JSON."""
    content = {
        "variables": environment_record().to_json(),
        "packages": {name: _version(name) for name in PACKAGES},
        "python": platform.python_version(),
    }
    return json.dumps(content, sort_keys=True, separators=(",", ":"))


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
