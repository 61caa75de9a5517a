"""The step kernels: the PTX for every architecture, the cubin."""

import re

import pytest

from pega_tune.kernels.compiling import link_cubin
from pega_tune.kernels.copy_kernels import UNROLL
from pega_tune.kernels.decode.compiling import compile_step_kernel, ctas_per_sm, step_kernel_name
from pega_tune.kernels.decode.geometry import CTAS_PER_SM, LANE_LOADS, LANE_UNITS, PRODUCT_SHARED_PERCENT
from pega_tune.kernels.decode.kernels import STEP_KERNELS
from pega_tune.kernels.decode.launches import StepKernel, threads_of
from tests.helpers.ptx_reader import Run, access_runs, assemble

CAPABILITIES = ((7, 5), (8, 0), (8, 6), (8, 9), (9, 0), (10, 0), (12, 0))
SUMMING = (StepKernel.READ_CACHE, StepKernel.MERGE, StepKernel.MULTIPLY, StepKernel.PICK)
REGISTERS = 65_536  # of an SM, from sm_75 on: CUDA C++ Programming Guide, "Technical Specifications"


def on_every_device(*kernels: StepKernel):
    cases = [
        pytest.param(kernel, capability, id=f"{kernel}-sm_{capability[0]}{capability[1]}")
        for kernel in kernels
        for capability in CAPABILITIES
    ]
    return pytest.mark.parametrize(("kernel", "capability"), cases)


@on_every_device(*StepKernel)
def test_every_argument_is_64_bits_wide(kernel, capability):
    ptx = compile_step_kernel(kernel, capability)
    entry = re.search(r"\.visible \.entry (\w+)\(([^)]*)\)", ptx)
    assert entry
    assert entry[1] == step_kernel_name(kernel)
    count = STEP_KERNELS[kernel].__code__.co_argcount
    assert re.findall(r"\.param \.(\w+)", entry[2]) == ["u64"] * count


@on_every_device(*SUMMING)
def test_as_many_loads_as_a_pass_has_are_in_flight(kernel, capability):
    loads = [run for block in access_runs(compile_step_kernel(kernel, capability), "v2.u64") for run in block]
    full = [run.count for run in loads if run.kind == "ld" and not run.conditional]
    assert full
    assert all(count % UNROLL == 0 for count in full)
    assert Run("ld", True, UNROLL) in loads


@on_every_device(StepKernel.MULTIPLY_VECTOR)
def test_all_loads_of_a_pass_are_on_their_way_before_the_first_product(kernel, capability):
    ptx = compile_step_kernel(kernel, capability)
    assert access_runs(ptx, "v2.u64") == [(Run("ld", True, LANE_LOADS + LANE_UNITS),)]
    assert ptx.count("ld.global.L1::no_allocate.v2.u64") == LANE_LOADS
    assert ptx.count("ld.global.v2.u64") == LANE_UNITS
    assert ptx.count("fma.rn.f32") == LANE_LOADS * 8
    assert ptx.rindex("ld.global") < ptx.index("fma.rn.f32")


@on_every_device(StepKernel.ADD_PARTS)
def test_parts_are_added_when_all_warps_have_theirs(kernel, capability):
    before, barrier, after = re.split(r"(bar(?:rier)?\.sync\S*)", compile_step_kernel(kernel, capability), maxsplit=1)
    assert barrier
    assert before.count("ld.global") == 1
    assert "st.global" not in before
    assert after.count("st.global.u32") == 1


@on_every_device(*StepKernel)
def test_a_full_wave_fits_and_nothing_spills(kernel, capability, tmp_path):
    ptx = compile_step_kernel(kernel, capability)
    usage = assemble(ptx, f"sm_{capability[0]}{capability[1]}", tmp_path)
    assert usage.registers * threads_of(kernel) * ctas_per_sm(kernel) <= REGISTERS
    assert (usage.stack_bytes, usage.spill_bytes) == (0, 0)
    assert ".local" not in ptx
    assert "call" not in ptx


@on_every_device(StepKernel.MULTIPLY_VECTOR)
def test_a_product_has_an_sm_for_itself(kernel, capability, tmp_path):
    usage = assemble(compile_step_kernel(kernel, capability), f"sm_{capability[0]}{capability[1]}", tmp_path)
    assert ctas_per_sm(kernel) == 1 < CTAS_PER_SM
    # Of the shared memory that a CTA may have, two halves and what the driver takes for each are more than an SM has;
    # sm_75, where it takes nothing, holds two of exactly a half.
    assert 2 * usage.registers * threads_of(kernel) > REGISTERS or PRODUCT_SHARED_PERCENT > 50


@on_every_device(StepKernel.READ_CACHE)
def test_values_are_read_after_all_threads_have_their_keys(kernel, capability):
    ptx = compile_step_kernel(kernel, capability)
    before, barrier, after = re.split(r"(bar(?:rier)?(?:\.\w+)*\.red\S*)", ptx, maxsplit=1)
    assert barrier
    assert "ld.global.L1::no_allocate" in before
    assert "ld.global.L1::no_allocate" in after


@on_every_device(StepKernel.NORMALISE)
def test_a_norm_reads_its_row_again_after_all_threads_have_met(kernel, capability):
    before, barrier, after = re.split(r"(bar(?:rier)?\.sync\S*)", compile_step_kernel(kernel, capability), maxsplit=1)
    assert barrier
    assert "ld.global.u64" in before
    assert "st.global" not in before
    assert after.count("ld.global.u64") == 2 * after.count("st.global.u64") > 0


@on_every_device(StepKernel.MERGE)
def test_the_parts_of_attention_are_read_after_all_threads_have_the_scores(kernel, capability):
    before, after = re.split(r"bar(?:rier)?(?:\.\w+)*\.red\S*", compile_step_kernel(kernel, capability), maxsplit=1)
    assert "ld.global.u64" in before
    assert "v2.u64" not in before
    assert "ld.global.L1::no_allocate.v2.u64" in after


@on_every_device(StepKernel.MULTIPLY)
def test_products_run_on_tensor_cores(kernel, capability):
    assert compile_step_kernel(kernel, capability).count("mma.sync.aligned.m16n8k8") % 4 == 0
    assert "mma.sync.aligned.m16n8k8" in compile_step_kernel(kernel, capability)


@pytest.mark.parametrize("kernel", list(StepKernel))
def test_the_cubin_has_the_entry_point(kernel):
    ptx = compile_step_kernel(kernel, (9, 0))
    cubin = link_cubin(ptx, (9, 0))
    assert cubin[:4] == b"\x7fELF"
    assert step_kernel_name(kernel).encode() in cubin
