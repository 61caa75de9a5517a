from dataclasses import replace

from pega_tune.autotune.sweep.axes import axes
from pega_tune.kernels.plan import PlanPair, Variant, direct, kernel
from pega_tune.kernels.shape import Direction, TransferShape
from tests.helpers.sweeps import block, cell


def test_measured_values_are_counted_in_order() -> None:
    wide, narrow = kernel(Variant.WARP, 16, 256, -5), replace(kernel(Variant.BLOCK, 2, 1024), sm_partition=8)
    one_way = block(
        TransferShape(1, 64, Direction.H2D),
        [
            cell(direct(), [1.0], kind="ceiling"),
            cell(direct(), [1.0]),
            cell(wide, [1.0]),
            cell(narrow, [1.0]),
            cell(kernel(Variant.WARP, 99, 512), [1.0], status="crashed"),
        ],
    )
    both = block(
        TransferShape(1, 64, Direction.BOTH),
        [cell(PlanPair(wide, wide), [1.0]), cell(PlanPair(direct(), narrow), [1.0])],
    )
    seen = axes([one_way, both])
    assert seen.backends == (("direct", 2), ("kernel", 4))
    assert seen.variants == (("block", 2), ("warp", 2))
    assert seen.grids == ((2, 2), (16, 2))
    assert seen.threads == ((256, 2), (1024, 2))
    assert seen.priorities == ((-5, 2), (0, 2))
    assert seen.chunks == ()
    assert seen.partitions == ((8, 2),)
