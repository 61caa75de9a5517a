from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pega_tune.autotune.cuda.layout import (
    GUARD_BYTES,
    ODD_LONG_SIZES,
    ODD_SIZES,
    Layout,
    equal_ranges,
    extent_bytes,
    odd_ranges,
)
from pega_tune.autotune.layouts import NamedLayout
from pega_tune.errors import UsageError
from pega_tune.kernels.ranges import DeviceRegion, HostRegion, RangeBatch
from pega_tune.kernels.shape import Direction, TransferShape

shapes = st.builds(
    lambda n, size, rest, alignment: TransferShape(n, n * size + rest % n, alignment=alignment),
    st.integers(1, 300),
    st.integers(1, 5000),
    st.integers(0, 10_000),
    st.sampled_from((None, 1, 2, 4, 8, 16)),
)
seeds = st.integers(0, 2**31)


def _batch(layout: Layout) -> RangeBatch:
    size = layout.extent_bytes
    return RangeBatch.within(
        DeviceRegion(0x7000_0000_0000, size, 0),
        HostRegion(0x1000_0000, 0x2000_0000, size, 0),
        layout.device_offsets,
        layout.host_offsets,
        layout.nbytes,
    )


def _overlaps(offsets: np.ndarray, nbytes: np.ndarray) -> bool:
    order = np.argsort(offsets)
    return bool(((offsets + nbytes)[order][:-1] > offsets[order][1:]).any())


@given(shapes, seeds)
def test_the_block_has_the_shape_that_was_asked_for(shape: TransferShape, seed: int) -> None:
    layout = equal_ranges(shape, seed)
    found = _batch(layout).shape(Direction.BOTH)
    assert (found.merged_ranges, found.total_bytes) == (shape.merged_ranges, shape.total_bytes)
    assert int(layout.nbytes.max() - layout.nbytes.min()) <= 1


@given(shapes, seeds)
def test_ranges_do_not_overlap_and_keep_off_the_guards(shape: TransferShape, seed: int) -> None:
    layout = equal_ranges(shape, seed)
    for offsets in (layout.host_offsets, layout.device_offsets):
        assert not _overlaps(offsets, layout.nbytes)
        assert offsets.min() >= GUARD_BYTES
        assert (offsets + layout.nbytes).max() + GUARD_BYTES <= layout.extent_bytes
    assert layout.extent_bytes <= extent_bytes(shape)


@given(shapes, seeds, st.sampled_from(("contiguous", "host-ordered", "runs:1", "strided")))
def test_other_layouts_have_the_same_guards(shape: TransferShape, seed: int, text: str) -> None:
    layout = NamedLayout.parse(text)
    equal = replace(shape, total_bytes=shape.merged_ranges * shape.average_range_bytes)
    placed = equal_ranges(equal, seed, layout)
    assert _batch(placed).shape(Direction.BOTH).host_runs == 1
    for offsets in (placed.host_offsets, placed.device_offsets):
        assert not _overlaps(offsets, placed.nbytes)
        assert offsets.min() >= GUARD_BYTES
        assert (offsets + placed.nbytes).max() + GUARD_BYTES <= placed.extent_bytes
    assert placed.extent_bytes <= extent_bytes(equal, layout)
    assert placed.extent_bytes % 16 == 0


def test_starts_are_aligned_as_asked() -> None:
    for alignment in (1, 2, 4, 8, 16):
        layout = equal_ranges(TransferShape(64, 64 * 48, alignment=alignment), 1)
        starts = np.concatenate((layout.host_offsets, layout.device_offsets))
        assert int(np.bitwise_or.reduce(starts)) & 15 == alignment % 16


def test_whole_slots_lie_side_by_side_in_an_order_of_their_own() -> None:
    layout = equal_ranges(TransferShape(16_384, 64 << 20), 7)
    for offsets in (layout.host_offsets, layout.device_offsets):
        assert (np.diff(np.sort(offsets)) == 4096).all()
        assert (np.diff(offsets.astype(np.int64)) == 4096).mean() < 0.01
    assert (layout.host_offsets != layout.device_offsets).mean() > 0.99


def test_the_seed_alone_decides() -> None:
    shape = TransferShape(500, 500 * 256)
    first, again, other = (equal_ranges(shape, seed) for seed in (1, 1, 2))
    assert (first.host_offsets == again.host_offsets).all()
    assert (first.device_offsets == again.device_offsets).all()
    assert (first.host_offsets != other.host_offsets).any()


def test_a_pitch_is_refused() -> None:
    with pytest.raises(UsageError, match="pitch"):
        equal_ranges(TransferShape(4, 64, pitch=32), 1)


@given(shapes, seeds)
def test_gaps_and_ranges_are_everything(shape: TransferShape, seed: int) -> None:
    layout = equal_ranges(shape, seed)
    for offsets, gaps in (
        (layout.host_offsets, layout.host_gaps()),
        (layout.device_offsets, layout.device_gaps()),
    ):
        covered = np.zeros(layout.extent_bytes, np.int64)
        for begin, size in zip(offsets.tolist(), layout.nbytes.tolist(), strict=True):
            covered[begin : begin + size] += 1
        for begin, end in zip(gaps.begins.tolist(), gaps.ends.tolist(), strict=True):
            covered[begin:end] += 1
        assert (covered == 1).all()


def test_odd_ranges_have_every_size_and_every_pair_of_alignments() -> None:
    layout = odd_ranges(3)
    assert sorted(layout.nbytes.tolist()) == [*range(1, ODD_SIZES + 1), *ODD_LONG_SIZES]
    pairs = set(zip((layout.host_offsets % 16).tolist(), (layout.device_offsets % 16).tolist(), strict=True))
    assert len(pairs) == 256
    for offsets, gaps in (
        (layout.host_offsets, layout.host_gaps()),
        (layout.device_offsets, layout.device_gaps()),
    ):
        assert not _overlaps(offsets, layout.nbytes)
        assert len(gaps.begins) == len(layout.nbytes) + 1
        assert (offsets + layout.nbytes).max() + GUARD_BYTES <= layout.extent_bytes
