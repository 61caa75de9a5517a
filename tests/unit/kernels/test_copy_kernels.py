"""The copy kernels: the source over a modelled memory, the PTX and its digest for every architecture, the cubin."""

import os
import re
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from cuda.bindings.nvjitlink import nvJitLinkError
from cuda.pathfinder import DynamicLibNotFoundError
from hypothesis import given
from hypothesis import strategies as st
from numba.cuda.cudadrv.error import NvvmError, NvvmSupportError

import pega_tune
from pega_tune.kernels.compile_cache import NO_CACHE
from pega_tune.kernels.compiler import CompilerError, compiler_error
from pega_tune.kernels.compiling import (
    compile_ptx,
    compile_timed_ptx,
    kernel_digest,
    kernel_name,
    link_cubin,
)
from pega_tune.kernels.copy_kernels import DESCRIPTOR_BYTES, UNROLL, build_copy_range, build_copy_ranges
from pega_tune.kernels.plan import Variant
from tests.helpers.byte_memory import ByteMemory, shares
from tests.helpers.ptx_reader import Run, access_runs, assemble

CAPABILITIES = ((7, 5), (8, 0), (8, 6), (8, 9), (9, 0), (10, 0), (12, 0))
every_kernel = [
    pytest.param(variant, capability, id=f"{variant}-sm_{capability[0]}{capability[1]}")
    for variant in Variant
    for capability in CAPABILITIES
]
sizes = st.integers(0, 100) | st.integers(0, 10_000) | st.sampled_from([16 << i for i in range(10)])
team_sizes = st.sampled_from([32, 96, 256])


def uncompiled(function):
    return function


def ptx_of(variant, capability):
    """Compiled once for all tests: asked for as `kernel_digest` does."""
    return compile_ptx(variant, capability, NO_CACHE)


def arch(capability: tuple[int, int]) -> str:
    return f"sm_{capability[0]}{capability[1]}"


