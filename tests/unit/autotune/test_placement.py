import hashlib

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from pega_tune.autotune.layouts import SHUFFLED, NamedLayout
from pega_tune.autotune.placement import Placement, place, span_bytes
from pega_tune.errors import UsageError
from pega_tune.kernels.ranges import DeviceRegion, HostRegion, RangeBatch
from pega_tune.kernels.shape import Direction, TransferShape

shapes = st.builds(
    lambda n, size, rest: TransferShape(n, n * size + rest % n),
    st.integers(1, 200),
    st.integers(1, 3000),
    st.integers(0, 10_000),
)
layouts = st.one_of(
    st.sampled_from(("contiguous", "strided", "shuffled", "host-ordered")).map(NamedLayout.parse),
    st.integers(1, 200).map(lambda runs: NamedLayout.parse(f"runs:{runs}")),
)
seeds = st.integers(0, 2**31)
STRIDED, CONTIGUOUS, ORDERED = map(NamedLayout.parse, ("strided", "contiguous", "host-ordered"))


def _fits(shape: TransferShape, layout: NamedLayout) -> bool:
    try:
        layout.described(shape)
    except UsageError:
        return False
    return True


def _batch(placed: Placement) -> RangeBatch:
    size = 1 << 40
    return RangeBatch.within(
        DeviceRegion(0x7000_0000_0000, size, 0),
        HostRegion(0x1000_0000_0000, 0x2000_0000_0000, size, 0),
        placed.device_offsets,
        placed.host_offsets,
        placed.sizes,
    )


@given(shapes, layouts, seeds)
def test_ranges_are_as_the_layout_says(shape: TransferShape, layout: NamedLayout, seed: int) -> None:
    assume(_fits(shape, layout))
    found, expected = _batch(place(shape, layout, seed)).shape(Direction.BOTH), layout.merged(shape)
    assert (found.merged_ranges, found.total_bytes) == (expected.merged_ranges, expected.total_bytes)
    assert expected.host_runs in (None, found.host_runs)


@given(shapes, layouts, seeds)
def test_ranges_do_not_overlap_and_lie_within_the_span(shape: TransferShape, layout: NamedLayout, seed: int) -> None:
    assume(_fits(shape, layout))
    placed = place(shape, layout, seed)
    for offsets in (placed.host_offsets, placed.device_offsets):
        order = np.argsort(offsets)
        assert (offsets[order][1:] >= (offsets + placed.sizes)[order][:-1]).all()
        assert int((offsets + placed.sizes).max()) <= span_bytes(shape, layout)
    assert int(placed.sizes.max() - placed.sizes.min()) <= 1


@pytest.mark.parametrize("text", ["shuffled", "host-ordered", "runs:16"])
def test_the_seed_alone_decides(text: str) -> None:
    layout, shape = NamedLayout.parse(text), TransferShape(500, 500 * 256)
    first, again, other = (place(shape, layout, seed) for seed in (1, 1, 2))
    assert (first.device_offsets == again.device_offsets).all()
    assert (first.host_offsets == again.host_offsets).all()
    assert (first.device_offsets != other.device_offsets).any()


def test_a_stride_is_twice_the_range_on_the_device_and_none_on_the_host() -> None:
    placed = place(TransferShape(100, 100 * 4096), STRIDED, 1)
    assert set(np.diff(placed.device_offsets).tolist()) == {8192}
    assert set(np.diff(placed.host_offsets).tolist()) == {4096}


def test_an_ordered_host_side_is_one_ascending_run_under_a_shuffled_device_side() -> None:
    placed = place(TransferShape(1000, 1000 * 4096), ORDERED, 1)
    assert (np.diff(placed.host_offsets) == 4096).all()
    assert (np.diff(placed.device_offsets.astype(np.int64)) == 4096).sum() == 0
    assert (np.sort(placed.device_offsets) == placed.host_offsets).all()


def test_host_runs_come_in_random_order_and_begin_at_pages() -> None:
    placed = place(TransferShape(1000, 1000 * 4096), NamedLayout.parse("runs:10"), 1)
    steps = np.diff(placed.host_offsets.astype(np.int64))
    assert (steps == 4096).sum() == 990
    assert (steps[steps != 4096] < 0).any()
    assert (placed.host_offsets % 4096 == 0).all()


def test_contiguous_ranges_are_the_same_on_both_sides() -> None:
    placed = place(TransferShape(50, 50 * 300 + 7), CONTIGUOUS, 1)
    assert (placed.host_offsets == placed.device_offsets).all()
    assert (np.diff(placed.host_offsets) == placed.sizes[:-1]).all()


def test_a_pitch_that_the_layout_does_not_have_is_refused() -> None:
    for layout in (SHUFFLED, CONTIGUOUS, STRIDED):
        with pytest.raises(UsageError, match="pitch of 4096"):
            place(TransferShape(4, 4 * 4096, pitch=4096), layout, 1)
    place(TransferShape(4, 4 * 4096, pitch=8192), STRIDED, 1)


@pytest.mark.parametrize(
    ("ranges", "total_bytes", "seed", "digest"),
    [(300, 30_007, 5, "526deaf4cc86d83b"), (16_384, 64 << 20, 7, "aae2317cec9b083b")],
)
def test_what_sweeps_were_measured_on_stays(ranges: int, total_bytes: int, seed: int, digest: str) -> None:
    placed = place(TransferShape(ranges, total_bytes), SHUFFLED, seed)
    columns = (placed.host_offsets, placed.device_offsets, placed.sizes)
    assert hashlib.sha256(b"".join(c.tobytes() for c in columns)).hexdigest()[:16] == digest
