"""The names under which compiled kernels are kept: digests of everything that decides what they are."""

import hashlib
import json
import os
import sys
from collections.abc import Iterator
from functools import cache, lru_cache
from importlib import metadata
from pathlib import Path
from typing import Final, TypeAlias

from cuda.pathfinder import load_nvidia_dynamic_lib

_VERSION: Final = 1
"""Of how names are made and what is kept under them."""

_PACKAGES: Final = (
    "numba",
    "numba-cuda",
    "llvmlite",
    "numpy",
    "cuda-core",
    "cuda-bindings",
    "cuda-pathfinder",
    "cuda-toolkit",
    *(f"nvidia-{part}{suffix}" for part in ("cuda-nvcc", "cuda-nvrtc", "nvjitlink") for suffix in ("", "-cu12")),
    "nvidia-nvvm",
)

_LIBRARIES: Final = ("nvvm", "nvJitLink")  # which need not come from a package

_SOURCES: Final = Path(__file__).resolve().parent

_Stamp: TypeAlias = tuple[str, int, int]


def key_of(*inputs: object) -> str:
    """64 hexadecimal digits for inputs that JSON can tell apart, and for the compiler."""
    text = json.dumps([_VERSION, toolchain(), inputs])
    return hashlib.sha256(text.encode()).hexdigest()


@cache
def toolchain() -> tuple[str, ...]:
    """The interpreter, and the compiler's packages and libraries, as far as they are there."""
    return sys.version, *map(_package, _PACKAGES), *map(_library, _LIBRARIES)


def sources_digest(root: Path = _SOURCES) -> str:
    """SHA-256 of all modules of this package as they lie on disk now.

    More of them than a kernel is made of; but whoever made a list would forget one.

    Raises:
        OSError: they cannot be read.
    """
    stamps = tuple(_stamps(root))
    if not stamps:
        raise FileNotFoundError(f"no sources in {root}")
    return _digest(root, stamps)


@lru_cache(maxsize=4)
def _digest(root: Path, stamps: tuple[_Stamp, ...]) -> str:
    digest = hashlib.sha256()
    for name, *_ in stamps:
        content = (root / name).read_bytes()
        digest.update(f"{name} {len(content)}\n".encode())
        digest.update(content)
    return digest.hexdigest()


def _stamps(root: Path) -> Iterator[_Stamp]:
    """Name, size and time of change of every module."""
    for path in sorted(root.rglob("*.py")):
        about = path.stat()
        yield str(path.relative_to(root)), about.st_size, about.st_mtime_ns


def _package(name: str) -> str:
    try:
        return f"{name} {metadata.version(name)}"
    except metadata.PackageNotFoundError:
        return f"no {name}"


def _library(name: str) -> str:
    try:
        path = os.path.realpath(str(load_nvidia_dynamic_lib(name).abs_path))
        about = os.stat(path)
    except (OSError, RuntimeError):  # compiling will say what is missing
        return f"no {name}"
    return f"{path} {about.st_size} {about.st_mtime_ns}"
