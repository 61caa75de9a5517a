"""Where the ranges of a block lie in the two slabs of a direction."""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from pega_tune.autotune.layouts import SHUFFLED, NamedLayout
from pega_tune.autotune.placement import SLOT_BYTES, place, span_bytes
from pega_tune.kernels.ranges import Addresses
from pega_tune.kernels.shape import TransferShape

GUARD_BYTES: Final = 4096  # before the first and after the last range; a page, so that slots begin at a page

ODD_SIZES: Final = 4097
# Longer than any tile, so that cutting is verified at odd addresses too.
ODD_LONG_SIZES: Final = (65_537, 262_147, 1_048_573, 2_097_169)


@dataclass(frozen=True, slots=True, eq=False)
class Gaps:
    """What a transfer must leave alone on one side.

    Attributes:
        begins: (m,) first offsets of the gaps, ascending.
        ends: (m,) offsets just past them.
    """

    begins: Addresses
    ends: Addresses


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """Ranges between a host slab and a device slab of `extent_bytes` each.

    Attributes:
        host_offsets: (n,) offsets into the host slab.
        device_offsets: (n,) offsets into the device slab.
        nbytes: (n,) sizes.
        extent_bytes: what either slab needs, guards included; a multiple of `SLOT_BYTES`.
    """

    host_offsets: Addresses
    device_offsets: Addresses
    nbytes: Addresses
    extent_bytes: int

    def host_gaps(self) -> Gaps:
        """The bytes between the ranges of the host slab."""
        return self._gaps(self.host_offsets)

    def device_gaps(self) -> Gaps:
        """The bytes between the ranges of the device slab."""
        return self._gaps(self.device_offsets)

    def _gaps(self, offsets: Addresses) -> Gaps:
        order = np.argsort(offsets)
        begins = np.concatenate((np.zeros(1, np.uint64), (offsets + self.nbytes)[order]))
        ends = np.concatenate((offsets[order], np.array([self.extent_bytes], np.uint64)))
        wide = begins < ends
        return Gaps(begins[wide], ends[wide])


def equal_ranges(shape: TransferShape, seed: int, layout: NamedLayout = SHUFFLED) -> Layout:
    """The ranges of a block: equal sizes, laid out as named.

    Of the shuffled layout, slots lie side by side; sizes that are no multiple of 16 leave gaps, so that each range
    starts at a multiple of 16. A smaller `shape.alignment` moves all starts by that much.

    Raises:
        UsageError: the shape asks for a structure that the layout does not have.
    """
    placed = place(shape, layout, seed)
    shift = (shape.alignment or SLOT_BYTES) % SLOT_BYTES
    first = np.uint64(GUARD_BYTES + shift)
    host, device, nbytes = placed.host_offsets, placed.device_offsets, placed.sizes
    span = int(max((host + nbytes).max(), (device + nbytes).max()))
    extent = 2 * GUARD_BYTES + _round_up(span, SLOT_BYTES) + (SLOT_BYTES if shift else 0)
    return Layout(first + host, first + device, nbytes, extent)


def extent_bytes(shape: TransferShape, layout: NamedLayout = SHUFFLED) -> int:
    """Upper bound on `equal_ranges(shape, ..., layout).extent_bytes`, without making it."""
    return 2 * GUARD_BYTES + _round_up(span_bytes(shape, layout), SLOT_BYTES) + SLOT_BYTES


def odd_ranges(seed: int) -> Layout:
    """Every size from 1 to 4097 and a few long ones, over all pairs of alignments modulo 16, with gaps between."""
    rng = np.random.default_rng(seed)
    nbytes = rng.permutation(np.concatenate((np.arange(1, ODD_SIZES + 1), ODD_LONG_SIZES))).astype(np.uint64)
    index = np.arange(len(nbytes), dtype=np.uint64)
    slots = np.uint64(SLOT_BYTES)
    host_offsets = _spread(nbytes, index % slots, rng)
    device_offsets = _spread(nbytes, index // slots % slots, rng)
    extent = int(max((host_offsets + nbytes).max(), (device_offsets + nbytes).max())) + GUARD_BYTES
    return Layout(host_offsets, device_offsets, nbytes, _round_up(extent, SLOT_BYTES))


def _spread(nbytes: Addresses, residues: Addresses, rng: np.random.Generator) -> Addresses:
    """Offsets in a random order, each congruent to its residue modulo 16, with 1 to 31 free bytes before it."""
    order: NDArray[np.int64] = rng.permutation(len(nbytes))
    offsets = np.empty(len(nbytes), np.uint64)
    end = GUARD_BYTES
    for index in order:
        end += 1 + (int(residues[index]) - end - 1) % SLOT_BYTES
        offsets[index] = end
        end += int(nbytes[index])
    return offsets


def _round_up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple
