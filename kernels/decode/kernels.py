"""The kernels of a decode step: they move the bytes of a model's kernels, or make its products, of random data.

All are bound to what the kernel before has written, as in a model, so that none may begin early. What a load brings
goes into what is stored, for which it must have arrived. Sums of what has no meaning are int64: `copy_kernels`.
"""

from collections.abc import Callable
from typing import Any, Final

from numba import cuda, float32, int32, int64

from pega_tune.kernels.copy_kernels import Jit
from pega_tune.kernels.decode.bf16 import add_products, bits, inverse_root, load_value, scaled, store_value, value
from pega_tune.kernels.decode.geometry import MOST_PARTS, ROW_THREADS, ROW_VALUES, WARP
from pega_tune.kernels.decode.launches import StepKernel
from pega_tune.kernels.decode.mma import multiply_add
from pega_tune.kernels.decode.products import Operands, ProductParts, build_product, share_of
from pega_tune.kernels.decode.sums import build_sum
from pega_tune.kernels.ptx import access

_ALL_LANES: Final = 0xFFFFFFFF
_CACHED: Final = ""  # of what an SM reads twice, then in L1: the vector of a product, the row of a norm
_ROW_WARPS: Final = ROW_THREADS // WARP
_EPSILON: Final = 1e-6  # added to the mean square of a norm: `rms_norm_eps` of Qwen3
_WEYL: Final = -7046029254386353131  # 2^64 / golden ratio, odd, as a signed word: D. Knuth, TAOCP 3, section 6.4


# Inlined before typing: numba compiles a called device function for the GPU in the machine, and fails without one.
_jit: Final[Jit] = cuda.jit(device=True, inline="always")
_unit = access(16)
_load_unit, _store_unit = _unit.load, _unit.store
_store_word, _load_bits, _store_bits = access(8).store, access(4).load, access(4).store
_load_word = access(8, _CACHED).load
_sum_units = build_sum(_unit, _jit)


@_jit
def _finish(outputs: int, row: int, totals: Any) -> None:
    """Adds the totals of a warp, of four rows, and writes them."""
    one, two, three, four = totals
    for distance in (16, 8, 4, 2, 1):
        one += cuda.shfl_xor_sync(_ALL_LANES, one, distance)
        two += cuda.shfl_xor_sync(_ALL_LANES, two, distance)
        three += cuda.shfl_xor_sync(_ALL_LANES, three, distance)
        four += cuda.shfl_xor_sync(_ALL_LANES, four, distance)
    if cuda.threadIdx.x & 31 == 0:
        place = outputs + row * 4
        _store_bits(place, bits(one))
        _store_bits(place + 4, bits(two))
        _store_bits(place + 8, bits(three))
        _store_bits(place + 12, bits(four))


_share_of = _jit(share_of)
_multiply_rows = build_product(ProductParts(_unit, access(16, _CACHED), add_products, _finish), _jit)


@_jit
def _rank() -> int:
    """The thread's place in the grid."""
    rank: int = int64(cuda.blockIdx.x) * int64(cuda.blockDim.x) + int64(cuda.threadIdx.x)
    return rank


@_jit
def _threads() -> int:
    """Threads of the grid."""
    threads: int = int64(cuda.gridDim.x) * int64(cuda.blockDim.x)
    return threads


@_jit
def _sum_in_cta(address: int, nbytes: int) -> int:
    """The thread's part of what its CTA reads."""
    total: int = _sum_units(address, nbytes >> 4, int64(cuda.threadIdx.x), int64(cuda.blockDim.x))
    return total


@_jit
def _store_per_warp(total: int, outputs: int) -> None:
    """Writes one word for each warp of the grid: the sum of its threads' totals."""
    for distance in (16, 8, 4, 2, 1):
        total += cuda.shfl_xor_sync(_ALL_LANES, total, distance)
    rank = _rank()
    if rank & 31 == 0:
        _store_word(outputs + (rank >> 5) * 8, total)


