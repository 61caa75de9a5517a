"""Kernels that are compiled ahead are there when they are asked for, and nothing is tried twice or for nothing."""

from pathlib import Path

import pytest

from pega_tune.kernels.compile_ahead import KERNELS, compile_ahead, compile_kernel
from pega_tune.kernels.compile_cache import NO_CACHE, CompileCache
from pega_tune.kernels.compiler import CompilerError
from pega_tune.kernels.plan import Variant

CAPABILITY = (9, 0)
FEW = ("step/pick", "step/combine")
NOTE = [".ahead"]


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def kinds(directory: Path) -> list[str]:
    """What lies there."""
    return sorted(path.suffix for path in directory.iterdir())


def test_what_is_compiled_ahead_is_found_when_it_is_asked_for(directory: Path) -> None:
    variables = (("A", "1"), ("B", "2"))
    compile_ahead(CAPABILITY, CompileCache(directory, variables), FEW)
    there = {path.name for path in directory.iterdir()}
    assert kinds(directory) == [*NOTE, ".cubin", ".cubin", ".ptx", ".ptx"]
    for kernel in FEW:
        assert compile_kernel(kernel, CAPABILITY, CompileCache(directory, variables)).startswith(b"\x7fELF")
    assert {path.name for path in directory.iterdir()} == there


def test_it_is_tried_once(directory: Path) -> None:
    cache = CompileCache(directory)
    compile_ahead(CAPABILITY, cache, FEW[:1], timeout_s=0.0)
    compile_ahead(CAPABILITY, cache, FEW[:1])
    assert kinds(directory) == NOTE
    compile_ahead(CAPABILITY, cache, FEW[1:])
    assert kinds(directory) == [*NOTE, *NOTE, ".cubin", ".ptx"]


def test_what_cannot_be_compiled_is_left_to_who_asks_for_it(directory: Path) -> None:
    cache = CompileCache(directory)
    compile_ahead((1, 0), cache, FEW[:1])
    assert kinds(directory) == NOTE
    with pytest.raises(CompilerError):
        compile_kernel(FEW[0], (1, 0), cache)


def test_nothing_is_compiled_that_cannot_be_kept(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for cache in (NO_CACHE, CompileCache(tmp_path / "file" / "cache")):
        compile_ahead(CAPABILITY, cache, ("no such kernel",) * 1000, timeout_s=1000)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_all_that_an_engine_loads_at_its_start_is_among_them() -> None:
    assert {f"{kind}/{variant}" for kind in ("copy", "timed") for variant in Variant} < set(KERNELS)
