"""The kernels of a decode step: they move the bytes of a model's kernels, or make its products, of random data.

All are bound to what the kernel before has written, as in a model, so that none may begin early. What a load brings
goes into a sum that is stored, for which it must have arrived. Arithmetic but for products is int64: `copy_kernels`.
"""

from collections.abc import Callable
from typing import Any, Final

from numba import cuda, float32, int32, int64

from pega_tune.kernels.copy_kernels import UNROLL, Jit
from pega_tune.kernels.decode.bf16 import add_products, bits
from pega_tune.kernels.decode.dot import DotParts, build_dot
from pega_tune.kernels.decode.geometry import LOADS_IN_FLIGHT, WARPS
from pega_tune.kernels.decode.mma import multiply_add
from pega_tune.kernels.decode.step import StepKernel
from pega_tune.kernels.ptx import Access, access
from pega_tune.kernels.recipe import DeviceFunction

_ALL_LANES: Final = 0xFFFFFFFF
_CACHED: Final = ""  # the vector of a product: every CTA reads it, the later ones of an SM in L1
_WEYL: Final = -7046029254386353131  # 2^64 / golden ratio, odd, as a signed word: D. Knuth, TAOCP 3, section 6.4


def build_sum(data: Access, jit: Jit) -> DeviceFunction:
    """Loads of 16 bytes, summed.

    Args:
        data: accesses of 16 bytes whose values are pairs of int64.
        jit: makes a device function.

    Returns:
        `sum_units(address, count, rank, threads) -> int64`: the sum of both words of the units of 16 bytes that fall to
        a thread, of `count` in all that `threads` threads share: passes of `UNROLL` loads in flight, and a last one of
        at most `UNROLL`, free of branches.
    """
    full_pass, last_pass = _full_pass(data, jit), _last_pass(data, jit)

    @jit
    def sum_units(address: int, count: int, rank: int, threads: int) -> int:
        step = threads * 16
        place = address + rank * 16
        total = 0
        while count >= UNROLL * threads:
            total += full_pass(place, step)
            place += UNROLL * step
            count -= UNROLL * threads
        if count > 0:
            total += last_pass(place, step, (count - rank) * 16)
        return total

    return sum_units


def _full_pass(data: Access, jit: Jit) -> DeviceFunction:
    """The sum of `UNROLL` units, `step` bytes apart; written out like the passes of `copy_kernels`."""
    load = data.load

    @jit
    def full_pass(place: int, step: int) -> int:
        v0 = load(place)
        v1 = load(place + step)
        v2 = load(place + 2 * step)
        v3 = load(place + 3 * step)
        v4 = load(place + 4 * step)
        v5 = load(place + 5 * step)
        v6 = load(place + 6 * step)
        v7 = load(place + 7 * step)
        low: int = v0[0] + v1[0] + v2[0] + v3[0] + v4[0] + v5[0] + v6[0] + v7[0]
        high: int = v0[1] + v1[1] + v2[1] + v3[1] + v4[1] + v5[1] + v6[1] + v7[1]
        return low + high

    return full_pass


def _last_pass(data: Access, jit: Jit) -> DeviceFunction:
    """The sum of those of `UNROLL` units that begin less than `left` bytes from the first."""
    load_if = data.load_if

    @jit
    def kept(value: Any, wanted: bool) -> int:
        both: int = value[0] + value[1]
        return both * wanted

    @jit
    def last_pass(place: int, step: int, left: int) -> int:
        v0 = load_if(place, left > 0)
        v1 = load_if(place + step, left > step)
        v2 = load_if(place + 2 * step, left > 2 * step)
        v3 = load_if(place + 3 * step, left > 3 * step)
        v4 = load_if(place + 4 * step, left > 4 * step)
        v5 = load_if(place + 5 * step, left > 5 * step)
        v6 = load_if(place + 6 * step, left > 6 * step)
        v7 = load_if(place + 7 * step, left > 7 * step)
        low: int = kept(v0, left > 0) + kept(v1, left > step) + kept(v2, left > 2 * step) + kept(v3, left > 3 * step)
        high: int = kept(v4, left > 4 * step) + kept(v5, left > 5 * step) + kept(v6, left > 6 * step)
        last: int = kept(v7, left > 7 * step)
        return low + high + last

    return last_pass


# Inlined before typing: numba compiles a called device function for the GPU in the machine, and fails without one.
_jit: Final[Jit] = cuda.jit(device=True, inline="always")
_unit = access(16)
_load_unit, _store_unit = _unit.load, _unit.store
_store_word, _store_value = access(8).store, access(4).store
_sum_units = build_sum(_unit, _jit)
_dot = build_dot(DotParts(_unit, access(16, _CACHED), add_products, LOADS_IN_FLIGHT), _jit)


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


def normalise(rows: int, row_bytes: int, outputs: int) -> None:
    """One CTA per row: reads it, meets, and writes a row of its sum. Addresses and bytes are multiples of 16."""
    row = int64(cuda.blockIdx.x) * row_bytes
    total = _sum_in_cta(rows + row, row_bytes)
    total += cuda.syncthreads_count(int32(total > 0))
    place = int64(cuda.threadIdx.x) * 16
    while place < row_bytes:
        _store_unit(outputs + row + place, (total, place))
        place += int64(cuda.blockDim.x) * 16


def multiply_vector(weights: int, row_bytes: int, inputs: int, vectors: int, team_log2: int, outputs: int) -> None:
    """A matrix of bf16 times a vector: a team of warps of one CTA per row, and a float32 per row.

    Of several vectors a row meets one, the next row the next one: all are read, and a step stays bound by memory.
    """
    row = _rank() >> team_log2
    team = int64(1) << team_log2
    share = _rank() & (team - 1), team
    vector = inputs + row % vectors * row_bytes
    total = _dot(float32(0), weights + row * row_bytes, vector, row_bytes >> 4, share)
    for distance in (16, 8, 4, 2, 1):
        total += cuda.shfl_xor_sync(_ALL_LANES, total, distance)
    sums = cuda.shared.array(WARPS, float32)
    warp = cuda.threadIdx.x >> 5
    if cuda.threadIdx.x & 31 == 0:
        sums[warp] = total
    cuda.syncthreads()
    if share[0] == 0:
        for other in range(1, team >> 5):
            total += sums[warp + other]
        _store_value(outputs + row * 4, bits(total))


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


def merge(parts: int, row_bytes: int, outputs: int) -> None:
    """One CTA per row of parts of a result: reads it, a word per thread."""
    total = _sum_in_cta(parts + int64(cuda.blockIdx.x) * row_bytes, row_bytes)
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
    StepKernel.READ_CACHE: read_cache,
    StepKernel.MERGE: merge,
    StepKernel.MULTIPLY: multiply,
    StepKernel.COMBINE: combine,
    StepKernel.PICK: pick,
    StepKernel.FILL: fill,
}
"""The kernels' sources. Every argument is an int64: an address and a number of bytes are multiples of 16."""