@given(nbytes=sizes, dst_offset=st.integers(0, 31), src_offset=st.integers(0, 31), threads=team_sizes)
def test_a_range_of_any_size_and_alignment_is_copied_once_and_nothing_else_is_touched(
    nbytes, dst_offset, src_offset, threads
):
    source = os.urandom(nbytes)
    dst, src = 32 + dst_offset, 32 * (4 + nbytes // 32) + src_offset
    before = bytes(src) + source + bytes(32)
    memory = ByteMemory(before)
    copy_range = build_copy_range(memory.accesses(), uncompiled)
    for rank in range(threads):
        copy_range(dst, src, nbytes, rank, threads)
    assert memory.content == before[:dst] + source + before[dst + nbytes :]
    assert memory.writes == [dst <= address < dst + nbytes for address in range(len(before))]


@given(
    lengths=st.lists(st.integers(0, 600), max_size=12),
    gap=st.integers(0, 17),
    teams=st.integers(1, 5),
    threads=team_sizes,
)
def test_a_launch_copies_every_range_once(lengths, gap, teams, threads):
    table = 64
    dst = table + DESCRIPTOR_BYTES * len(lengths)
    src = dst + sum(lengths) + gap * len(lengths)
    source = os.urandom(sum(lengths))
    expected = bytearray(bytes(src) + source)
    for index, length in enumerate(lengths):
        struct.pack_into("<3Q", expected, table + DESCRIPTOR_BYTES * index, dst, src, length)
        dst, src = dst + length + gap, src + length
    memory = ByteMemory(bytes(expected))
    for index in range(len(lengths)):
        to, start, length = struct.unpack_from("<3Q", expected, table + DESCRIPTOR_BYTES * index)
        expected[to : to + length] = expected[start : start + length]

    copy_ranges = build_copy_ranges(memory.accesses(), uncompiled)
    for share in shares(teams, threads):
        copy_ranges(table, len(lengths), share)
    assert memory.content == expected
    assert sum(memory.writes) == sum(lengths)


@pytest.mark.parametrize(("variant", "capability"), every_kernel)
def test_the_entry_takes_two_64_bit_arguments(variant, capability):
    ptx = ptx_of(variant, capability)
    assert f".target {arch(capability)}\n" in ptx
    entry = re.search(r"\.visible \.entry (\w+)\(([^)]*)\)", ptx)
    assert entry
    assert entry[1] == kernel_name(variant)
    assert re.findall(r"\.param \.(\w+)", entry[2]) == ["u64", "u64"]


@pytest.mark.parametrize(("variant", "capability"), every_kernel)
@pytest.mark.parametrize("suffix", ["v2.u64", "u64", "u32", "u8"])
def test_all_loads_of_a_pass_are_issued_before_its_first_store(variant, capability, suffix):
    runs = access_runs(ptx_of(variant, capability), suffix)
    passes = [block for block in runs if max(run.count for run in block) == UNROLL]
    full = (Run("ld", False, UNROLL), Run("st", False, UNROLL))
    last = (Run("ld", True, UNROLL), Run("st", True, UNROLL))
    assert sorted(passes, key=str) == [full, last]


@pytest.mark.parametrize(("variant", "capability"), every_kernel)
def test_the_other_accesses_are_single_conditional_ones(variant, capability):
    """Bytes at the edges of a range: one load and one store beside each body wider than a byte."""
    runs = access_runs(ptx_of(variant, capability), "u8")
    edges = [run for block in runs for run in block if run.count != UNROLL]
    assert sorted(edges, key=str) == [Run("ld", True, 1)] * 3 + [Run("st", True, 1)] * 3


@pytest.mark.parametrize(("variant", "capability"), every_kernel)
def test_the_next_descriptor_is_fetched_before_the_current_range_is_copied(variant, capability):
    ptx = ptx_of(variant, capability)
    fetches = [block for block in access_runs(ptx, "u64") if block == (Run("ld", True, 3),)]
    assert len(fetches) == 2
    assert ptx.rindex("ld.global.u64") < ptx.index("ld.global.L1::no_allocate")


@pytest.mark.parametrize(("variant", "capability"), every_kernel)
def test_1024_threads_can_be_launched_and_nothing_spills(variant, capability, tmp_path):
    ptx = ptx_of(variant, capability)
    usage = assemble(ptx, arch(capability), tmp_path)
    assert usage.registers <= 65_536 // 1024
    assert (usage.stack_bytes, usage.spill_bytes) == (0, 0)
    assert ".local" not in ptx
    assert "call" not in ptx


@pytest.mark.parametrize(("variant", "capability"), every_kernel)
def test_the_timed_variant_is_the_kernel_between_two_stamps(variant, capability, tmp_path):
    ptx = compile_timed_ptx(variant, capability)
    entry = re.search(r"\.visible \.entry (\w+)\(([^)]*)\)", ptx)
    assert entry
    assert entry[1] == kernel_name(variant, timed=True)
    assert re.findall(r"\.param \.(\w+)", entry[2]) == ["u64"] * 3
    stamp = re.compile(r"mov\.u64 (%rd\d+), %globaltimer;\n(?:[a-z].*\n)*\{.* @p st\.global\.u64 \[%rd\d+\], \1; \}")
    begin, end = (match.start() for match in stamp.finditer(ptx))
    assert ptx.count("%globaltimer") == 2
    assert begin < ptx.index("ld.global")
    assert ptx.rindex("ld.global") < ptx.rindex("bar.sync") < end
    assert ptx.count("bar.sync") == 1
    assert ptx.rindex("bra") < ptx.rindex("bar.sync"), "some thread could miss the barrier"
    for suffix in ("v2.u64", "u32", "u8"):
        assert access_runs(ptx, suffix) == access_runs(ptx_of(variant, capability), suffix)
    usage = assemble(ptx, arch(capability), tmp_path)
    assert usage.registers <= 65_536 // 1024
    assert (usage.stack_bytes, usage.spill_bytes) == (0, 0)


@pytest.mark.parametrize(("variant", "capability"), every_kernel)
def test_the_kernels_themselves_know_nothing_of_time(variant, capability):
    ptx = ptx_of(variant, capability)
    assert "globaltimer" not in ptx
    assert "bar." not in ptx


def test_the_digest_is_that_of_any_process_and_any_checkout(tmp_path):
    shutil.copytree(
        Path(pega_tune.__file__).parent, tmp_path / "pega_tune", ignore=shutil.ignore_patterns("__pycache__")
    )
    program = (
        "from pega_tune.kernels.compiling import compile_ptx, kernel_digest, __file__ as where\n"
        "from pega_tune.kernels.plan import Variant\n"
        "compile_ptx(Variant.WARP, (8, 0))\n"
        "print(where, kernel_digest((9, 0)))"
    )
    environment = os.environ | {"PYTHONPATH": str(tmp_path), "PYTHONHASHSEED": "1", "PYTHONSAFEPATH": "1"}
    ran = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True, env=environment)
    where, digest = ran.stdout.split()
    assert Path(where).is_relative_to(tmp_path)
    assert digest == kernel_digest((9, 0))


