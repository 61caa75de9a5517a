"""What cannot be true of any ranges is refused; what the program itself says of them is not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pega_tune.autotune.cli.possible_shapes import possible
from pega_tune.autotune.layouts import NamedLayout
from pega_tune.errors import UsageError
from pega_tune.kernels.shape import Direction, TransferShape


def _shape(ranges: int, total: int, host_runs: int | None, alignment: int | None, pitch: int | None) -> TransferShape:
    return TransferShape(ranges, total, Direction.BOTH, host_runs, alignment, pitch)


@pytest.mark.parametrize(
    ("shape", "why"),
    [
        (_shape(16, 65536, 17, None, None), "host runs are 1 to"),
        (_shape(16, 65536, None, 3, None), "alignment is one of"),
        (_shape(16, 65528, None, 16, None), "every range: 16 ranges of 65528 bytes"),
        (_shape(16, 160, None, 16, None), "every range: 16 ranges of 160 bytes"),
        (_shape(16, 65536, None, 8, 4100), "the pitch 4100 is no multiple"),
        (_shape(16, 65536, None, None, 4095), "at least the size of a range, 4096 bytes"),
        (_shape(16, 65537, None, None, 8192), "are equal, and 16 do not divide 65537"),
        (_shape(16, 65536, 4, None, 8192), "1 host run or 16, not 4"),
        (_shape(16, 65536, 1, None, 4096), "count as one"),
    ],
)
def test_a_contradiction_is_named(shape: TransferShape, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        possible(shape)


@pytest.mark.parametrize(
    "shape",
    [
        _shape(16, 65536, 16, 16, 4096),  # side by side on the device alone
        _shape(16, 65536, 1, 16, 8192),
        _shape(1, 4097, 1, 1, 4097),
        _shape(3, 100, 2, 4, None),
    ],
)
def test_what_is_odd_but_possible_passes(shape: TransferShape) -> None:
    assert possible(shape) is shape


@given(st.integers(1, 1 << 20), st.integers(1, 1 << 20), st.sampled_from(["strided", "shuffled", "host-ordered"]))
def test_every_layout_with_a_name_is_possible(ranges: int, size: int, layout: str) -> None:
    possible(NamedLayout.parse(layout).merged(TransferShape(ranges, ranges * size)))
