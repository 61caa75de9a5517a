from collections import Counter
from itertools import islice
from math import log2

import pytest

from pega_tune.autotune.bench.regret_shapes import (
    ALIGNMENT,
    MOST_BYTES,
    HeldOut,
    held_out,
)
from pega_tune.autotune.layouts import LayoutKind
from pega_tune.errors import UsageError
from pega_tune.kernels.shape import Direction, TransferShape

MIB = 1 << 20


def _drawn(seed: int = 5, count: int = 4000, direction: Direction = Direction.H2D) -> list[HeldOut]:
    return list(islice(held_out(direction, seed), count))


def test_shapes_lie_within_the_region_and_off_the_lattice() -> None:
    for one in _drawn():
        shape = one.shape
        size = shape.average_range_bytes
        assert 1 <= shape.merged_ranges <= 65_536
        assert 256 <= size <= 4 * MIB
        assert shape.total_bytes == shape.merged_ranges * size <= MOST_BYTES
        assert size % ALIGNMENT == 0
        assert shape.merged_ranges.bit_count() > 1 or size.bit_count() > 1


def test_inside_the_region_they_are_log_uniform() -> None:
    """Of equal areas that the limit on bytes does not cut, each holds as many; beyond the limit there are none."""
    cells: Counter[tuple[int, int]] = Counter()
    for one in _drawn():
        cells[int(log2(one.shape.merged_ranges) // 4), int((log2(one.shape.average_range_bytes) - 8) // 3.5)] += 1
    whole = [cells[ranges, size] for ranges in range(1, 3) for size in range(3)]
    assert min(whole) > 0.75 * max(whole)
    assert cells[3, 3] < 0.2 * min(whole)


def test_every_layout_is_drawn_as_often_where_there_are_ranges_enough() -> None:
    kinds = Counter(one.layout.kind for one in _drawn() if one.shape.merged_ranges >= 32)
    assert kinds.keys() == set(LayoutKind) - {LayoutKind.CONTIGUOUS}
    assert min(kinds.values()) > 0.8 * max(kinds.values())


def test_what_the_layout_tells_is_in_the_shape() -> None:
    for one in _drawn(count=500):
        shape = one.shape
        known = {
            LayoutKind.SHUFFLED: (None, None),
            LayoutKind.HOST_ORDERED: (1, None),
            LayoutKind.STRIDED: (1, 2 * shape.average_range_bytes),
            LayoutKind.HOST_RUNS: (shape.merged_ranges // 16, None),
        }[one.layout.kind]
        assert (shape.host_runs, shape.pitch, shape.alignment) == (*known, 16)
        assert shape.merged_ranges > 1 or one.layout.kind is LayoutKind.SHUFFLED


def test_the_seed_decides_and_directions_differ() -> None:
    one, again, other = (_drawn(seed, 50) for seed in (1, 1, 2))
    assert one == again != other
    both = _drawn(1, 50, Direction.BOTH)
    assert [o.shape.total_bytes for o in one] != [o.shape.total_bytes for o in both]
    assert one == _drawn(1, 100)[:50]


@pytest.mark.parametrize(
    ("features", "layout"),
    [
        ({}, "shuffled"),
        ({"host_runs": 1}, "host-ordered"),
        ({"host_runs": 7}, "runs:7"),
        ({"host_runs": 1, "pitch": 8192}, "strided"),
    ],
)
def test_a_users_shape_has_the_layout_that_it_tells(features: dict[str, int], layout: str) -> None:
    shape = TransferShape(64, 64 * 4096, Direction.D2H, **features)
    one = HeldOut.of_user(shape)
    assert str(one.layout) == layout
    assert one.shape == shape
    assert one.key == f"d2h/64x262144/{layout}"


def test_a_shape_that_cannot_be_laid_out_is_refused() -> None:
    with pytest.raises(UsageError, match="host runs"):
        HeldOut.of_user(TransferShape(4, 4096, host_runs=5))
    with pytest.raises(UsageError, match="strided"):
        HeldOut.of_user(TransferShape(3, 100, pitch=64))
