import pytest

from pega_tune.errors import UsageError
from pega_tune.kernels.shape import MAX_BYTES, Direction, TransferShape


@pytest.mark.parametrize(
    ("ranges", "nbytes", "complaint"),
    [
        (0, 1, "at least 1 range, not 0"),
        (-1, 1, "at least 1 range, not -1"),
        (1, 0, "between 1 and 2\\^62 bytes, not 0"),
        (1, -1, "between 1 and 2\\^62 bytes, not -1"),
        (1, MAX_BYTES + 1, "between 1 and 2\\^62 bytes"),
        (3, 2, "3 ranges need at least as many bytes, not 2"),
    ],
)
def test_what_is_no_transfer_is_refused(ranges: int, nbytes: int, complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        TransferShape(ranges, nbytes)


def test_the_average_is_rounded_down_and_both_ways_move_twice() -> None:
    shape = TransferShape(3, 11, Direction.BOTH)
    assert (shape.average_range_bytes, shape.moved_bytes) == (3, 22)
    assert TransferShape(3, 11, Direction.D2H).moved_bytes == 11


def test_a_direction_knows_its_legs() -> None:
    assert Direction.BOTH.legs == (Direction.H2D, Direction.D2H)
    assert Direction.D2H.legs == (Direction.D2H,)
