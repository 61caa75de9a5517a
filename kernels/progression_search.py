"""The native search for arithmetic progressions; what it finds is a `progressions.Progressions`."""

from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pega_tune.kernels.native import native
from pega_tune.kernels.ordering import Indices
from pega_tune.kernels.ranges import Addresses, Ids

MIN_ROWS: Final = 3  # a 2-D copy costs the host about as much as two plain ones
MAX_PERIOD: Final = 8
MAX_PITCH: Final = 2**31 - 1  # CU_DEVICE_ATTRIBUTE_MAX_PITCH of every device

# A run is compared element by element at first, as most runs are short, then in blocks, each twice as long as the last.
_SHORT = np.uint64(64)
_LONGEST_BLOCK = np.uint64(512)

_IN_PLACE = np.empty(0, np.int32)  # stands for the order 0, 1, 2, ...
_LONGEST = np.uint64(MAX_PITCH)
_ZERO, _ONE = np.uint64(0), np.uint64(1)

Table: TypeAlias = NDArray[np.uint64]
"""(6, at least n): device and host addresses, bytes, device and host pitches, and rows of n copies."""

Columns: TypeAlias = tuple[Addresses, Addresses, Addresses]
"""Device addresses, host addresses and sizes in bytes, each (n,)."""

Allocations: TypeAlias = tuple[Ids, Ids]
"""Of the device and the host, each (n,)."""

Scratch: TypeAlias = tuple[NDArray[np.uint64], Ids]
"""(3, at least n) columns and (2, at least n) allocations of ranges that have been joined."""


@native
def search(columns: Columns, allocations: Allocations, scratch: Scratch, found: Table) -> tuple[int, int, bool]:
    """Searches (n,) ranges in the order given, joined if any can be.

    Args:
        columns: three arrays (n,).
        allocations: two arrays (n,).
        scratch: for what is joined.
        found: (6, at least n), receives the progressions.

    Returns:
        How many progressions, how many ranges were joined to others, and whether host addresses ascend.
    """
    joins, ascending = _count_joins(columns, allocations)
    if joins:
        return search_joined((columns, allocations), _IN_PLACE, scratch, found), joins, ascending
    return _find(columns, allocations, found), joins, ascending


@native
def search_joined(ranges: tuple[Columns, Allocations], order: Indices, scratch: Scratch, found: Table) -> int:
    """The number of progressions among ranges that are put into an order, then joined; otherwise as `search`."""
    merged, ids = scratch
    length = _join(ranges[0], ranges[1], order, merged, ids)
    joined = merged[0, :length], merged[1, :length], merged[2, :length]
    return _find(joined, (ids[0, :length], ids[1, :length]), found)


@native
def _count_joins(columns: Columns, allocations: Allocations) -> tuple[int, bool]:
    """How many of (n,) ranges continue the one before them on both sides, and whether host addresses ascend."""
    device, host, nbytes = columns
    device_ids, host_ids = allocations
    joins = 0
    ascending = True
    for k in range(1, device.shape[0]):
        i = k - 1
        size = nbytes[i]
        ascending &= host[k] >= host[i]
        touching = (device[i] + size == device[k]) & (host[i] + size == host[k])  # without branches: it vectorises
        joins += touching & (device_ids[i] == device_ids[k]) & (host_ids[i] == host_ids[k])
    return joins, ascending


@native
def _join(columns: Columns, allocations: Allocations, order: Indices, merged: Table, ids: Ids) -> int:
    """Joins ranges to those before them, in an order.

    Args:
        columns: three arrays (n,).
        allocations: two arrays (n,).
        order: (n,) indices, or `_IN_PLACE`.
        merged: (3, at least n), receives the joined columns.
        ids: (2, at least n), receives their allocations.

    Returns:
        How many are left.
    """
    device, host, nbytes = columns
    device_ids, host_ids = allocations
    in_place = order.shape[0] == 0
    last = -1
    for k in range(device.shape[0]):
        i = k if in_place else np.int64(order[k])
        if (
            last >= 0
            and merged[0, last] + merged[2, last] == device[i]
            and merged[1, last] + merged[2, last] == host[i]
            and ids[0, last] == device_ids[i]
            and ids[1, last] == host_ids[i]
        ):
            merged[2, last] += nbytes[i]
            continue
        last += 1
        merged[0, last], merged[1, last], merged[2, last] = device[i], host[i], nbytes[i]
        ids[0, last], ids[1, last] = device_ids[i], host_ids[i]
    return last + 1


