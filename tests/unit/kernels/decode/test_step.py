from dataclasses import replace
from itertools import pairwise

import pytest

from pega_tune.kernels.decode.geometry import (
    CHUNK_TOKENS,
    HEAD_CLUSTER,
    LAYER_CLUSTER,
    PRODUCT_SHARED_PERCENT,
    ROW_THREADS,
    ROW_VALUES,
    THREADS,
    WARP,
    Split,
    layer_ctas,
    widest_blocks,
)
from pega_tune.kernels.decode.launches import Launch, StepKernel, kernels_of, shared_bytes_of, threads_of
from pega_tune.kernels.decode.models import LAYER, PRESETS, DecodeModel, Operation, StepKind
from pega_tune.kernels.decode.sizes import INPUT_BYTES, StepAddresses, StepSizes
from pega_tune.kernels.decode.step import FLOPS_PER_ROUND, StepPlan

SMS = 132  # of an H200
MODELS = [
    *(pytest.param(model, id=name) for name, model in PRESETS.items()),
    pytest.param(DecodeModel(2, 64, 4, 2, 16, 96, 512, 24, 3), id="tiny"),
    pytest.param(DecodeModel(2, 64, 4, 4, 16, 96, 512, 24, 3, StepKind.PREFILL), id="tiny prefill"),
    pytest.param(replace(PRESETS["qwen3-4b"], batch=64), id="batch"),
]
PRODUCTS = (Operation.QKV, Operation.OUTPUT, Operation.GATE_UP, Operation.DOWN)


def place(model: DecodeModel) -> tuple[StepSizes, StepAddresses]:
    """Memory whose parts are far from each other."""
    sizes = StepSizes.of(model, SMS)
    return sizes, StepAddresses(1 << 44, 1 << 43, (1 << 41, 1 << 42), 1 << 40, 1 << 39, 1 << 38, 1 << 37)


def plan(model: DecodeModel) -> tuple[StepSizes, StepAddresses, tuple[Launch, ...]]:
    sizes, addresses = place(model)
    return sizes, addresses, StepPlan(model, addresses, SMS).launches()


def span(begin: int, nbytes: int) -> range:
    return range(begin, begin + nbytes)