@_jit
def _sum_of_cta(total: Any) -> Any:
    """The sum of a float32 of every thread of a CTA of `ROW_THREADS`."""
    sums = cuda.shared.array(_ROW_WARPS, float32)
    for distance in (16, 8, 4, 2, 1):
        total += cuda.shfl_xor_sync(_ALL_LANES, total, distance)
    if cuda.threadIdx.x & 31 == 0:
        sums[cuda.threadIdx.x >> 5] = total
    cuda.syncthreads()
    total = sums[0]
    for warp in range(1, _ROW_WARPS):
        total += sums[warp]
    return total


def normalise(rows: int, row_bytes: int, factors: int, outputs: int) -> None:
    """The RMS norm of rows of bf16, a CTA for each, times a factor for each column.

    A row is read twice: its mean square must be known before the first value is made. A thread reads four values at a
    time, in both passes, like PyTorch's kernel for it.
    """
    row, first = int64(cuda.blockIdx.x) * row_bytes, int64(cuda.threadIdx.x) * 8
    total, place = float32(0), first
    while place < row_bytes:
        values = _load_word(rows + row + place)
        total = add_products(total, values, values)
        place += ROW_THREADS * 8
    factor = inverse_root(_sum_of_cta(total) / float32(row_bytes >> 1) + float32(_EPSILON))
    place = first
    while place < row_bytes:
        values = _load_word(rows + row + place)
        _store_word(outputs + row + place, scaled(values, _load_word(factors + place), factor))
        place += ROW_THREADS * 8


def multiply_vector(weights: int, row_bytes: int, rows: int, inputs: int, vectors: int, outputs: int) -> None:
    """A matrix of bf16 times a vector: a CTA per block of rows and part of K, and a float32 per part and row.

    Of several vectors a group of rows meets one, the next group the next one: all are read, and a step stays bound by
    memory.
    """
    block = int64(cuda.blockIdx.x), int64(cuda.blockIdx.y)
    grid = int64(cuda.gridDim.x), int64(cuda.gridDim.y)
    share = _share_of(int64(cuda.threadIdx.x), block, grid, (rows, row_bytes >> 4))
    operands = Operands(weights, row_bytes, inputs, vectors, outputs + block[1] * rows * 4)
    _multiply_rows(operands, share, float32(0))


def add_parts(products: int, row_bytes: int, parts: int, outputs: int) -> None:
    """A row of float32 that came in parts, each a row of such: a lane per value, and a warp for each part.

    Like cuBLAS's kernel for it, so that values and not parts are what makes more CTAs.
    """
    sums = cuda.shared.array((MOST_PARTS, WARP), float32)
    lane, part = int64(cuda.threadIdx.x) & 31, int64(cuda.threadIdx.x) >> 5
    place = (int64(cuda.blockIdx.x) * WARP + lane) * 4
    total = float32(0)
    if part < parts and place < row_bytes:
        total = value(_load_bits(products + part * row_bytes + place))
    sums[part, lane] = total
    cuda.syncthreads()
    if part == 0 and place < row_bytes:
        for other in range(1, MOST_PARTS):
            total += sums[other, lane]
        _store_bits(outputs + place, bits(total))


def read_cache(keys: int, slice_bytes: int, chunk_bytes: int, queries: int, query_bytes: int, outputs: int) -> None:
    """Attention of one token: a CTA per chunk of the slice of one KV head; a word per thread, to be merged.

    A CTA reads the queries that share the head and its keys, meets, as the largest score must be known, and reads its
    values, which follow the keys of all slices.
    """
    chunks = (slice_bytes + chunk_bytes - 1) // chunk_bytes
    block, heads = int64(cuda.blockIdx.x), int64(cuda.gridDim.x) // chunks
    head = block // chunks
    begin = (block - head * chunks) * chunk_bytes
    place, nbytes = head * slice_bytes + begin, min(chunk_bytes, slice_bytes - begin)
    total = _sum_in_cta(queries + head * query_bytes, query_bytes)
    total += _sum_in_cta(keys + place, nbytes)
    total += cuda.syncthreads_count(int32(total > 0))
    total += _sum_in_cta(keys + heads * slice_bytes + place, nbytes)
    _store_word(outputs + _rank() * 8, total)


