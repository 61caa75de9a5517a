"""Fresh data, poison, and the comparison of what arrived with what was sent: native, on several threads.

Data has the top bit of every byte clear and poison has it set, so that a byte which was not written is never right.
"""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import numpy as np
from numpy.typing import NDArray

from pega_tune.autotune.cuda.layout import Gaps, Layout
from pega_tune.kernels.closing import Closing
from pega_tune.kernels.native import native
from pega_tune.kernels.ranges import Addresses

POISON: Final = 0xC3
_POISON: Final = np.uint8(POISON)

_MAX_THREADS: Final = 8
_WORD_BYTES: Final = 8
_CHUNKS_PER_THREAD: Final = 2
_DATA_BITS: Final = np.uint64(0x7F7F7F7F7F7F7F7F)
# Increment and multipliers of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
_GOLDEN: Final = np.uint64(0x9E3779B97F4A7C15)
_MIX_1: Final = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2: Final = np.uint64(0x94D049BB133111EB)


class Comparer(Closing):
    """Fills and compares slabs of bytes; slabs begin at multiples of 8 and their sizes are multiples of 8."""

    def __init__(self, threads: int | None = None) -> None:
        """Starts the threads; by default up to 8 of the CPUs that this process may use."""
        self._threads = threads or min(_MAX_THREADS, len(os.sched_getaffinity(0)))
        self._pool = ThreadPoolExecutor(self._threads, thread_name_prefix="compare")

    def close(self) -> None:
        """Ends the threads."""
        self._pool.shutdown()

    def fill(self, slab: NDArray[np.uint8], seed: int) -> None:
        """Writes random data that follows from `seed`."""
        words = slab.view(np.uint64)
        self._each(len(words), lambda begin, end: _fill(words[begin:end], np.uint64(begin), np.uint64(seed)))

    def poison(self, slab: NDArray[np.uint8]) -> None:
        """Writes the poison byte everywhere."""
        words = slab.view(np.uint64)
        pattern = np.uint64(int.from_bytes(bytes([POISON]) * _WORD_BYTES, "little"))
        self._each(len(words), lambda begin, end: _write(words[begin:end], pattern))

    def difference(self, host: NDArray[np.uint8], device: NDArray[np.uint8], layout: Layout) -> str:
        """The first range whose bytes differ between the host slab and a copy of the device slab; empty if none."""
        columns = (layout.host_offsets, layout.device_offsets, layout.nbytes)
        found = self._each(
            len(layout.nbytes),
            lambda begin, end: begin + int(_first_difference(host, device, *(c[begin:end] for c in columns))),
        )
        ends = self._bounds(len(layout.nbytes))[1:]
        for index, end in zip(found, ends, strict=True):
            if index < end:
                return (
                    f"range {index} of {int(layout.nbytes[index])} bytes is wrong, at device offset "
                    f"{int(layout.device_offsets[index])} and host offset {int(layout.host_offsets[index])}"
                )
        return ""

    def trespass(self, destination: NDArray[np.uint8], gaps: Gaps) -> str:
        """The first byte outside the ranges that is no longer poison; empty if there is none."""
        found = self._each(
            len(gaps.begins),
            lambda begin, end: int(_first_write(destination, gaps.begins[begin:end], gaps.ends[begin:end], _POISON)),
        )
        offset = next((offset for offset in found if offset >= 0), None)
        return "" if offset is None else f"a byte outside the ranges was written, at offset {offset}"

    def _each(self, length: int, work: Callable[[int, int], int | None]) -> list[int]:
        """Runs `work(begin, end)` over pieces of `range(length)`; their results in order."""
        bounds = self._bounds(length)
        return [result or 0 for result in self._pool.map(work, bounds[:-1], bounds[1:])]

    def _bounds(self, length: int) -> Sequence[int]:
        pieces = max(1, min(length, self._threads * _CHUNKS_PER_THREAD))
        return [length * piece // pieces for piece in range(pieces + 1)]


@native
def _fill(words: Addresses, first: np.uint64, seed: np.uint64) -> None:
    start = seed * _MIX_1 + first * _GOLDEN
    for i in range(words.shape[0]):
        z = start + np.uint64(i) * _GOLDEN
        z = (z ^ (z >> np.uint64(30))) * _MIX_1
        z = (z ^ (z >> np.uint64(27))) * _MIX_2
        words[i] = (z ^ (z >> np.uint64(31))) & _DATA_BITS


@native
def _write(words: Addresses, pattern: np.uint64) -> None:
    for i in range(words.shape[0]):
        words[i] = pattern


@native
def _first_difference(
    host: NDArray[np.uint8],
    device: NDArray[np.uint8],
    host_offsets: Addresses,
    device_offsets: Addresses,
    nbytes: Addresses,
) -> int:
    """Index of the first range that differs; the number of ranges if none does."""
    for i in range(nbytes.shape[0]):
        size = np.int64(nbytes[i])
        here = host[np.int64(host_offsets[i]) : np.int64(host_offsets[i]) + size]
        there = device[np.int64(device_offsets[i]) : np.int64(device_offsets[i]) + size]
        different = np.uint8(0)
        for j in range(size):
            different |= here[j] ^ there[j]
        if different:
            return i
    return len(nbytes)


@native
def _first_write(slab: NDArray[np.uint8], begins: Addresses, ends: Addresses, poison: np.uint8) -> int:
    """Offset of the first byte between `begins` and `ends` that is not poison, or -1."""
    for i in range(begins.shape[0]):
        begin, end = np.int64(begins[i]), np.int64(ends[i])
        gap = slab[begin:end]
        strange = np.uint8(0)
        for j in range(end - begin):
            strange |= gap[j] ^ poison
        if strange:
            for j in range(end - begin):
                if gap[j] != poison:
                    return int(begin) + j
    return -1
