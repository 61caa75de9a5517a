from pega_tune.autotune.sweep.recording import best_cell
from pega_tune.kernels.plan import Variant, direct, kernel
from pega_tune.kernels.shape import Direction, TransferShape
from tests.helpers.serving_records import WARP_1, WARP_16, Cost, survey_record
from tests.helpers.sweeps import block, cell

WARP = kernel(Variant.WARP, 2, 1024)


def test_alone_the_fastest_is_the_best_and_compared_with_the_ceiling() -> None:
    cells = [cell(direct(), [1e-3], kind="ceiling"), cell(direct(), [4e-3]), cell(WARP, [2e-3])]
    assert best_cell(block(TransferShape(16, 4096, Direction.H2D), cells)) == (WARP.key, 0.5)


def test_beside_decode_the_gentlest_is_the_best() -> None:
    record = survey_record({WARP_1: Cost(1e-4, 9e-3), WARP_16: Cost(2e-3, 1e-3)})
    assert best_cell(record) == (WARP_1.key, None)


def test_without_a_cell_that_was_measured_there_is_no_best() -> None:
    assert best_cell(block(TransferShape(16, 4096, Direction.H2D), [])) == (None, None)
    assert best_cell(survey_record({})) == (None, None)


def test_a_serving_record_says_what_decoded_and_how_often_bursts_came() -> None:
    record = survey_record({WARP_1: Cost(1e-4)})
    assert (record.decode, record.period_s) == ("builtin qwen3-4b", 0.025)
