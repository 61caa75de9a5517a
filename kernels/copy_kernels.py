"""The copy kernels: teams of threads that move ranges between device memory and mapped host memory.

Everything but the kernels at the end is built from an `Access` per width and a `jit`, so that the very same source
runs as device code over inline PTX and as plain Python over a modelled memory. Arithmetic is int64 throughout: device
addresses stay far below 2^63, and numba takes a mix of signed and unsigned 64-bit operands through float64.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from numba import cuda, int64

from pega_tune.kernels.plan import Variant
from pega_tune.kernels.ptx import Access, access, global_timer, warp_size
from pega_tune.kernels.recipe import DeviceFunction
from pega_tune.kernels.spans import SPAN_BYTES

UNROLL = 8
"""Loads that a thread has in flight before its first store: with 16 bytes each, a warp covers 4 KiB."""

DESCRIPTOR_BYTES = 24
"""A descriptor is three uint64: destination, source, bytes."""

Jit: TypeAlias = Callable[[DeviceFunction], DeviceFunction]


@dataclass(frozen=True, slots=True)
class Accesses:
    """How the kernels reach memory.

    Attributes:
        by16, by8, by4, by1: data, that many bytes at a time.
        descriptor: descriptors, 8 bytes at a time.
    """

    by16: Access
    by8: Access
    by4: Access
    by1: Access
    descriptor: Access


class Share(NamedTuple):
    """The part of one thread.

    Attributes:
        first: index of the first range that the thread's team copies.
        step: distance to its next one.
        rank: the thread's place in the team.
        threads: threads in the team, at least 32.
    """

    first: int
    step: int
    rank: int
    threads: int


def build_copy_ranges(memory: Accesses, jit: Jit) -> DeviceFunction:
    """The loop of one thread over its share of the ranges.

    Returns:
        `copy_ranges(descriptors, count, share)`. The next descriptor is fetched while the current range is copied: a
        warp spends a few microseconds on 4 KiB, to which a dependent load would add its whole latency.
    """
    copy_range = build_copy_range(memory, jit)
    load_if = memory.descriptor.load_if

    @jit
    def fetch(address: int, wanted: bool) -> tuple[int, int, int]:
        return load_if(address, wanted), load_if(address + 8, wanted), load_if(address + 16, wanted)

    @jit
    def copy_ranges(descriptors: int, count: int, share: Share) -> None:
        index = share.first
        address = descriptors + DESCRIPTOR_BYTES * index
        dst, src, nbytes = fetch(address, index < count)
        while index < count:
            index += share.step
            address += DESCRIPTOR_BYTES * share.step
            next_dst, next_src, next_nbytes = fetch(address, index < count)
            copy_range(dst, src, nbytes, share.rank, share.threads)
            dst, src, nbytes = next_dst, next_src, next_nbytes

    return copy_ranges


def build_copy_range(memory: Accesses, jit: Jit) -> DeviceFunction:
    """One range of any size and alignment, copied by a team.

    Returns:
        `copy_range(dst, src, nbytes, rank, threads)`, which uses the widest access whose alignment both sides reach
        after the same number of bytes.
    """
    copy16, copy8, copy4 = (_copy_aligned(data, memory.by1, jit) for data in (memory.by16, memory.by8, memory.by4))
    copy1 = _copy_body(memory.by1, jit)

    @jit
    def copy_range(dst: int, src: int, nbytes: int, rank: int, threads: int) -> None:
        skew = dst ^ src
        if skew & 15 == 0:
            copy16(dst, src, nbytes, rank, threads)
        elif skew & 7 == 0:
            copy8(dst, src, nbytes, rank, threads)
        elif skew & 3 == 0:
            copy4(dst, src, nbytes, rank, threads)
        else:
            copy1(dst, src, nbytes, rank, threads)

    return copy_range


def _copy_aligned(data: Access, single: Access, jit: Jit) -> DeviceFunction:
    """A range as an aligned body and the bytes before and after it.

    Those are fewer than 2 x 15, at most one for each thread of a team: its load is in flight beside those of the body.
    """
    low_bits, shift = data.width_bytes - 1, data.width_bytes.bit_length() - 1
    load_byte_if, store_byte_if = single.load_if, single.store_if
    copy_body = _copy_body(data, jit)

    @jit
    def copy_aligned(dst: int, src: int, nbytes: int, rank: int, threads: int) -> None:
        head = min(-dst & low_bits, nbytes)
        count = (nbytes - head) >> shift
        edge = rank if rank < head else rank + (count << shift)
        has_edge = edge < nbytes
        byte = load_byte_if(src + edge, has_edge)
        copy_body(dst + head, src + head, count, rank, threads)
        store_byte_if(dst + edge, byte, has_edge)

    return copy_aligned


def _copy_body(data: Access, jit: Jit) -> DeviceFunction:
    """`count` aligned elements: passes of `UNROLL` for every thread, then one of at most `UNROLL`, free of branches."""
    width = data.width_bytes
    full_pass, last_pass = _full_pass(data, jit), _last_pass(data, jit)

    @jit
    def copy_body(dst: int, src: int, count: int, rank: int, threads: int) -> None:
        step = threads * width
        offset = rank * width
        while count >= UNROLL * threads:
            full_pass(dst + offset, src + offset, step)
            offset += UNROLL * step
            count -= UNROLL * threads
        if count > 0:
            last_pass(dst + offset, src + offset, step, (count - rank) * width)

    return copy_body


def _full_pass(data: Access, jit: Jit) -> DeviceFunction:
    """`UNROLL` elements, `step` bytes apart. Written out, since not every version of the compiler would unroll it."""
    load, store = data.load, data.store

    @jit
    def full_pass(dst: int, src: int, step: int) -> None:
        v0 = load(src)
        v1 = load(src + step)
        v2 = load(src + 2 * step)
        v3 = load(src + 3 * step)
        v4 = load(src + 4 * step)
        v5 = load(src + 5 * step)
        v6 = load(src + 6 * step)
        v7 = load(src + 7 * step)
        store(dst, v0)
        store(dst + step, v1)
        store(dst + 2 * step, v2)
        store(dst + 3 * step, v3)
        store(dst + 4 * step, v4)
        store(dst + 5 * step, v5)
        store(dst + 6 * step, v6)
        store(dst + 7 * step, v7)

    return full_pass


def _last_pass(data: Access, jit: Jit) -> DeviceFunction:
    """The elements among `UNROLL` that begin less than `left` bytes from the first."""
    load_if, store_if = data.load_if, data.store_if

    @jit
    def last_pass(dst: int, src: int, step: int, left: int) -> None:
        v0 = load_if(src, left > 0)
        v1 = load_if(src + step, left > step)
        v2 = load_if(src + 2 * step, left > 2 * step)
        v3 = load_if(src + 3 * step, left > 3 * step)
        v4 = load_if(src + 4 * step, left > 4 * step)
        v5 = load_if(src + 5 * step, left > 5 * step)
        v6 = load_if(src + 6 * step, left > 6 * step)
        v7 = load_if(src + 7 * step, left > 7 * step)
        store_if(dst, v0, left > 0)
        store_if(dst + step, v1, left > step)
        store_if(dst + 2 * step, v2, left > 2 * step)
        store_if(dst + 3 * step, v3, left > 3 * step)
        store_if(dst + 4 * step, v4, left > 4 * step)
        store_if(dst + 5 * step, v5, left > 5 * step)
        store_if(dst + 6 * step, v6, left > 6 * step)
        store_if(dst + 7 * step, v7, left > 7 * step)

    return last_pass


# Inlined before typing: numba compiles a called device function for the GPU in the machine, and fails without one.
_inline = cuda.jit(device=True, inline="always")
_word = access(8, load_hint="")
_copy_ranges = build_copy_ranges(Accesses(access(16), access(8), access(4), access(1), descriptor=_word), _inline)


def copy_block(descriptors: int, count: int) -> None:
    """One CTA per range, grid-stride over the ranges."""
    first, step = int64(cuda.blockIdx.x), int64(cuda.gridDim.x)
    _copy_ranges(descriptors, count, Share(first, step, int64(cuda.threadIdx.x), int64(cuda.blockDim.x)))


def copy_warp(descriptors: int, count: int) -> None:
    """One warp per range, grid-stride over the ranges; the CTA is a multiple of 32 threads."""
    thread, warps = int64(cuda.threadIdx.x), int64(cuda.blockDim.x) >> 5
    first = int64(cuda.blockIdx.x) * warps + (thread >> 5)
    _copy_ranges(descriptors, count, Share(first, int64(cuda.gridDim.x) * warps, thread & 31, warp_size()))


KERNELS: dict[Variant, DeviceFunction] = {Variant.BLOCK: copy_block, Variant.WARP: copy_warp}
"""The kernels' sources. Arguments: int64 address of the descriptors, 8-aligned; int64 number of descriptors."""


def _timed(kernel: DeviceFunction) -> DeviceFunction:
    """The same kernel, whose first thread of each CTA writes down the CTA's span.

    Stores are predicated rather than branched around, so that no thread can reach the barrier by a way of its own.
    """
    copy, store_if = _inline(kernel), _word.store_if

    def timed(descriptors: int, count: int, spans: int) -> None:
        leads = cuda.threadIdx.x == 0
        span = spans + SPAN_BYTES * int64(cuda.blockIdx.x)
        store_if(span, global_timer(), leads)
        copy(descriptors, count)
        cuda.syncthreads()
        store_if(span + 8, global_timer(), leads)

    return timed


TIMED_KERNELS: dict[Variant, DeviceFunction] = {variant: _timed(kernel) for variant, kernel in KERNELS.items()}
"""Variants of the kernels for measuring alone. A third argument: int64 address of a span per CTA, 8-aligned."""
