from statistics import median

import pytest

from pega_tune.autotune.sweep.observations import LEAST_MARGIN, observe, usable
from pega_tune.autotune.sweep.plans import pegaflow_kernel
from pega_tune.kernels.plan import Variant, direct, kernel
from pega_tune.kernels.shape import Direction, TransferShape
from pega_tune.profiles.store.records import CellRecord
from tests.helpers.sweeps import block, cell

SMALL = TransferShape(16, 16 * 4096, Direction.H2D)
LARGE = TransferShape(4096, 4096 * 4096, Direction.H2D)
BOUNDED = kernel(Variant.BLOCK, 64, 256)


def test_plans_that_launch_the_same_share_their_times() -> None:
    blocks = [
        block(SMALL, [cell(pegaflow_kernel(), [2e-5] * 7, kind="static")]),
        block(LARGE, [cell(pegaflow_kernel(), [4e-4] * 7, kind="static"), cell(BOUNDED, [5e-4] * 7)]),
    ]
    (seen,) = observe(blocks)
    assert seen.shapes == (SMALL, LARGE)
    assert dict(zip(seen.plans, seen.times_s, strict=True)) == {
        pegaflow_kernel(): {0: 2e-5, 1: 4e-4},
        BOUNDED: {0: 2e-5, 1: 5e-4},
    }


def test_directions_are_kept_apart() -> None:
    back = TransferShape(16, 16 * 4096, Direction.D2H)
    seen = observe([block(s, [cell(direct(), [1e-5] * 7)]) for s in (SMALL, back)])
    assert {s.direction for s in seen} == {Direction.H2D, Direction.D2H}


@pytest.mark.parametrize(
    "bad",
    [
        cell(direct(), [1e-9] * 7, status="mismatch"),
        cell(direct(), [1e-9] * 7, status="crashed"),
        cell(direct(), [1e-9] * 7, status="invalid"),
        cell(direct(), [1e-9] * 7, kind="ceiling"),
        cell(direct(), []),
        CellRecord("x", "plan", direct(), "ok", verified=False, measurements=cell(direct(), [1e-9]).measurements),
    ],
    ids=lambda c: f"{c.kind}-{c.status}-{c.verified}-{len(c.measurements)}",
)
def test_only_verified_plans_that_ended_well_count(bad: CellRecord) -> None:
    assert not usable(bad)
    assert observe([block(SMALL, [bad])]) == ()
    (seen,) = observe([block(SMALL, [bad, cell(BOUNDED, [1e-5] * 7)])])
    assert seen.plans == (BOUNDED,)


def test_the_few_samples_of_a_dropped_plan_count() -> None:
    (seen,) = observe([block(SMALL, [cell(direct(), [4e-5, 6e-5])])])
    assert seen.times_s == ({0: 5e-5},)


def test_the_margin_is_the_noise_of_the_medians() -> None:
    quiet = [1e-3 * (1 + 1e-4 * i) for i in range(7)]
    noisy = [1e-3 * (1 + 0.05 * i) for i in range(7)]
    assert observe([block(SMALL, [cell(direct(), quiet)])])[0].margin == LEAST_MARGIN
    # The interval of the median of 7 samples reaches from the first to the last.
    expected = (noisy[-1] - noisy[0]) / 2 / median(noisy)
    assert observe([block(SMALL, [cell(direct(), noisy)])])[0].margin == pytest.approx(expected)
