"""Names of compiled kernels: what changes them, and what a hit spares."""

import itertools
import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from pega_tune.kernels import compile_key
from pega_tune.kernels.compile_cache import CompileCache
from pega_tune.kernels.compile_key import key_of, sources_digest, toolchain
from pega_tune.kernels.compiling import kernel_ptx, link_cubin
from pega_tune.kernels.decode.compiling import compile_step_kernel
from pega_tune.kernels.decode.launches import StepKernel
from pega_tune.kernels.recipe import Recipe

RECIPE = Recipe("pega_nothing", (9, 0), 256)


def nothing(address: int, count: int) -> None:
    """A kernel."""


class ImportedError(Exception):
    """A source was asked for."""


def missing():
    raise ImportedError


def test_every_input_changes_the_key():
    inputs = ((), ("a",), ("b",), ("a", "b"), ("ab",), (("a", "b"),), (1,), ("1",), ((9, 0),), ((90,),))
    keys = [key_of(*given) for given in inputs]
    assert len(set(keys)) == len(inputs)
    assert all(len(key) == 64 for key in keys)
    assert keys == [key_of(*given) for given in inputs]


def test_the_toolchain_names_what_is_installed_and_its_libraries():
    found = toolchain()
    assert sys.version in found
    for name in ("numba", "numba-cuda", "cuda-core", "cuda-bindings"):
        assert f"{name} {metadata.version(name)}" in found
    nvvm, linker = found[-2:]
    assert Path(nvvm.rsplit(" ", 2)[0]).name.startswith("libnvvm")
    assert Path(linker.rsplit(" ", 2)[0]).name.startswith("libnvJitLink")


def test_every_change_of_a_source_changes_the_digest(tmp_path):
    def write(name: str, text: str) -> str:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
        return sources_digest(tmp_path)

    first = write("a.py", "x = 1\n")
    digests = [first, write("a.py", "x = 12\n"), write("sub/b.py", ""), write("sub/b.py", "y"), write("c.py", "")]
    for one, two in itertools.combinations(digests, 2):
        assert one != two
    assert write("notes.txt", "no source") == digests[-1]
    (tmp_path / "c.py").unlink()
    assert sources_digest(tmp_path) == digests[-2]


def test_an_edit_that_keeps_the_size_is_seen(tmp_path):
    source = tmp_path / "a.py"
    source.write_text("x = 1\n")
    first = sources_digest(tmp_path)
    source.write_text("x = 2\n")
    os.utime(source, ns=(1, source.stat().st_mtime_ns + 1))
    assert sources_digest(tmp_path) != first


def test_without_sources_there_is_no_digest(tmp_path):
    with pytest.raises(FileNotFoundError):
        sources_digest(tmp_path)


def test_the_digest_is_of_this_package():
    assert sources_digest() == sources_digest(Path(compile_key.__file__).resolve().parent)


def test_a_hit_gives_the_very_text_and_imports_no_source(tmp_path):
    cache = CompileCache(tmp_path / "kernels")
    made = kernel_ptx(lambda: nothing, RECIPE, cache)
    assert kernel_ptx(missing, RECIPE, cache) == made
    assert kernel_ptx(lambda: nothing, RECIPE) == made
    cubin = link_cubin(made, RECIPE.compute_capability, cache)
    assert link_cubin(made, RECIPE.compute_capability, cache) == cubin
    assert link_cubin(made, RECIPE.compute_capability) == cubin
    assert sorted(path.suffix for path in (tmp_path / "kernels").iterdir()) == [".cubin", ".ptx"]


@pytest.mark.parametrize(
    ("recipe", "variables"),
    [
        (Recipe("pega_other", (9, 0), 256), ()),
        (Recipe("pega_nothing", (8, 0), 256), ()),
        (Recipe("pega_nothing", (9, 0), 512), ()),
        (Recipe("pega_nothing", (9, 0), (256, 4)), ()),
        (RECIPE, (("NUMBA_OPT", "0"),)),
    ],
)
def test_whatever_else_is_asked_for_is_compiled(tmp_path, recipe, variables):
    kernel_ptx(lambda: nothing, RECIPE, CompileCache(tmp_path / "kernels"))
    with pytest.raises(ImportedError):
        kernel_ptx(missing, recipe, CompileCache(tmp_path / "kernels", variables))


def test_another_process_finds_a_kernel_without_importing_the_compiler(tmp_path):
    cache = CompileCache(tmp_path / "kernels")
    ptx = compile_step_kernel(StepKernel.PICK, (9, 0), cache)
    cubin = link_cubin(ptx, (9, 0), cache)
    program = (
        "import hashlib, sys\nfrom pathlib import Path\n"
        "from pega_tune.kernels.compile_cache import CompileCache\n"
        "from pega_tune.kernels.compiling import link_cubin\n"
        "from pega_tune.kernels.decode.compiling import compile_step_kernel\n"
        "from pega_tune.kernels.decode.launches import StepKernel\n"
        "cache = CompileCache(Path(sys.argv[1]))\n"
        "ptx = compile_step_kernel(StepKernel.PICK, (9, 0), cache)\n"
        "sys.stdout.write(ptx + link_cubin(ptx, (9, 0), cache).hex())\n"
        "print([name for name in ('numba', 'cuda.core', 'pega_tune.kernels.decode.kernels') if name in sys.modules])"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "kernels")]
    ran = subprocess.run(command, check=True, capture_output=True, text=True)
    assert ran.stdout == ptx + cubin.hex() + "[]\n"
