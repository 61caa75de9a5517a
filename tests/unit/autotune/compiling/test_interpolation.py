import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pega_tune.autotune.compiling.interpolation import distances, interpolate, places
from pega_tune.kernels.shape import Direction, TransferShape

POINTS = places([TransferShape(1 << n, 1 << (n + s), Direction.H2D) for n in range(0, 15, 2) for s in range(8, 17, 2)])


def test_places_are_octaves() -> None:
    assert places([TransferShape(16, 16 << 12)]).tolist() == [[4.0, 12.0]]
    assert distances(np.array([[4.0, 12.0]]), np.array([[1.0, 8.0]])).tolist() == [[5.0]]


@given(st.lists(st.floats(-1, 1), min_size=len(POINTS), max_size=len(POINTS)))
def test_at_the_points_the_values_come_out_but_for_the_noise(values: list[float]) -> None:
    found = interpolate(POINTS, POINTS)
    # Each point is believed but for its noise, which neighbours even out.
    assert found.weights @ np.array(values) == pytest.approx(np.array(values), abs=0.25)
    assert np.all(found.doubt < 0.15)


def test_between_equal_points_the_value_is_theirs() -> None:
    between = POINTS[:-1] + np.array([0.5, 0.5])
    inside = between[(between[:, 0] < 14) & (between[:, 1] < 16)]
    assert interpolate(inside, POINTS).weights.sum(axis=1) == pytest.approx(np.ones(len(inside)), abs=0.05)


def test_doubt_grows_away_from_the_points_and_the_value_fades() -> None:
    line = np.array([[14.0 + step, 16.0] for step in range(0, 40, 4)])
    found = interpolate(line, POINTS)
    assert np.all(np.diff(found.doubt) > 0)
    assert np.all(np.diff(found.weights.sum(axis=1)) < 0)
    assert found.doubt[-1] == pytest.approx(1.0, abs=0.01)


def test_without_points_nothing_is_known() -> None:
    found = interpolate(POINTS, POINTS[:0])
    assert found.weights.shape == (len(POINTS), 0)
    assert np.all(found.doubt == 1.0)


def test_the_same_point_twice_counts_once_but_is_surer() -> None:
    once, twice = (interpolate(POINTS[:1], POINTS[:1].repeat(n, axis=0)) for n in (1, 2))
    assert twice.weights.sum() == pytest.approx(once.weights.sum(), abs=0.02)
    assert twice.doubt[0] < once.doubt[0]
