import threading
import time
from contextlib import ExitStack
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from cuda.bindings import driver
from numpy.typing import NDArray

from pega_tune.errors import UsageError
from pega_tune.kernels.context import PrimaryContext, call
from pega_tune.kernels.decode.builtin import BuiltinStep, StepKernels
from pega_tune.kernels.decode.geometry import GROUP_ROWS, ROW_THREADS, ROW_VALUES, THREADS, WARP, widest_blocks
from pega_tune.kernels.decode.launches import Launch, StepKernel
from pega_tune.kernels.decode.models import PRESETS, DecodeModel, StepKind
from pega_tune.kernels.decode.probe import WARM_STEPS, BuiltinProbe, DecodeProbe, make_probe
from pega_tune.kernels.decode.ring import RingState, StepRing
from pega_tune.kernels.decode.sizes import StepAddresses
from pega_tune.kernels.decode.step import StepPlan
from pega_tune.kernels.decode.torch_probe import TorchMissingError, import_torch
from pega_tune.kernels.facts import DeviceFacts
from pega_tune.kernels.memory import DeviceMemory, OutOfDeviceMemoryError
from pega_tune.kernels.stream import Stream

pytestmark = pytest.mark.gpu

SMALL = PRESETS["small"]
PREFILL = replace(SMALL, context=64, kind=StepKind.PREFILL)
MODELS = [
    pytest.param(SMALL, id="decode"),
    pytest.param(replace(SMALL, batch=4), id="batch"),
    pytest.param(PREFILL, id="prefill"),
]
Words = NDArray[np.int64]


def steps_of(probe: DecodeProbe, steps: int) -> list[float]:
    """The ends of so many steps."""
    ring = StepRing.private(steps + 1)
    begin_s = time.monotonic()
    try:
        probe.start(ring)
        probe.run(steps)
    finally:
        probe.close()
    return ring.ends_between(begin_s, time.monotonic()).tolist()


@pytest.mark.parametrize("model", MODELS)
def test_the_graph_holds_the_kernels_of_the_step(context: PrimaryContext, gpu: DeviceFacts, model: DecodeModel) -> None:
    with BuiltinStep(model, 0) as step:
        plan = StepPlan(model, StepAddresses(0, 0, (0, 0), 0, 0, 0, 0), gpu.identity.sm_count)
        assert step.nodes == len(plan.launches())


@pytest.mark.parametrize("model", MODELS)
def test_a_hundred_steps_end_one_after_the_other(gpu: DeviceFacts, model: DecodeModel) -> None:
    ends = steps_of(BuiltinProbe(model), 100)
    assert len(ends) == 100
    assert all(one < next_one for one, next_one in pairwise(ends))


def test_it_runs_on_another_thread_until_the_ring_says_stop(gpu: DeviceFacts) -> None:
    ring = StepRing.private(1 << 16)
    with BuiltinProbe(SMALL) as probe:
        probe.start(ring)
        thread = threading.Thread(target=probe.run)
        thread.start()
        while not ring.is_warm:
            time.sleep(0.001)
        ring.stop()
        thread.join()
    assert ring.count >= WARM_STEPS
    assert ring.state is RingState.STOPPED


def test_a_probe_can_be_started_again(gpu: DeviceFacts) -> None:
    probe = BuiltinProbe(SMALL)
    assert [len(steps_of(probe, 5)) for _ in range(2)] == [5, 5]


def test_device_memory_comes_back(context: PrimaryContext) -> None:
    steps_of(BuiltinProbe(SMALL), 1)  # what the driver keeps for modules and graphs is there now
    before = context.memory().free_bytes
    steps_of(BuiltinProbe(SMALL), 1)
    assert context.memory().free_bytes >= before - (2 << 20)


def test_a_model_that_does_not_fit_is_refused_and_leaves_nothing(context: PrimaryContext) -> None:
    too_large = replace(PRESETS["llama-3.1-8b"], layers=10_000)
    with pytest.raises(OutOfDeviceMemoryError):
        BuiltinProbe(too_large).start(StepRing.private(2))
    assert len(steps_of(BuiltinProbe(SMALL), 2)) == 2


def test_a_priority_that_the_device_has_not_is_refused(gpu: DeviceFacts) -> None:
    with pytest.raises(UsageError, match="stream priority 99"):
        BuiltinProbe(SMALL, stream_priority=99).start(StepRing.private(2))


@pytest.fixture
def bench(context: PrimaryContext):
    """Runs single kernels over words that the test knows."""
    with ExitStack() as stack:
        yield Bench(stack)


