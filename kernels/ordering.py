"""A stable native sort of addresses."""

from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pega_tune.kernels.native import native
from pega_tune.kernels.ranges import Addresses

Indices: TypeAlias = NDArray[np.int32]

DIGIT_BITS = 11  # 2,048 counters of 4 bytes are a quarter of a usual first-level cache; 8 to 12 bits measure alike
MAX_PASSES = -(-64 // DIGIT_BITS)

_ONE = np.uint64(1)


class Sorter:
    """Sorts up to `capacity` addresses without allocating. It is not thread-safe."""

    def __init__(self, capacity: int) -> None:
        self._order = np.empty(capacity, np.int32)
        self._spare = np.empty(capacity, np.int32)
        self._counts = np.empty((MAX_PASSES, 1 << DIGIT_BITS), np.int32)

    def order(self, addresses: Addresses) -> Indices:
        """Indices that put (n,) addresses into ascending order, equal ones staying in theirs.

        Returns:
            (n,) indices, a view that the next call overwrites.
        """
        in_spare = _sort(addresses, self._order, self._spare, self._counts)
        return (self._spare if in_spare else self._order)[: len(addresses)]


class _Digits(NamedTuple):
    """How addresses are cut: digit p holds the `width` bits of `(address - low) >> (shift + p * width)`."""

    low: np.uint64
    shift: np.uint64
    width: np.uint64


@native
def _sort(addresses: Addresses, order: Indices, spare: Indices, counts: Indices) -> bool:
    """Sorts indices by address: least significant digit first, on the bits in which the addresses differ at all.

    The bits below the alignment and above the span of the addresses cost nothing, nor does a digit that all share:
    16,384 pages of one 64 MiB pool need two passes, not six.

    Args:
        addresses: (n,) addresses, n at least 1.
        order: at least (n,), receives the indices, or half-way results.
        spare: as `order`.
        counts: (MAX_PASSES, 2^DIGIT_BITS) scratch.

    Returns:
        Whether the result is in `spare` instead of `order`.
    """
    low, shift, bits = _differing_bits(addresses)
    passes = (bits + DIGIT_BITS - 1) // DIGIT_BITS
    width = (bits + passes - 1) // passes if passes else 0
    digits = _Digits(low, shift, np.uint64(width))
    _count(addresses, digits, counts[:passes, : 1 << width])
    for i in range(addresses.shape[0]):
        order[i] = i
    in_spare = False
    for p in range(passes):
        positions = counts[p, : 1 << width]
        if not _to_positions(positions, addresses.shape[0]):
            continue
        source, target = (spare, order) if in_spare else (order, spare)
        _scatter(addresses, digits, p, source, target, positions)
        in_spare = not in_spare
    return in_spare


@native
def _differing_bits(addresses: Addresses) -> tuple[np.uint64, np.uint64, int]:
    """The lowest address, the number of low bits that all share, and the number of bits of their differences above."""
    first = addresses[0]
    low = high = first
    differing = np.uint64(0)
    for address in addresses:
        low = min(low, address)
        high = max(high, address)
        differing |= address ^ first
    shift = np.uint64(0)
    if differing:
        while not (differing >> shift) & _ONE:
            shift += _ONE
    span = (high - low) >> shift
    bits = 0
    while span:
        span >>= _ONE
        bits += 1
    return low, shift, bits


@native
def _count(addresses: Addresses, digits: _Digits, counts: Indices) -> None:
    """Counts every digit of every address, in one pass over them, into (passes, 2^width) counts."""
    mask = (_ONE << digits.width) - _ONE
    counts[:] = 0
    for address in addresses:
        rest = (address - digits.low) >> digits.shift
        for p in range(counts.shape[0]):
            counts[p, np.int64(rest & mask)] += 1
            rest >>= digits.width


@native
def _to_positions(counts: Indices, total: int) -> bool:
    """Turns the counts of one digit into first positions; False if one value has them all."""
    position = 0
    for value in range(counts.shape[0]):
        count = counts[value]
        if count == total:
            return False
        counts[value] = position
        position += count
    return True


@native
def _scatter(
    addresses: Addresses,
    digits: _Digits,
    p: int,
    source: Indices,
    target: Indices,
    positions: Indices,
) -> None:
    """One pass: moves the indices, in their order, to the positions of their digit p."""
    mask = (_ONE << digits.width) - _ONE
    shift = digits.shift + np.uint64(p) * digits.width
    for index in source[: addresses.shape[0]]:
        digit = np.int64(((addresses[index] - digits.low) >> shift) & mask)
        target[positions[digit]] = index
        positions[digit] += 1