@native
def _find(columns: Columns, allocations: Allocations, found: Table) -> int:
    """Covers (n,) ranges with runs, from the first on, each as long per progression as any period makes it.

    A run of period p is p interleaved progressions. A period is followed up only if its first progression can have
    more rows than the best run so far, which one element tells. So a step costs no more than a constant times the
    ranges that it covers.

    Args:
        columns: three arrays (n,).
        allocations: two arrays (n,).
        found: (6, at least n), receives the progressions.

    Returns:
        How many they are.
    """
    device, host, _ = columns
    total, start = np.uint64(device.shape[0]), _ZERO  # unsigned, so that no index is taken for negative
    count = np.int64(0)
    while start < total:
        length, period, rows = _ONE, _ONE, np.uint64(MIN_ROWS - 1)
        for number in range(1, MAX_PERIOD + 1):
            candidate = np.uint64(number)
            second, next_row = start + candidate, start + candidate * rows
            if next_row >= total:
                break
            if device[next_row] - device[start] != rows * (device[second] - device[start]):
                continue
            if host[next_row] - host[start] != rows * (host[second] - host[start]):
                continue
            reach = _reach(columns, allocations, start, candidate)
            if reach // candidate > rows:
                length, period, rows = reach, candidate, reach // candidate
        _write(columns, (np.int64(start), np.int64(length), np.int64(period)), found, count)
        count += np.int64(period)
        start += length
    return int(count)


@native
def _reach(columns: Columns, allocations: Allocations, start: np.uint64, period: np.uint64) -> np.uint64:
    """The length of the longest run of a period that begins at `start`.

    All but the blocks stands here, not in functions of their own: handing on the arrays would count references to them.
    """
    device, host, nbytes = columns
    device_ids, host_ids = allocations
    total = np.uint64(device.shape[0])
    k = start + period
    third_rows = k + period
    block, in_blocks = _SHORT, third_rows + _SHORT  # from where on it goes in blocks, until one bends
    while k < total:
        if k >= in_blocks:
            end = min(k + block, total)
            if not _bends(columns, allocations, (np.int64(k), np.int64(end), np.int64(period))):
                k, block = end, min(block + block, _LONGEST_BLOCK)
                continue
            in_blocks = total
        i = k - period
        if nbytes[k] != nbytes[i] or device_ids[k] != device_ids[i] or host_ids[k] != host_ids[i]:
            break
        device_step, host_step = device[k] - device[i], host[k] - host[i]
        if k >= third_rows:
            j = i - period
            if device_step != device[i] - device[j] or host_step != host[i] - host[j]:
                break
        else:
            if device_step > _LONGEST:  # descending, if anything
                device_step, host_step = _ZERO - device_step, _ZERO - host_step
            if min(device_step, host_step) < nbytes[k] or max(device_step, host_step) > _LONGEST:
                break
        k += _ONE
    return k - start


@native
def _bends(columns: Columns, allocations: Allocations, block: tuple[np.int64, np.int64, np.int64]) -> bool:
    """Whether any range of a block (first, end, period) does not follow on the two rows before it.

    The slices tell the compiler that no index is negative, and there are no branches; so it vectorises.
    """
    device, host, nbytes = columns
    device_ids, host_ids = allocations
    first, end, period = block
    above, above_end = first - period, end - period
    top, top_end = above - period, above_end - period
    device0, device1, device2 = device[top:top_end], device[above:above_end], device[first:end]
    host0, host1, host2 = host[top:top_end], host[above:above_end], host[first:end]
    size1, size2 = nbytes[above:above_end], nbytes[first:end]
    device_id1, device_id2 = device_ids[above:above_end], device_ids[first:end]
    host_id1, host_id2 = host_ids[above:above_end], host_ids[first:end]
    bent = _ZERO
    for k in range(size2.shape[0]):
        bent |= (device2[k] - device1[k]) - (device1[k] - device0[k])
        bent |= (host2[k] - host1[k]) - (host1[k] - host0[k])
        bent |= size2[k] ^ size1[k]
        bent |= np.uint64((device_id2[k] ^ device_id1[k]) | (host_id2[k] ^ host_id1[k]))
    return bool(bent != _ZERO)


@native
def _write(columns: Columns, run: tuple[np.int64, np.int64, np.int64], found: Table, count: np.int64) -> None:
    """Writes the progressions of a run (start, length, period), each ascending, from column `count` of `found` on."""
    device, host, nbytes = columns
    start, length, period = run
    for phase in range(period):
        first = start + phase
        rows = (length - phase + period - 1) // period
        size = nbytes[first]
        device_pitch = host_pitch = size
        if rows > 1:
            device_pitch, host_pitch = device[first + period] - device[first], host[first + period] - host[first]
            if device_pitch > _LONGEST:
                first += (rows - 1) * period
                device_pitch, host_pitch = _ZERO - device_pitch, _ZERO - host_pitch
            if device_pitch == size and host_pitch == size:  # interleaved or descending, but without gaps
                size, rows = size * np.uint64(rows), np.int64(1)
                device_pitch = host_pitch = size
        column = count + phase
        found[0, column], found[1, column], found[2, column] = device[first], host[first], size
        found[3, column], found[4, column], found[5, column] = device_pitch, host_pitch, np.uint64(rows)