def test_the_digest_and_the_ptx_tell_kernels_and_devices_apart():
    assert len({kernel_digest(capability) for capability in CAPABILITIES}) == len(CAPABILITIES)
    block, warp = (ptx_of(variant, (9, 0)).splitlines()[4:] for variant in Variant)
    assert block != warp


@pytest.mark.parametrize("variant", Variant)
def test_the_cubin_is_an_image_with_the_entry_point(variant):
    image = link_cubin(ptx_of(variant, (9, 0)), (9, 0))
    assert image.startswith(b"\x7fELF")
    assert b".text." + kernel_name(variant).encode() + b"\0" in image


def test_a_device_that_the_compiler_does_not_know_is_refused():
    with pytest.raises(CompilerError, match=r"^NVVM cannot compile for compute capability 3\.0: .*>=") as caught:
        ptx_of(Variant.WARP, (3, 0))
    assert "pega-tune[cu13]" in caught.value.hint


@pytest.mark.parametrize(
    ("version", "capability", "reason"),
    [
        (".version 99.0", (9, 0), r"Unsupported \.version"),
        (".version 8.0", (7, 5), "higher"),
        (".version 8.0", (3, 0), "ARCH"),
    ],
)
def test_ptx_that_the_linker_cannot_take_is_refused_in_one_line(version, capability, reason):
    ptx = re.sub(r"\.version \S+", version, ptx_of(Variant.WARP, (9, 0)))
    with pytest.raises(CompilerError, match=rf"^nvJitLink cannot compile for .*{reason}") as caught:
        link_cubin(ptx, capability)
    assert "\n" not in caught.value.message
    assert "nvidia-nvjitlink" in caught.value.hint


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (
            DynamicLibNotFoundError('Failure finding "libnvvm.so.4 or so": No such file\nlong'),
            "libnvvm.so.4 is missing",
        ),
        (NvvmSupportError("libNVVM is not available"), "libnvvm is missing"),
        (
            NvvmError("NVVM_ERROR_COMPILATION", "no\n"),
            "NVVM cannot compile for compute capability 9.0: NVVM_ERROR_COMPILATION no",
        ),
        (nvJitLinkError(4), "nvJitLink cannot compile for compute capability 9.0: ERROR_PTX_COMPILE (4)"),
    ],
)
def test_every_failure_of_the_toolchain_is_one_line_with_a_hint(error, message):
    mapped = compiler_error(error, (9, 0))
    assert (mapped.message, mapped.code) == (message, "compiler")
    assert "pega-tune[cu12]" in mapped.hint
