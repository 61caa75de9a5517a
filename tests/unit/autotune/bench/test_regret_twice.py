from collections.abc import Mapping
from dataclasses import replace
from math import sqrt

import pytest

from pega_tune.autotune.bench.regret_twice import CellAgreement, Learnt, agreement
from pega_tune.autotune.layouts import NamedLayout
from pega_tune.autotune.sweep.keys import block_key, confirm_key
from pega_tune.kernels.plan import CopyPlan, direct
from pega_tune.kernels.shape import Direction, TransferShape
from pega_tune.profiles.policy.auto import Auto
from pega_tune.profiles.policy.terms import Colocation
from pega_tune.profiles.store.records import BlockRecord
from tests.helpers.sweeps import block, cell
from tests.unit.profiles.policy.examples import NARROW, WIDE, one_way, option, profile

SHAPE = TransferShape(1024, 1024 * 4096, Direction.H2D)
OTHER = TransferShape(64, 64 * 4096, Direction.H2D)

Times = Mapping[CopyPlan, float]


def _block(times: Times, shape: TransferShape = SHAPE) -> BlockRecord:
    """Eight rounds of each plan, all alike, and a ceiling that nothing reaches."""
    cells = [cell(plan, [time_s] * 8) for plan, time_s in times.items()]
    return block(shape, [*cells, cell(direct(), [1e-9] * 8, kind="ceiling")])


def _learnt(choice: CopyPlan, *blocks: BlockRecord, margin: float = 0.02) -> Learnt:
    return Learnt(Auto.from_profile(profile(one_way(option(choice, 1e-3), margin=margin))), blocks)


def _cell(first: Learnt, second: Learnt) -> CellAgreement:
    (found,) = agreement(first, second).cells
    return found


def test_the_same_choice_agrees_even_where_the_other_has_not_timed_it() -> None:
    found = _cell(_learnt(WIDE, _block({WIDE: 1.0})), _learnt(WIDE, _block({NARROW: 1.0})))
    assert (found.alike, found.agrees, found.ratio) == (True, True, 1.0)
    assert found.regrets == (None, 0.0)


def test_plans_that_launch_the_same_are_alike() -> None:
    as_wide = replace(WIDE, options=replace(WIDE.options, max_grid_blocks=1024))  # type: ignore[type-var]
    found = _cell(_learnt(WIDE, _block({WIDE: 1.0})), _learnt(as_wide, _block({as_wide: 1.0})))
    assert found.alike


@pytest.mark.parametrize(("times", "agrees"), [((1.0, 1.03), True), ((1.0, 1.06), False)])
def test_each_flatters_its_own_and_the_mean_of_both_decides(times: tuple[float, float], agrees: bool) -> None:
    """One sweep sees its choice a little ahead, the other one sees it as far behind as `times` has it."""
    fast, slow = times
    first = _learnt(NARROW, _block({NARROW: 1.0, WIDE: 1.01}))
    second = _learnt(WIDE, _block({NARROW: slow, WIDE: fast}))
    found = _cell(first, second)
    assert found.ratio == pytest.approx(sqrt(slow / fast / 1.01))
    assert found.agrees is agrees
    assert found.regrets == pytest.approx((slow / fast - 1, 0.01))


def test_the_larger_margin_counts() -> None:
    times = {NARROW: 1.0, WIDE: 1.05}
    narrow, wide = _learnt(NARROW, _block(times)), _learnt(WIDE, _block(times), margin=0.06)
    assert _cell(narrow, wide).agrees
    assert _cell(wide, narrow).agrees
    assert not _cell(narrow, _learnt(WIDE, _block(times))).agrees


def test_the_choice_of_one_is_judged_by_all_plans_of_the_other_but_not_by_its_ceiling() -> None:
    best = CopyPlan(direct().backend, chunk_bytes=4096)
    found = _cell(_learnt(NARROW, _block({NARROW: 1.0})), _learnt(WIDE, _block({NARROW: 3.0, WIDE: 2.0, best: 1.5})))
    assert found.regrets == (1.0, None)


def test_what_moved_wrong_bytes_judges_nobody() -> None:
    wrong = block(SHAPE, [cell(NARROW, [1.0] * 8), cell(WIDE, [0.5] * 8, status="mismatch")])
    assert _cell(_learnt(NARROW, _block({NARROW: 1.0})), _learnt(NARROW, wrong)).regrets == (0.0, 0.0)


def test_only_the_lattice_that_both_have_measured_counts() -> None:
    times = {NARROW: 1.0}
    layout = NamedLayout.parse("host-ordered")
    laid_out = replace(_block(times), key=block_key(SHAPE, Colocation.IDLE, layout))
    beside = replace(_block(times), key=block_key(SHAPE, Colocation.TIME_SLICED), colocation=Colocation.TIME_SLICED)
    again = replace(_block(times), key=confirm_key(Direction.H2D, 1))
    first = _learnt(NARROW, _block(times), _block(times, OTHER), laid_out, beside, again)
    second = _learnt(NARROW, laid_out, beside, again, _block(times))
    assert [found.shape for found in agreement(first, second).cells] == [SHAPE]


def test_shares_and_regrets_over_all_shapes() -> None:
    first = _learnt(NARROW, _block({NARROW: 1.0}), _block({NARROW: 1.0, WIDE: 2.0}, OTHER))
    second = _learnt(WIDE, _block({WIDE: 1.0}), _block({NARROW: 1.0, WIDE: 1.0}, OTHER))
    found = agreement(first, second)
    assert (found.alike, found.share, found.unjudged) == (0.0, 0.0, 2)
    assert found.cross_regret is not None
    assert (found.cross_regret.mean, found.cross_regret.n) == (0.5, 2)
    nothing = agreement(first, _learnt(WIDE))
    assert (nothing.cells, nothing.share, nothing.alike, nothing.cross_regret) == ((), 0.0, 0.0, None)