def touched(launch: Launch) -> tuple[list[range], range]:
    """The memory that a launch reads, and what it writes, by what the kernels are documented to do."""
    a = launch.arguments
    words = 8 * launch.blocks * threads_of(launch.kernel)
    match launch.kernel:
        case StepKernel.NORMALISE:
            rows = launch.blocks * a[1]
            reads, written = [span(a[0], rows), span(a[2], a[1])], span(a[3], rows)
        case StepKernel.MULTIPLY_VECTOR:
            reads, written = [span(a[0], a[2] * a[1]), span(a[3], a[4] * a[1])], span(a[5], 4 * a[2] * launch.parts)
        case StepKernel.ADD_PARTS:
            assert (launch.blocks - 1) * WARP * 4 < a[1] <= launch.blocks * WARP * 4
            reads, written = [span(a[0], a[1] * a[2])], span(a[3], a[1])
        case StepKernel.MULTIPLY:
            reads, written = [span(a[0], a[1]), span(a[2], a[3])], span(a[4], words // 32)
        case StepKernel.READ_CACHE:
            heads, odd = divmod(launch.blocks, -(-a[1] // a[2]))
            assert odd == 0
            reads, written = [span(a[0], 2 * heads * a[1]), span(a[3], heads * a[4])], span(a[5], words)
        case StepKernel.COMBINE:
            reads, written = [span(a[0], 16 * a[2]), span(a[1], 16 * a[2])], span(a[3], 16 * a[2])
        case StepKernel.SCALE:
            values = ROW_VALUES * ROW_THREADS
            assert (launch.blocks - 1) * values < a[3] <= launch.blocks * values
            reads, written = [span(a[0], 2 * a[3]), span(a[2], 2 * a[1])], span(a[4], 2 * a[3])
        case StepKernel.MERGE:
            assert a[1] % a[2] == 0
            reads, written = [span(a[0], launch.blocks * a[1])], span(a[3], words)
        case _:
            reads, written = [span(a[0], launch.blocks * a[1])], span(a[2], 8 * launch.blocks)
    return reads, written


def reads_within(launches: tuple[Launch, ...], whole: range) -> list[range]:
    found = [read for launch in launches for read in touched(launch)[0] if read.start in whole]
    return sorted(found, key=lambda read: read.start)


@pytest.mark.parametrize("model", MODELS)
def test_a_step_launches_a_kernel_per_operation_and_one_more_for_every_split(model):
    _, _, launches = plan(model)
    splits = [launch for launch in launches if launch.parts > 1]
    around = 4  # embedding; last norm, head and choice of the token
    assert len(launches) == model.layers * len(LAYER) + around + len(splits)
    assert {launch.kernel for launch in launches} <= set(kernels_of(model.kind)) - {StepKernel.FILL}
    assert model.kind is StepKind.DECODE or not splits


def test_a_decode_step_has_a_like_number_of_kernels_as_the_real_layers():
    _, _, launches = plan(PRESETS["qwen3-4b"])
    assert len(launches) == pytest.approx(727, rel=0.02)  # nodes of the captured torch step on an H200


@pytest.mark.parametrize("model", MODELS)
def test_all_parts_of_a_product_are_added(model):
    _, _, launches = plan(model)
    for product, added in pairwise(launches):
        assert (product.parts > 1) == (added.kernel is StepKernel.ADD_PARTS)
        if product.parts > 1:
            assert added.arguments[1:3] == (4 * product.arguments[2], product.parts)
            assert touched(added)[0] == [touched(product)[1]]


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
        reads, writes = touched(next_one)
        assert any(read.start == written.start for read in reads)
        if next_one.kernel is StepKernel.COMBINE and writes.start == addresses.residual:
            assert reads[1] == writes  # a thread reads what it adds to before it writes there
        else:
            assert not any(read.start == writes.start for read in reads)
    assert touched(launches[-1])[1] == span(addresses.tokens, 8 * model.batch)


@pytest.mark.parametrize("model", MODELS)
def test_no_kernel_leaves_its_memory(model):
    sizes, addresses, launches = plan(model)
    parts = [
        span(addresses.weights, sizes.weights),
        span(addresses.caches, sizes.caches),
        *(span(buffer, sizes.activations) for buffer in addresses.activations),
        span(addresses.residual, sizes.residual),
        span(addresses.factors, sizes.factors),
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
    per_round = widest_blocks(SMS) * THREADS // 32 * FLOPS_PER_ROUND
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


@pytest.mark.parametrize("name", ["qwen3-4b", "llama-3.1-8b"])
@pytest.mark.parametrize("sms", [8, 46, 108, 132, 170])
def test_a_product_is_one_wave_and_that_of_a_layer_leaves_sms_free(name, sms):
    model = PRESETS[name]
    launches = StepPlan(model, place(model)[1], sms).launches()
    products = [launch for launch in launches if launch.kernel is StepKernel.MULTIPLY_VECTOR]
    assert len(products) == 4 * model.layers + 1
    *layers, head = (launch.blocks * launch.parts for launch in products)
    assert max(layers) <= layer_ctas(sms) < sms
    assert 0.9 * sms < head <= sms
    assert [launch.cluster for launch in products] == [LAYER_CLUSTER] * 4 * model.layers + [HEAD_CLUSTER]
    assert all(launch.blocks % launch.cluster == 0 for launch in launches)


def test_products_are_cut_like_those_of_the_torch_step():
    model = PRESETS["qwen3-4b"]
    splits = {operation: Split.of(model.matrix_shape(operation), layer_ctas(SMS)) for operation in PRODUCTS}
    cuts = {operation: (split.block_rows, split.columns, split.parts) for operation, split in splits.items()}
    assert cuts == {
        Operation.QKV: (64, 96, 1),
        Operation.OUTPUT: (64, 40, 2),
        Operation.GATE_UP: (192, 104, 1),
        Operation.DOWN: (128, 20, 5),
    }
    assert Split.head((model.hidden, model.vocabulary), SMS).columns == 132


def test_no_two_norms_have_the_same_weights():
    model = PRESETS["qwen3-4b"]
    sizes, addresses, launches = plan(model)
    weights = [launch.arguments[2] for launch in launches if launch.kernel is StepKernel.NORMALISE]
    assert len(weights) == len(set(weights)) == 3 * model.layers + 1
    rotations = {launch.arguments[2] for launch in launches if launch.kernel is StepKernel.SCALE}
    assert rotations == {addresses.factors}
    assert addresses.factors not in weights
    assert max(weights) + 2 * model.hidden <= addresses.factors + sizes.factors


def test_attention_has_a_cta_per_chunk_and_head():
    _, _, launches = plan(PRESETS["qwen3-4b"])
    attention = {launch.blocks for launch in launches if launch.kernel is StepKernel.READ_CACHE}
    assert attention == {8 * 2048 // CHUNK_TOKENS}


@pytest.mark.parametrize("most_bytes", [65_536, 101_376, 166_912, 232_448])
def test_only_products_of_a_decode_step_ask_for_shared_memory(most_bytes):
    asked = {kernel: shared_bytes_of(kernel, most_bytes) for kernel in StepKernel}
    product = asked.pop(StepKernel.MULTIPLY_VECTOR)
    assert not any(asked.values())
    assert 0 <= PRODUCT_SHARED_PERCENT / 100 * most_bytes - product < 16
