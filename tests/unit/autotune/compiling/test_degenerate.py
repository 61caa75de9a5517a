"""What is left of a table when what was measured makes no sense."""

from collections.abc import Sequence

import pytest

from pega_tune.autotune.sweep.policy import Learnt, compile_policy
from pega_tune.kernels.plan import CopyPlan, Variant, direct, kernel
from pega_tune.kernels.shape import Direction, TransferShape
from pega_tune.profiles.policy.compiled import decode, encode
from pega_tune.profiles.policy.table import Table
from pega_tune.profiles.policy.terms import Colocation, Runtime
from pega_tune.profiles.store.records import BlockRecord
from tests.helpers.sweeps import block, cell

WARP = kernel(Variant.WARP, 8, 256)
COUNTS = [(n, s) for n in (1, 16, 256, 4096) for s in (256, 4096, 65_536)]
NAN, INF = float("nan"), float("inf")


def _blocks(counts: Sequence[tuple[int, int]], warp_s: Sequence[float]) -> list[BlockRecord]:
    """DMA copies that take what they should, and kernels that take what they are told."""
    records = []
    for (n, s), time_s in zip(counts, warp_s, strict=True):
        copies = cell(direct(), [5e-6 + 2.4e-6 * n + n * s / 50e9] * 7)
        records.append(block(TransferShape(n, n * s, Direction.H2D), [copies, cell(WARP, [time_s] * 7)]))
    return records


def _table(learnt: Learnt) -> Table:
    assert len(decode(encode(learnt.policy)).tables) == len(learnt.policy.tables)
    table = learnt.policy.find(Direction.H2D, Colocation.IDLE, Runtime.FULL)
    assert table is not None
    return table


def _reason(learnt: Learnt, plan: CopyPlan = WARP) -> str:
    """Why there is no curve of a kernel."""
    family = "kernel/warp threads=256" if plan == WARP else plan.key
    (record,) = {f.family: f for f in learnt.fits if f.family == family}.values()
    assert (record.parameters, record.residual) == ({}, None)
    return record.reason


@pytest.mark.parametrize("count", [1, 2])
def test_of_few_shapes_the_nearest_answers(count: int) -> None:
    counts = [(16, 4096), (4096, 65_536)][:count]
    learnt = compile_policy(_blocks(counts, [2e-5, 6e-3][:count]))
    table = _table(learnt)
    assert f"has {count}" in _reason(learnt)
    assert table.look_up(16, 4096)[0].predicted.time_s == 2e-5
    assert table.look_up(1, 64)[0].plan == WARP
    assert not table.covers(1, 64)


def test_equal_times_are_no_fit_and_the_nearest_shape_answers() -> None:
    learnt = compile_policy(_blocks(COUNTS, [3e-5] * len(COUNTS)))
    assert "all times are equal" in _reason(learnt)
    for n, s in COUNTS:
        found = {option.plan: option.predicted.time_s for option in _table(learnt).look_up(n, s)}
        assert found.get(WARP, 3e-5) == 3e-5
    assert _table(learnt).look_up(4096, 4096)[0].plan == WARP


@pytest.mark.parametrize("bad", [NAN, INF, 0.0, -1.0])
def test_a_time_that_is_no_time_is_as_if_not_measured(bad: float) -> None:
    times = [2e-5 + n * s / 48e9 for n, s in COUNTS]
    spoilt = compile_policy(_blocks(COUNTS, [*times[:-1], bad]))
    assert WARP not in {option.plan for option in _table(spoilt).look_up(*COUNTS[-1])}
    assert _table(spoilt).look_up(4096, 4096)[0].plan == WARP


def test_an_outlier_spoils_its_own_cell_alone() -> None:
    times = [2e-5 + n * s / 48e9 for n, s in COUNTS]
    at = COUNTS.index((256, 4096))
    learnt = compile_policy(_blocks(COUNTS, [*times[:at], 1e6 * times[at], *times[at + 1 :]]))
    assert "misses the measured times" in _reason(learnt)
    assert _table(learnt).look_up(256, 4096)[0].plan == direct()
    assert _table(learnt).look_up(4096, 4096)[0].plan == WARP
    assert _table(learnt).look_up(4096, 4096)[0].predicted.time_s == pytest.approx(
        times[COUNTS.index((4096, 4096))], rel=1e-3
    )


def test_counts_up_to_two_to_the_40_make_a_table() -> None:
    counts = [(1 << n, 1 << s) for n in (0, 20, 40) for s in (0, 10, 20)]
    learnt = compile_policy(_blocks(counts, [2e-5 + n * s / 48e9 for n, s in counts]))
    table = _table(learnt)
    assert table.covers(1 << 40, 1 << 20)
    assert table.look_up(1 << 40, 1 << 20)[0].plan == WARP
    assert table.look_up(1, 1)[0].plan == direct()


def test_nothing_makes_no_table() -> None:
    assert compile_policy([]).policy.tables == ()
