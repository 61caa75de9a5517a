from dataclasses import replace
from itertools import pairwise

import pytest

from pega_tune.kernels.decode.geometry import CHUNK_TOKENS, LOADS_PER_ROW, THREADS, UNIT_BYTES, team_log2_of
from pega_tune.kernels.decode.models import PRESETS, DecodeModel, StepKind
from pega_tune.kernels.decode.step import (
    FLOPS_PER_ROUND,
    INPUT_BYTES,
    Launch,
    StepAddresses,
    StepKernel,
    StepPlan,
    StepSizes,
    kernels_of,
)

WIDEST = 4 * 132
MODELS = [
    *(pytest.param(model, id=name) for name, model in PRESETS.items()),
    pytest.param(DecodeModel(2, 64, 4, 2, 16, 96, 512, 24, 3), id="tiny"),
    pytest.param(DecodeModel(2, 64, 4, 4, 16, 96, 512, 24, 3, StepKind.PREFILL), id="tiny prefill"),
    pytest.param(replace(PRESETS["qwen3-4b"], batch=64), id="batch"),
]
EMPTY = range(0)


def place(model: DecodeModel) -> tuple[StepSizes, StepAddresses]:
    """Memory whose parts are far from each other."""
    sizes = StepSizes.of(model, WIDEST)
    return sizes, StepAddresses(1 << 44, 1 << 43, (1 << 41, 1 << 42), 1 << 40, 1 << 39)


def plan(model: DecodeModel) -> tuple[StepSizes, StepAddresses, tuple[Launch, ...]]:
    sizes, addresses = place(model)
    return sizes, addresses, StepPlan(model, addresses, WIDEST).launches()


def span(begin: int, nbytes: int) -> range:
    return range(begin, begin + nbytes)


def touched(launch: Launch) -> tuple[list[range], range]:
    """The memory that a launch reads, and what it writes, by what the kernels are documented to do."""
    a = launch.arguments
    words = 8 * launch.blocks * THREADS
    match launch.kernel:
        case StepKernel.NORMALISE:
            rows = launch.blocks * a[1]
            return [span(a[0], rows)], span(a[2], rows)
        case StepKernel.MULTIPLY_VECTOR:
            rows = launch.blocks * THREADS >> a[4]
            return [span(a[0], rows * a[1]), span(a[2], a[3] * a[1])], span(a[5], 4 * rows)
        case StepKernel.MULTIPLY:
            return [span(a[0], a[1]), span(a[2], a[3])], span(a[4], words // 32)
        case StepKernel.READ_CACHE:
            heads, odd = divmod(launch.blocks, -(-a[1] // a[2]))
            assert odd == 0
            return [span(a[0], 2 * heads * a[1]), span(a[3], heads * a[4])], span(a[5], words)
        case StepKernel.COMBINE:
            return [span(a[0], 16 * a[2]), span(a[1], 16 * a[2])], span(a[3], 16 * a[2])
        case _:
            written = words if launch.kernel is StepKernel.MERGE else 8 * launch.blocks
            return [span(a[0], launch.blocks * a[1])], span(a[2], written)


def reads_within(launches: tuple[Launch, ...], whole: range) -> list[range]:
    found = [read for launch in launches for read in touched(launch)[0] if read.start in whole]
    return sorted(found, key=lambda read: read.start)


@pytest.mark.parametrize("model", MODELS)
def test_a_step_launches_as_many_kernels_as_the_model_says(model):
    _, _, launches = plan(model)
    assert len(launches) == model.kernels_per_step
    assert {launch.kernel for launch in launches} | {StepKernel.FILL} == set(kernels_of(model.kind))


@pytest.mark.parametrize("model", MODELS)
def test_weights_and_caches_are_read_once_from_end_to_end(model):
    sizes, addresses, launches = plan(model)
    for begin, nbytes in ((addresses.weights, sizes.weights), (addresses.caches, sizes.caches)):
        reads = [read for read in reads_within(launches[1:], span(begin, nbytes)) if len(read)]
        assert (reads[0].start, reads[-1].stop) == (begin, begin + nbytes)
        assert all(one.stop == next_one.start for one, next_one in pairwise(reads))
    assert sizes.weights + sizes.caches == model.step_bytes


@pytest.mark.parametrize("model", MODELS)
def test_every_kernel_reads_what_the_one_before_has_written(model):
    _, addresses, launches = plan(model)
    assert touched(launches[0])[0][1] == span(addresses.inputs, min(INPUT_BYTES, model.head_bytes))
    for one, next_one in pairwise(launches):
        written = touched(one)[1]
        assert any(read.start == written.start for read in touched(next_one)[0])
        assert not any(read.start == touched(next_one)[1].start for read in touched(next_one)[0])
    assert touched(launches[-1])[1] == span(addresses.tokens, 8 * model.batch)


@pytest.mark.parametrize("model", MODELS)
def test_no_kernel_leaves_its_memory(model):
    sizes, addresses, launches = plan(model)
    parts = [
        span(addresses.weights, sizes.weights),
        span(addresses.caches, sizes.caches),
        *(span(buffer, sizes.activations) for buffer in addresses.activations),
        span(addresses.inputs, INPUT_BYTES),
        span(addresses.tokens, sizes.tokens),
    ]
    for launch in launches:
        reads, written = touched(launch)
        for memory in (*reads, written):
            assert any(part.start <= memory.start and memory.stop <= part.stop for part in parts), launch
            assert memory.start % 16 == 0
            assert len(memory) % 8 == 0


@pytest.mark.parametrize("model", MODELS)
def test_a_prefill_step_makes_the_operations_of_the_model(model):
    _, _, launches = plan(model)
    rounds = sum(launch.arguments[5] for launch in launches if launch.kernel is StepKernel.MULTIPLY)
    per_round = WIDEST * THREADS // 32 * FLOPS_PER_ROUND
    products = sum(launch.kernel is StepKernel.MULTIPLY for launch in launches)
    if model.kind is StepKind.DECODE:
        assert products == 0
    else:
        assert 0 <= rounds * per_round - model.step_flops < products * per_round


@pytest.mark.parametrize("model", MODELS)
def test_all_parts_of_attention_are_merged(model):
    _, _, launches = plan(model)
    merges = [pair for pair in pairwise(launches) if pair[1].kernel is StepKernel.MERGE]
    assert len(merges) == (model.layers if model.kind is StepKind.DECODE else 0)
    for attention, merge in merges:
        assert touched(merge)[0] == [touched(attention)[1]]


@pytest.mark.parametrize("row_bytes", [16, 128, 5120, 6144, 6160, 8192, 19_456, 1 << 20])
def test_a_row_has_as_few_warps_as_keep_its_threads_short(row_bytes):
    threads = 1 << team_log2_of(row_bytes)
    assert 32 <= threads <= THREADS
    assert threads == THREADS or row_bytes / UNIT_BYTES / threads <= LOADS_PER_ROW
    assert threads == 32 or row_bytes / UNIT_BYTES / (threads // 2) > LOADS_PER_ROW


@pytest.mark.parametrize("name", ["qwen3-4b", "llama-3.1-8b"])
def test_a_decode_step_is_cut_into_many_short_ctas(name):
    _, _, launches = plan(PRESETS[name])
    products = [launch.blocks for launch in launches if launch.kernel is StepKernel.MULTIPLY_VECTOR]
    assert len(products) == 4 * PRESETS[name].layers + 1
    assert min(products) > WIDEST
    attention = {launch.blocks for launch in launches if launch.kernel is StepKernel.READ_CACHE}
    assert attention == {8 * 2048 // CHUNK_TOKENS}
