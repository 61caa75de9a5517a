"""Which of equivalent plans a cell takes: one that wins its neighbours too, so that no plan changes without reason.

Plans are equivalent in a cell if their times differ by no more than the margin. Notation: N plans, R rows, S columns.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from pega_tune.autotune.compiling.laws import Array

ROUNDS: Final = 4
"""Most rounds of voting; plans settle in two or three."""

_LAST: Final = np.iinfo(np.int64).max


def leaders(times_s: Array, ranks: NDArray[np.int64], margin: float, columns: int) -> NDArray[np.intp]:
    """The plan of each cell: (R * S,).

    At first it is the simplest of those equivalent to the fastest. Then, round by round, it is the one of these that
    leads in most of the up to 9 cells around, the simpler one if there are several. Only plans no less simple than the
    fastest can lead: a look-up, which sees both, takes the simpler one.

    Args:
        times_s: (N, R * S), infinite where a plan may not be chosen; in each cell one plan may.
        ranks: (N,) places of the plans in the order of simplicity, all different.
        margin: relative difference of times that is noise.
        columns: S.
    """
    cells = np.arange(times_s.shape[1])
    fastest = np.argmin(times_s, axis=0)
    equal = times_s <= times_s[fastest, cells] * (1 + margin)
    equal &= ranks[:, None] <= ranks[fastest]
    led = _simplest(equal, ranks)
    for _ in range(ROUNDS):
        votes = np.where(equal, _votes(led, len(times_s), columns), -1)
        again = _simplest(votes == votes.max(axis=0), ranks)
        if np.array_equal(again, led):
            break
        led = again
    return led


def _simplest(allowed: NDArray[np.bool_], ranks: NDArray[np.int64]) -> NDArray[np.intp]:
    found: NDArray[np.intp] = np.argmin(np.where(allowed, ranks[:, None], _LAST), axis=0)
    return found


def _votes(led: NDArray[np.intp], plans: int, columns: int) -> NDArray[np.int64]:
    """In how many of the up to 9 cells around each cell, itself among them, each plan leads: (N, R * S)."""
    grid = led.reshape(-1, columns)
    rows = len(grid)
    won = np.zeros((plans, rows + 2, columns + 2), dtype=np.int64)
    won[grid, np.arange(1, rows + 1)[:, None], np.arange(1, columns + 1)[None, :]] = 1
    around: NDArray[np.int64] = np.zeros((plans, rows, columns), dtype=np.int64)
    for row in range(3):
        for column in range(3):
            around += won[:, row : row + rows, column : column + columns]
    return around.reshape(plans, -1)
