"""The step kernels: the sums over a modelled memory, the PTX for every architecture, the cubin."""

import re
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pega_tune.kernels.compiling import link_cubin
from pega_tune.kernels.copy_kernels import UNROLL
from pega_tune.kernels.decode.compiling import compile_step_kernel, step_kernel_name
from pega_tune.kernels.decode.dot import DotParts, build_dot
from pega_tune.kernels.decode.geometry import CTAS_PER_SM, LOADS_IN_FLIGHT, THREADS
from pega_tune.kernels.decode.kernels import STEP_KERNELS, build_sum
from pega_tune.kernels.decode.step import StepKernel
from pega_tune.kernels.ptx import Access
from tests.helpers.ptx_reader import Run, access_runs, assemble

CAPABILITIES = ((7, 5), (8, 0), (8, 6), (8, 9), (9, 0), (10, 0), (12, 0))
SUMMING = (StepKernel.NORMALISE, StepKernel.READ_CACHE, StepKernel.MERGE, StepKernel.MULTIPLY, StepKernel.PICK)
BASE = 4096


def on_every_device(*kernels: StepKernel):
    cases = [
        pytest.param(kernel, capability, id=f"{kernel}-sm_{capability[0]}{capability[1]}")
        for kernel in kernels
        for capability in CAPABILITIES
    ]
    return pytest.mark.parametrize(("kernel", "capability"), cases)


class UnitMemory:
    """Units of 16 bytes with values of their own; counts how often each is read."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.reads: Counter[int] = Counter()

    def value(self, index: int) -> tuple[int, int]:
        return 3 * index + 1, index * index

    def access(self) -> Access:
        def load(address: int) -> tuple[int, int]:
            index, odd = divmod(address - BASE, 16)
            assert odd == 0
            assert 0 <= index < self.count
            self.reads[index] += 1
            return self.value(index)

        def load_if(address: int, condition: bool) -> tuple[int, int]:
            return load(address) if condition else (987_654_321, 123_456_789)

        def refuse(*_: object) -> None:
            raise AssertionError("sums store nothing")

        return Access(16, load, refuse, load_if, refuse)


@given(count=st.integers(0, 700) | st.sampled_from([8 * 32, 8 * 96, 16 * 32]), threads=st.sampled_from([32, 64, 96]))
def test_every_unit_is_read_once_and_is_in_the_sum_of_one_thread(count, threads):
    memory = UnitMemory(count)
    sum_units = build_sum(memory.access(), lambda function: function)
    total = sum(sum_units(BASE, count, rank, threads) for rank in range(threads))
    assert memory.reads == Counter(range(count))
    assert total == sum(sum(memory.value(index)) for index in range(count))


@given(
    count=st.integers(0, 300) | st.sampled_from([8 * 32, 2 * 8 * 64]),
    threads=st.sampled_from([32, 64]),
    loads=st.sampled_from([1, 2, 4, 8]),
)
def test_every_unit_of_a_row_meets_that_of_the_vector_once(count, threads, loads):
    row, vector = UnitMemory(count), UnitMemory(count)
    parts = DotParts(row.access(), vector.access(), lambda total, a, b: total + a * (b + 1), loads)
    dot = build_dot(parts, lambda function: function)
    total = sum(dot(0, BASE, BASE, count, (rank, threads)) for rank in range(threads))
    assert row.reads == vector.reads == Counter(range(count))
    assert total == sum(value * (value + 1) for index in range(count) for value in row.value(index))


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
def test_weights_and_inputs_are_loaded_before_they_are_multiplied(kernel, capability):
    ptx = compile_step_kernel(kernel, capability)
    runs = [run for block in access_runs(ptx, "v2.u64") for run in block]
    assert runs == [Run("ld", False, 2 * LOADS_IN_FLIGHT), Run("ld", True, 2 * LOADS_IN_FLIGHT)]
    streamed = ptx.count("ld.global.L1::no_allocate.v2.u64")
    assert streamed == ptx.count("ld.global.v2.u64") == 2 * LOADS_IN_FLIGHT
    assert ptx.count("fma.rn.f32") == 2 * LOADS_IN_FLIGHT * 8


@on_every_device(*StepKernel)
def test_a_full_wave_fits_and_nothing_spills(kernel, capability, tmp_path):
    ptx = compile_step_kernel(kernel, capability)
    usage = assemble(ptx, f"sm_{capability[0]}{capability[1]}", tmp_path)
    assert usage.registers * THREADS * CTAS_PER_SM <= 65_536
    assert (usage.stack_bytes, usage.spill_bytes) == (0, 0)
    assert ".local" not in ptx
    assert "call" not in ptx


@on_every_device(StepKernel.READ_CACHE)
def test_values_are_read_after_all_threads_have_their_keys(kernel, capability):
    ptx = compile_step_kernel(kernel, capability)
    before, barrier, after = re.split(r"(bar(?:rier)?(?:\.\w+)*\.red\S*)", ptx, maxsplit=1)
    assert barrier
    assert "ld.global.L1::no_allocate" in before
    assert "ld.global.L1::no_allocate" in after


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
