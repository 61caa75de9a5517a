import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pega_tune.errors import UsageError
from pega_tune.kernels.chunks import CopyColumns, cut

Copy = tuple[int, int, int]


def columns_of(copies: list[Copy]) -> CopyColumns:
    to, at, size = (np.array(column, np.uint64) for column in zip(*copies, strict=True))
    return to, at, size


def slow_cut(copies: list[Copy], chunk_bytes: int) -> list[list[Copy]]:
    pieces = [
        (to + begin, at + begin, min(chunk_bytes, size - begin))
        for to, at, size in copies
        for begin in range(0, size, chunk_bytes)
    ]
    chunks: list[list[Copy]] = [[]]
    for piece in pieces:
        if sum(size for *_, size in chunks[-1]) + piece[2] > chunk_bytes:
            chunks.append([])
        chunks[-1].append(piece)
    return chunks


addresses = st.integers(2**62, 2**63)


@given(st.lists(st.tuples(addresses, addresses, st.integers(1, 100)), min_size=1, max_size=20), st.integers(1, 150))
def test_pieces_and_chunks_are_those_of_the_obvious_model(copies: list[Copy], chunk_bytes: int) -> None:
    chunks = cut(columns_of(copies), chunk_bytes)
    pieces = list(zip(*(column.tolist() for column in chunks.columns), strict=True))
    assert [pieces[first : first + count] for first, count in chunks.parts] == slow_cut(copies, chunk_bytes)


def test_copies_beyond_32_bits_are_cut_too() -> None:
    chunks = cut(columns_of([(2**63, 0, 2**40)]), 2**38)
    assert chunks.columns[0].tolist() == [2**63 + i * 2**38 for i in range(4)]
    assert chunks.parts == [(0, 1), (1, 1), (2, 1), (3, 1)]


def test_a_chunk_larger_than_any_transfer_cuts_nothing() -> None:
    assert cut(columns_of([(1, 2, 2**61), (5, 6, 7)]), 2**80).parts == [(0, 2)]


def test_a_chunk_without_bytes_is_refused() -> None:
    with pytest.raises(UsageError, match="at least 1 byte, not 0"):
        cut(columns_of([(1, 2, 3)]), 0)
