import pytest

from pega_tune.kernels.shape import Direction, TransferShape
from pega_tune.kernels.worthwhile import staging_loses, worthwhile

KIB = 1024


def shape(runs: int | None, run_bytes: int, ranges_per_run: int, direction: Direction) -> TransferShape:
    count = runs or 1
    return TransferShape(count * ranges_per_run, count * run_bytes, direction, host_runs=runs)


@pytest.mark.parametrize("direction", list(Direction))
@pytest.mark.parametrize("runs", [1, 16, 64])
def test_few_long_runs_of_many_ranges_may_win(runs: int, direction: Direction) -> None:
    assert worthwhile(shape(runs, 64 * 1024 * KIB // runs, 16_384 // runs, direction))


@pytest.mark.parametrize(
    ("direction", "loses", "may_win"),
    [(Direction.H2D, 36, 38), (Direction.D2H, 75, 76), (Direction.BOTH, 68, 69)],
)
def test_short_runs_lose_to_one_cta(direction: Direction, loses: int, may_win: int) -> None:
    assert "one CTA" in staging_loses(shape(512, loses * KIB, 16, direction))
    assert not staging_loses(shape(512, may_win * KIB, 16, direction))


@pytest.mark.parametrize("direction", list(Direction))
def test_as_many_runs_as_ranges_lose_to_direct(direction: Direction) -> None:
    assert "direct" in staging_loses(shape(1000, 1024 * KIB, 1, direction))


@pytest.mark.parametrize(("ranges", "may_win"), [(1, False), (5, False), (6, True)])
def test_saved_commands_must_pay_for_the_launch(ranges: int, may_win: bool) -> None:
    assert worthwhile(shape(1, 1024 * KIB, ranges, Direction.H2D)) is may_win


def test_without_knowing_the_host_runs_nothing_is_ruled_out() -> None:
    assert worthwhile(shape(None, 4 * KIB, 1, Direction.BOTH))
