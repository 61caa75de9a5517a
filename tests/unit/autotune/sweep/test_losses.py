"""What a sweep says of candidates that it lost."""

from pega_tune.autotune.sweep.losses import losses
from pega_tune.kernels.plan import direct
from pega_tune.kernels.shape import Direction, TransferShape
from tests.helpers.sweeps import block, cell

H2D, D2H = (TransferShape(4, 4096, direction) for direction in (Direction.H2D, Direction.D2H))


def test_each_way_of_being_lost_is_counted_and_shown_by_its_first() -> None:
    blocks = [
        block(H2D, [cell(direct(), [1.0]), cell(direct(), [], status="timed-out")]),
        block(D2H, [cell(direct(), [], status="crashed"), cell(direct(), [], status="crashed")]),
        block(TransferShape(4, 8192), [cell(direct(), [], status="crashed")]),
    ]
    crashed, late = losses(blocks)
    assert crashed.startswith("3 candidates crashed, in 2 of 3 blocks; the first: ")
    assert f" in {blocks[1].key}" in crashed
    assert late.startswith("1 candidate did not answer in time, in 1 of 3 blocks; the first: ")


def test_what_no_device_can_run_and_wrong_bytes_are_not_lost() -> None:
    cells = [cell(direct(), [], status=status) for status in ("unsupported", "mismatch")]
    assert losses([block(H2D, [cell(direct(), [1.0]), *cells])]) == ()
    assert losses([]) == ()
