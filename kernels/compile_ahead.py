"""All kernels of a device, compiled by several processes at once before they are asked for one after the other."""

import json
import os
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final

from pega_tune.kernels.compile_cache import CompileCache
from pega_tune.kernels.compile_key import key_of, sources_digest
from pega_tune.kernels.compiling import compile_ptx, compile_timed_ptx, link_cubin
from pega_tune.kernels.decode.compiling import compile_step_kernel
from pega_tune.kernels.decode.launches import kernels_of
from pega_tune.kernels.decode.models import StepKind
from pega_tune.kernels.interpreter import command_of, die_with
from pega_tune.kernels.plan import Variant
from pega_tune.kernels.recipe import ComputeCapability

TIMEOUT_S: Final = 60.0
"""For all of them; a kernel takes some two seconds, beside one for importing the compiler."""

_MOST_PROCESSES: Final = 16  # there are about as many kernels
_REAP_S: Final = 5.0

_MAKERS: Final[Mapping[str, Callable[[ComputeCapability, CompileCache], str]]] = {
    **{f"copy/{variant}": partial(compile_ptx, variant) for variant in Variant},
    **{f"timed/{variant}": partial(compile_timed_ptx, variant) for variant in Variant},
    **{f"step/{kernel}": partial(compile_step_kernel, kernel) for kernel in kernels_of(StepKind.DECODE)},
}

KERNELS: Final = tuple(_MAKERS)
"""What is compiled: copy kernels, their timed variants, and those of a decode step."""


def compile_ahead(
    compute_capability: ComputeCapability,
    cache: CompileCache,
    kernels: Sequence[str] = KERNELS,
    timeout_s: float = TIMEOUT_S,
) -> None:
    """Has a cache hold the kernels, if it can and never had them; who asks for one later finds it there, or compiles.

    That is why nothing is said of what goes wrong.

    Args:
        compute_capability: (major, minor) of the device.
        cache: where they are kept.
        kernels: of `KERNELS`.
        timeout_s: after which those that still compile are given up, in seconds.
    """
    if cache.directory is None or not _is_news(cache, compute_capability, kernels):
        return
    count = min(len(kernels), len(os.sched_getaffinity(0)), _MOST_PROCESSES)
    where = str(cache.directory), json.dumps(cache.variables), json.dumps(compute_capability)
    children: list[subprocess.Popen[bytes]] = []
    deadline_s = time.monotonic() + timeout_s
    try:
        with suppress(OSError):
            for number in range(count):
                children.append(_start(*where, *kernels[number::count]))
        with suppress(subprocess.TimeoutExpired):
            for child in children:
                child.wait(max(0.0, deadline_s - time.monotonic()))
    finally:
        for child in children:
            _end(child)


def answer(parent_pid: str, directory: str, variables: str, compute_capability: str, *kernels: str) -> None:
    """The side of a child: compiles its share.

    Args:
        parent_pid: of the process that is to outlive this one.
        directory: of the cache.
        variables: of the cache, as JSON.
        compute_capability: of the device, as JSON.
        kernels: of `KERNELS`.
    """
    die_with(int(parent_pid))
    cache = CompileCache(Path(directory), tuple((name, value) for name, value in json.loads(variables)))
    major, minor = json.loads(compute_capability)
    for kernel in kernels:
        compile_kernel(kernel, (major, minor), cache)


def compile_kernel(kernel: str, compute_capability: ComputeCapability, cache: CompileCache) -> bytes:
    """The machine code of one of `KERNELS`, out of the cache or compiled.

    Raises:
        CompilerError: a part of the compiler is missing, or does not support the device.
    """
    return link_cubin(_MAKERS[kernel](compute_capability, cache), compute_capability, cache)


def _is_news(cache: CompileCache, *what: object) -> bool:
    """Whether the cache is told for the first time, and remembers it: else it would all be for nothing, every time."""
    told: list[object] = []

    def name() -> str:
        return key_of("ahead", sources_digest(), cache.variables, what) + ".ahead"

    def note() -> bytes:
        told.append(what)
        return b""

    for _ in range(2):
        cache.kept(name, note)
    return len(told) == 1


def _start(*arguments: str) -> "subprocess.Popen[bytes]":
    quiet = subprocess.DEVNULL
    command = command_of(__name__, "answer", str(os.getpid()), *arguments)
    return subprocess.Popen(command, stdin=quiet, stdout=quiet, stderr=quiet)  # noqa: S603 - our own code


def _end(child: "subprocess.Popen[bytes]") -> None:
    if child.poll() is None:
        child.kill()
        with suppress(subprocess.TimeoutExpired):
            child.wait(_REAP_S)
