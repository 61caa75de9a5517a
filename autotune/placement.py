"""Where the ranges of a named layout lie: offsets into a host and a device allocation, drawn from a seed."""

from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pega_tune.autotune.layouts import STRIDE_RANGES, LayoutKind, NamedLayout
from pega_tune.errors import UsageError
from pega_tune.kernels.shape import TransferShape

SLOT_BYTES: Final = 16  # the widest access of a kernel
RUN_GAP_BYTES: Final = 4096  # at most; keeps the next run at a page boundary if ranges are whole pages

Offsets: TypeAlias = NDArray[np.uint64]
_Slots: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Placement:
    """The ranges of a batch, in the order in which its caller has them.

    Attributes:
        host_offsets: (n,) offsets in bytes into the host allocation, from 0.
        device_offsets: (n,) offsets in bytes into the device allocation, from 0.
        sizes: (n,) sizes in bytes, which differ by one at most.
    """

    host_offsets: Offsets
    device_offsets: Offsets
    sizes: Offsets


def place(shape: TransferShape, layout: NamedLayout, seed: int) -> Placement:
    """Lays out `shape.merged_ranges` ranges of equal sizes, the remainder spread one byte each.

    Shuffled sides have slots of a multiple of 16 bytes, so that each range begins at one; ordered sides have none
    between two ranges. No two ranges are adjacent on both sides, but in the contiguous layout, where all are.

    Raises:
        UsageError: the shape cannot have that layout, or asks for a pitch that the layout does not have.
    """
    described = layout.described(shape)
    if shape.pitch not in (None, described.pitch):
        raise UsageError(f"ranges of the layout {layout} have no pitch of {shape.pitch} bytes")
    rng = np.random.default_rng(seed)
    sizes = _sizes(shape, rng)
    match layout.kind:
        case LayoutKind.SHUFFLED:
            return _shuffled(sizes, rng)
        case LayoutKind.CONTIGUOUS:
            packed = _packed(sizes)
            return Placement(packed, packed, sizes)
        case LayoutKind.STRIDED:
            return Placement(_packed(sizes), np.uint64(STRIDE_RANGES) * _packed(sizes), sizes)
    return _in_host_runs(sizes, described.host_runs or 1, rng)


def span_bytes(shape: TransferShape, layout: NamedLayout) -> int:
    """Upper bound on what either side of a placement spans, without making it."""
    slot = _round_up(shape.average_range_bytes + 1, SLOT_BYTES)
    span = shape.merged_ranges * slot
    if layout.kind is LayoutKind.STRIDED:
        return STRIDE_RANGES * span
    return span + (layout.runs or 0) * min(slot, RUN_GAP_BYTES)


def _sizes(shape: TransferShape, rng: np.random.Generator) -> Offsets:
    n = shape.merged_ranges
    sizes = np.full(n, shape.average_range_bytes, np.uint64)
    sizes[rng.permutation(n)[: shape.total_bytes % n]] += np.uint64(1)
    return sizes


def _shuffled(sizes: Offsets, rng: np.random.Generator) -> Placement:
    n, step = len(sizes), np.uint64(_slot_bytes(sizes))
    device_of_host_slot = _scattered(n, rng)
    host_slots = rng.permutation(n)
    device_slots = device_of_host_slot[host_slots]
    return Placement(host_slots.astype(np.uint64) * step, device_slots.astype(np.uint64) * step, sizes)


def _in_host_runs(sizes: Offsets, runs: int, rng: np.random.Generator) -> Placement:
    """Packed runs with a gap between two of them; the batch takes the runs in random order, each in ascending order."""
    n, slot = len(sizes), _slot_bytes(sizes)
    device = _scattered(n, rng).astype(np.uint64) * np.uint64(slot)
    run_of = np.arange(n) * runs // n
    host = _packed(sizes) + run_of.astype(np.uint64) * np.uint64(min(slot, RUN_GAP_BYTES))
    order = np.argsort(rng.permutation(runs)[run_of], kind="stable")
    return Placement(host[order], device[order], sizes[order])


def _scattered(n: int, rng: np.random.Generator) -> _Slots:
    """(n,) a permutation in which no slot follows its predecessor; a draw succeeds with a chance of at least 1/e."""
    while True:
        slots = rng.permutation(n)
        if not (np.diff(slots) == 1).any():
            return slots


def _packed(sizes: Offsets) -> Offsets:
    offsets: Offsets = np.cumsum(sizes) - sizes
    return offsets


def _slot_bytes(sizes: Offsets) -> int:
    return _round_up(int(sizes.max()), SLOT_BYTES)


def _round_up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple
