import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pega_tune.errors import UsageError
from pega_tune.kernels.descriptors import (
    DESCRIPTOR_BYTES,
    DescriptorSpace,
    descriptor_bound,
    tile_bytes,
    write_descriptors,
)
from pega_tune.kernels.prepare import CapacityError
from pega_tune.kernels.ranges import RangeBatch
from pega_tune.kernels.shape import MAX_BYTES, Direction
from tests.helpers.batches import batches, columns, merged_rows, rows_of

UNTOUCHED = 0xABAB


def space(capacity: int) -> DescriptorSpace:
    pinned = np.full((capacity, 3), UNTOUCHED, np.uint64)
    return DescriptorSpace(pinned, pinned.ctypes.data, 4096, capacity)


def slow_descriptors(batch: RangeBatch, direction: Direction, tile: int | None) -> list[list[int]]:
    result = []
    for device, _, alias, nbytes, *_ in rows_of(batch) if tile is None else merged_rows(batch, keep_order=True):
        destination, source = (device, alias) if direction is Direction.H2D else (alias, device)
        result += [
            [destination + done, source + done, min(tile or nbytes, nbytes - done)]
            for done in range(0, nbytes, min(tile or nbytes, nbytes))
        ]
    return result


@given(batches(max_ranges=6), st.sampled_from(Direction.BOTH.legs), st.sampled_from([1, 16, 1000, 4096, 65_536, None]))
def test_descriptors_are_those_of_the_slow_model(batch: RangeBatch, direction: Direction, tile: int | None) -> None:
    target = space(descriptor_bound(len(batch), batch.total_bytes, tile or 1))
    count = write_descriptors(batch, direction, target, tile)
    assert target.pinned[:count].tolist() == slow_descriptors(batch, direction, tile)
    assert (target.pinned[count:] == UNTOUCHED).all()


def test_a_descriptor_is_three_little_endian_words() -> None:
    target = space(1)
    write_descriptors(columns([(2**63 + 1, 7, 2**62 + 3, 5, 0, 0)]), Direction.H2D, target)
    expected = b"".join(value.to_bytes(8, "little") for value in (2**63 + 1, 2**62 + 3, 5))
    assert target.pinned.tobytes() == expected
    assert len(expected) == DESCRIPTOR_BYTES


def test_an_exact_multiple_of_the_tile_leaves_no_empty_descriptor() -> None:
    target = space(3)
    assert write_descriptors(columns([(0, 0, 0, 8192, 0, 0)]), Direction.D2H, target, 4096) == 2
    assert target.pinned[:2].tolist() == [[0, 0, 4096], [4096, 4096, 4096]]


@pytest.mark.parametrize(("tile", "bound"), [(4096, 4), (None, 2)])
def test_what_might_not_fit_is_refused_before_any_is_written(tile: int | None, bound: int) -> None:
    target = space(bound - 1)
    with pytest.raises(CapacityError, match=f"{bound} descriptors do not fit a space for {bound - 1}"):
        write_descriptors(columns([(0, 0, 0, 8193, 0, 0), (9, 9, 9, 1, 0, 0)]), Direction.H2D, target, tile)
    assert (target.pinned == UNTOUCHED).all()


def test_both_directions_at_once_are_refused() -> None:
    with pytest.raises(UsageError, match="one direction"):
        write_descriptors(columns([(0, 0, 0, 1, 0, 0)]), Direction.BOTH, space(1))


def test_a_tile_without_bytes_is_refused() -> None:
    with pytest.raises(UsageError, match="at least 1 byte"):
        write_descriptors(columns([(0, 0, 0, 1, 0, 0)]), Direction.H2D, space(1), 0)


@pytest.mark.parametrize(
    ("pinned", "capacity"),
    [
        (np.zeros((2, 3), np.uint64), 3),
        (np.zeros((3, 2), np.uint64), 3),
        (np.zeros((3, 3), np.int64), 3),
        (np.zeros((3, 6), np.uint64)[:, ::2], 3),
    ],
    ids=["short", "narrow", "signed", "strided"],
)
def test_a_view_that_does_not_hold_descriptors_is_refused(pinned: np.ndarray, capacity: int) -> None:
    with pytest.raises(UsageError, match="contiguous uint64"):
        DescriptorSpace(pinned, pinned.ctypes.data, 0, capacity)


def test_a_view_elsewhere_than_its_address_is_refused() -> None:
    pinned = np.zeros((1, 3), np.uint64)
    with pytest.raises(UsageError, match="pinned address"):
        DescriptorSpace(pinned, pinned.ctypes.data + 8, 0, 1)


@given(st.integers(1, MAX_BYTES), st.integers(1, 65_535 * 32))
@example(MAX_BYTES, 1)
@example(1, 65_535 * 32)
def test_tiles_are_whole_steps_within_their_bounds(total_bytes: int, warps: int) -> None:
    tile = tile_bytes(total_bytes, warps)
    assert 4096 <= tile <= 65_536
    assert tile % 4096 == 0


@given(st.integers(4096, 2**36), st.integers(1, 65_535 * 32))
def test_one_huge_range_feeds_every_warp_or_is_cut_as_finely_as_it_can_be(total_bytes: int, warps: int) -> None:
    tile = tile_bytes(total_bytes, warps)
    assert tile == 4096 or total_bytes // tile >= 4 * warps


def test_tiles_of_known_transfers() -> None:
    assert tile_bytes(64 << 20, warps=64) == 65_536
    assert tile_bytes(64 << 20, warps=512) == 32_768
    assert tile_bytes(64 << 10, warps=64) == 4096