def merge(parts: int, row_bytes: int, part_bytes: int, outputs: int) -> None:
    """One CTA per row of parts of a result, of which a thread makes a word of its own.

    It reads the first word of every part, meets, as the largest score must be known, and reads the parts.
    """
    row, place = parts + int64(cuda.blockIdx.x) * row_bytes, int64(cuda.threadIdx.x) * part_bytes
    score = 0
    while place < row_bytes:
        score = max(score, _load_word(row + place))
        place += int64(cuda.blockDim.x) * part_bytes
    total = cuda.syncthreads_count(int32(score > 0)) + _sum_in_cta(row, row_bytes)
    _store_word(outputs + _rank() * 8, total)


def multiply(matrix: int, nbytes: int, inputs: int, input_bytes: int, outputs: int, rounds: int) -> None:
    """A matrix times many vectors: the grid reads both once, then every warp makes its rounds of four products."""
    total = _sum_units(inputs, input_bytes >> 4, _rank(), _threads())
    total += _sum_units(matrix, nbytes >> 4, _rank(), _threads())
    zero = float32(0)
    s0 = s1 = s2 = s3 = (zero, zero, zero, zero)
    for _ in range(rounds):
        s0 = multiply_add(s0, total, total)
        s1 = multiply_add(s1, total, total)
        s2 = multiply_add(s2, total, total)
        s3 = multiply_add(s3, total, total)
    made = s0[0] + s1[0] + s2[0] + s3[0] + s0[1] + s1[1] + s2[1] + s3[1]
    _store_per_warp(total + int64(made > zero), outputs)


def combine(first: int, second: int, count: int, outputs: int) -> None:
    """Element-wise work: units of 16 bytes, each made of two."""
    index = _rank()
    while index < count:
        a, b = _load_unit(first + index * 16), _load_unit(second + index * 16)
        _store_unit(outputs + index * 16, (a[0] + b[0], a[1] + b[1]))
        index += _threads()


def scale(values: int, width: int, factors: int, count: int, outputs: int) -> None:
    """Element-wise work on bf16 whose places must be worked out one by one: a value times the factor of its column.

    Like PyTorch's kernel for it, a thread makes one of its values after the other.
    """
    index = int64(cuda.blockIdx.x) * (ROW_THREADS * ROW_VALUES) + int64(cuda.threadIdx.x)
    for _ in range(ROW_VALUES):
        if index < count:
            made = load_value(values + index * 2) * load_value(factors + index % width * 2)
            store_value(outputs + index * 2, made)
        index += ROW_THREADS


def pick(rows: int, row_bytes: int, tokens: int) -> None:
    """One CTA per row: reads it, meets, and writes one word."""
    block = int64(cuda.blockIdx.x)
    total = _sum_in_cta(rows + block * row_bytes, row_bytes)
    found = cuda.syncthreads_count(int32(total > 0))
    if cuda.threadIdx.x == 0:
        _store_word(tokens + block * 8, int64(found))


def fill(address: int, count: int, seed: int) -> None:
    """Fills units of 16 bytes with words without a pattern: equal bits would cost the memory less power."""
    index = _rank()
    while index < count:
        low = (index * 2 + seed) * _WEYL
        high = (index * 2 + 1 + seed) * _WEYL
        low ^= low >> 32
        high ^= high >> 32
        _store_unit(address + index * 16, (low * _WEYL, high * _WEYL))
        index += _threads()


STEP_KERNELS: Final[dict[StepKernel, Callable[..., None]]] = {
    StepKernel.NORMALISE: normalise,
    StepKernel.MULTIPLY_VECTOR: multiply_vector,
    StepKernel.ADD_PARTS: add_parts,
    StepKernel.READ_CACHE: read_cache,
    StepKernel.MERGE: merge,
    StepKernel.MULTIPLY: multiply,
    StepKernel.COMBINE: combine,
    StepKernel.SCALE: scale,
    StepKernel.PICK: pick,
    StepKernel.FILL: fill,
}
"""The kernels' sources. Every argument is an int64: an address and a number of bytes are multiples of 16."""