class Bench:
    """Device memory that begins with known words, and kernels that run over it."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self._stream = stack.enter_context(Stream())
        self._kernels = {kind: stack.enter_context(StepKernels(kind)) for kind in StepKind}
        self.widest = widest_blocks(self._kernels[StepKind.DECODE].sms)

    def put(self, words: Words) -> int:
        memory = self._stack.enter_context(DeviceMemory(words.nbytes))
        self._stream.copy_to_device(memory.address, words.ctypes.data, words.nbytes)
        self._stream.synchronize()
        return memory.address

    def get(self, address: int, count: int) -> Words:
        words = np.zeros(count, np.int64)
        self._stream.copy_to_host(words.ctypes.data, address, words.nbytes)
        self._stream.synchronize()
        return words

    def values(self, address: int, count: int) -> NDArray[np.float32]:
        """So many bf16."""
        halves = self.get(address, -(-count // 4)).view(np.uint16)[:count]
        return (halves.astype(np.uint32) << 16).view(np.float32)

    def run(self, kernel: StepKernel, blocks: int, *arguments: int, parts: int = 1) -> None:
        kind = StepKind.PREFILL if kernel is StepKernel.MULTIPLY else StepKind.DECODE
        self._kernels[kind].launch(Launch(kernel, blocks, arguments, parts), self._stream)
        self._stream.synchronize()


def random_words(count: int) -> Words:
    return np.random.default_rng(count).integers(-(2**62), 2**62, count)


def small_numbers(*shape: int) -> NDArray[np.float32]:
    """Whole numbers of which bf16 holds every one, and float32 every sum of products that tests make."""
    return np.random.default_rng(shape).integers(-7, 8, shape).astype(np.float32)


def as_bf16(values: NDArray[np.float32]) -> Words:
    """The values as words of four bf16, which are the upper halves of float32."""
    return (np.ascontiguousarray(values).view(np.uint32) >> 16).astype(np.uint16).reshape(-1).view(np.int64)


@pytest.mark.parametrize("vectors", [1, 3])
@pytest.mark.parametrize("blocks", [1, 7, 16])
@pytest.mark.parametrize(("width", "parts"), [(8, 1), (2560, 1), (2560, 3), (2568, 2), (9728, 5), (8192, 8)])
def test_a_product_is_that_of_the_matrix_and_the_vector(
    bench: Bench, width: int, parts: int, blocks: int, vectors: int
) -> None:
    rows = 1000
    weights, inputs = small_numbers(rows, width), small_numbers(vectors, width)
    products, outputs = (bench.put(np.full(count * rows // 2, -1, np.int64)) for count in (parts, 1))
    operands = bench.put(as_bf16(weights)), 2 * width, rows, bench.put(as_bf16(inputs)), vectors
    bench.run(StepKernel.MULTIPLY_VECTOR, blocks, *operands, products, parts=parts)
    bench.run(StepKernel.ADD_PARTS, -(-rows // WARP), products, 4 * rows, parts, outputs)
    made = bench.get(outputs, rows // 2).view(np.float32)
    assert (made == (weights * inputs[np.arange(rows) // GROUP_ROWS % vectors]).sum(1)).all()
    assert (bench.get(products, parts * rows // 2).view(np.float32).reshape(parts, rows).sum(0) == made).all()


@pytest.mark.parametrize(("tokens", "chunk_tokens"), [(1, 128), (128, 128), (129, 128), (2048, 128), (500, 7)])
def test_attention_reads_every_byte_of_keys_and_values(bench: Bench, tokens: int, chunk_tokens: int) -> None:
    heads, token_bytes = 8, 256
    cache, queries = random_words(2 * heads * tokens * token_bytes // 8), random_words(heads * 128)
    blocks = heads * -(-tokens // chunk_tokens)
    threads = blocks * ROW_THREADS
    outputs = bench.put(np.zeros(threads, np.int64))
    sizes = tokens * token_bytes, chunk_tokens * token_bytes
    bench.run(StepKernel.READ_CACHE, blocks, bench.put(cache), *sizes, bench.put(queries), 1024, outputs)
    found = bench.get(outputs, threads)
    with np.errstate(over="ignore"):
        # Beside its words a thread adds how many of its CTA's had a sum above 0 after the keys.
        extra = int(found.sum() - cache.sum() - queries.sum() * (blocks // heads))
    assert 0 <= extra <= threads * ROW_THREADS
    assert extra % ROW_THREADS == 0


def test_every_part_of_attention_is_merged(bench: Bench) -> None:
    parts = random_words(8 * 16 * THREADS)
    outputs = bench.put(np.zeros(8 * THREADS, np.int64))
    bench.run(StepKernel.MERGE, 8, bench.put(parts), parts.nbytes // 8, THREADS * 8, outputs)
    scores = parts.reshape(8, 16, THREADS)[:, :, 0]
    with np.errstate(over="ignore"):
        # Beside its words a thread adds how many of its CTA's have met a score above 0.
        extra = bench.get(outputs, 8 * THREADS).reshape(8, -1).sum(1) - parts.reshape(8, -1).sum(1)
    assert (extra == THREADS * (scores > 0).sum(1)).all()


@pytest.mark.parametrize("width", [8, 128, 2560, 4096])
def test_rows_are_normalised_and_multiplied(bench: Bench, width: int) -> None:
    rows, factors = small_numbers(5, width) + 8, small_numbers(1, width)
    outputs = bench.put(np.zeros(5 * width // 4, np.int64))
    places = bench.put(as_bf16(rows)), 2 * width, bench.put(as_bf16(factors))
    bench.run(StepKernel.NORMALISE, 5, *places, outputs)
    wanted = rows / np.sqrt((rows**2).mean(1, keepdims=True)) * factors
    np.testing.assert_allclose(bench.values(outputs, 5 * width).reshape(5, -1), wanted, rtol=2**-6)


@pytest.mark.parametrize(("count", "width"), [(8, 8), (1024, 128), (5120, 128), (960, 96)])
def test_every_value_is_multiplied_by_the_factor_of_its_column(bench: Bench, count: int, width: int) -> None:
    values, factors = small_numbers(count), small_numbers(width)
    outputs = bench.put(np.full(count // 4 + 1, -1, np.int64))
    places = bench.put(as_bf16(values)), width, bench.put(as_bf16(factors))
    bench.run(StepKernel.SCALE, -(-count // (ROW_VALUES * ROW_THREADS)), *places, count, outputs)
    assert (bench.values(outputs, count) == values * np.resize(factors, count)).all()
    assert bench.get(outputs, count // 4 + 1)[-1] == -1


def test_an_sm_holds_one_cta_of_a_product(context: PrimaryContext) -> None:
    with StepKernels(StepKind.DECODE) as kernels:
        assert kernels.resident_blocks(StepKernel.MULTIPLY_VECTOR) == 1


def test_element_wise_work_makes_every_unit_of_two(bench: Bench) -> None:
    first, second = random_words(2 * 5000) >> 1, random_words(2 * 5000) >> 2
    outputs = bench.put(np.zeros_like(first))
    bench.run(StepKernel.COMBINE, 7, bench.put(first), bench.put(second), 5000, outputs)
    assert (bench.get(outputs, len(first)) == first + second).all()


def test_memory_is_filled_with_words_that_all_differ(bench: Bench) -> None:
    words = np.zeros(2 << 16, np.int64)
    address = bench.put(words)
    bench.run(StepKernel.FILL, bench.widest, address, len(words) // 2, 5)
    found = bench.get(address, len(words))
    assert len(np.unique(found)) == len(found)
    ones = np.unpackbits(found.view(np.uint8)).mean()
    assert 0.49 < ones < 0.51


def test_products_end_for_any_number_of_rounds(bench: Bench) -> None:
    matrix = bench.put(random_words(2048))
    outputs = bench.put(np.zeros(bench.widest * THREADS // 32, np.int64))
    for rounds in (0, 1, 1000):
        bench.run(StepKernel.MULTIPLY, bench.widest, matrix, 8192, matrix, 4096, outputs, rounds)


@pytest.fixture
def torch_device(gpu: DeviceFacts):
    """Skips without a usable torch, for that reason alone."""
    try:
        return import_torch()
    except TorchMissingError as error:
        pytest.skip(error.message)


@pytest.mark.parametrize("model", MODELS)
def test_the_torch_probe_steps_through_the_same_loop(torch_device, model: DecodeModel) -> None:
    ends = steps_of(make_probe("torch", model.key), 50)
    assert len(ends) == 50
    assert all(one < next_one for one, next_one in pairwise(ends))


def test_the_kernels_of_a_step_have_the_priority_of_its_stream(context: PrimaryContext) -> None:
    strongest = call("cuCtxGetStreamPriorityRange")[1]
    with Stream(strongest) as stream, StepKernels(StepKind.DECODE) as kernels, DeviceMemory(4096) as memory:
        call("cuStreamBeginCapture", stream.native, driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)
        kernels.fill(memory, stream)
        graph = call("cuStreamEndCapture", stream.native)
        nodes, count = call("cuGraphGetNodes", graph, 1)
        priority = driver.CUkernelNodeAttrID.CU_LAUNCH_ATTRIBUTE_PRIORITY
        value = call("cuGraphKernelNodeGetAttribute", nodes[0], priority)
        call("cuGraphDestroy", graph)
    assert (count, value.priority) == (1, strongest)
