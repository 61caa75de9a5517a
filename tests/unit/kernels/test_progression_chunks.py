import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pega_tune.errors import UsageError
from pega_tune.kernels.progression_chunks import Groups, cut_progressions
from pega_tune.kernels.progressions import Progressions

Copy = tuple[int, ...]


@st.composite
def some_copies(draw: st.DrawFn) -> list[Copy]:
    """Copies (device, host, nbytes, device pitch, host pitch, rows), far from one another."""
    result = []
    for number in range(draw(st.integers(1, 12))):
        nbytes, rows = draw(st.integers(1, 40)), draw(st.integers(1, 30))
        pitches = [nbytes + draw(st.integers(0, 9)) * (rows > 1) for _ in range(2)]
        result.append((2**40 + number * 2**20, 2**41 + number * 2**20, nbytes, *pitches, rows))
    return result


def progressions(copies: list[Copy]) -> Progressions:
    return Progressions(np.array(copies, np.uint64).T.copy(), len(copies))


def rows_of(copy: Copy) -> list[tuple[int, int, int]]:
    device, host, nbytes, device_pitch, host_pitch, rows = copy
    return [(device + i * device_pitch, host + i * host_pitch, nbytes) for i in range(rows)]


def slow_cut(copies: list[Copy], limit: int) -> list[list[tuple[int, int, int]]]:
    """Rows, or pieces of rows, in groups."""
    groups: list[list[tuple[int, int, int]]] = [[]]
    for device, host, nbytes in (row for copy in copies for row in rows_of(copy)):
        for offset in range(0, nbytes, limit):
            size = min(limit, nbytes - offset)
            if sum(piece[2] for piece in groups[-1]) + size > limit:
                groups.append([])
            groups[-1].append((device + offset, host + offset, size))
    return groups


def groups_of(groups: Groups) -> list[list[Copy]]:
    copies = list(zip(*groups.copies.table[:, : len(groups.copies)].tolist(), strict=True))
    return [copies[first:end] for first, end in groups]


@given(some_copies(), st.sampled_from([1, 2, 7, 39, 40, 41, 100, 1000, 10**6, 2**70]))
def test_groups_hold_the_rows_of_the_slow_model(copies: list[Copy], limit: int) -> None:
    found = groups_of(cut_progressions(progressions(copies), limit))
    assert [[row for copy in group for row in rows_of(copy)] for group in found] == slow_cut(copies, limit)


@given(some_copies(), st.integers(1, 300))
def test_rows_stay_together_as_far_as_their_group_goes(copies: list[Copy], limit: int) -> None:
    for group in groups_of(cut_progressions(progressions(copies), limit)):
        whole = [copy for copy in copies if copy[2] <= limit]
        for copy in whole:
            pieces = [piece for piece in group if copy[0] <= piece[0] < copy[0] + 2**20]
            assert len(pieces) <= 1


@given(some_copies(), st.integers(1, 300))
def test_pieces_keep_the_pitches_and_single_ones_have_none(copies: list[Copy], limit: int) -> None:
    original = {copy[0] // 2**20: copy for copy in copies}
    for group in groups_of(cut_progressions(progressions(copies), limit)):
        for device, _, nbytes, device_pitch, host_pitch, rows in group:
            expected = original[device // 2**20][3:5] if rows > 1 else (nbytes, nbytes)
            assert (device_pitch, host_pitch) == expected


def test_without_a_limit_there_is_one_group_and_nothing_is_copied() -> None:
    copies = progressions([(0, 0, 8, 16, 8, 3), (64, 64, 8, 8, 8, 1)])
    groups = cut_progressions(copies, None)
    assert groups.copies is copies
    assert (len(groups), list(groups)) == (1, [(0, 2)])


def test_a_group_without_bytes_is_refused() -> None:
    with pytest.raises(UsageError, match="at least 1 byte"):
        cut_progressions(progressions([(0, 0, 8, 8, 8, 1)]), 0)
