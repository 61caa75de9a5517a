import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pega_tune.kernels.ordering import Sorter

ANY = st.integers(0, 2**64 - 1)
SPREAD = st.tuples(ANY, st.integers(0, 63), st.lists(st.integers(0, 300), min_size=1, max_size=200)).map(
    lambda drawn: [(drawn[0] + (step << drawn[1])) % 2**64 for step in drawn[2]]
)


def expected(addresses: list[int]) -> list[int]:
    return sorted(range(len(addresses)), key=addresses.__getitem__)


@given(st.one_of(st.lists(ANY, min_size=1, max_size=200), SPREAD))
def test_order_is_the_stable_one(addresses: list[int]) -> None:
    assert Sorter(200).order(np.array(addresses, np.uint64)).tolist() == expected(addresses)


@pytest.mark.parametrize("digit", range(6))
def test_one_differing_digit_costs_one_pass_and_stays_stable(digit: int) -> None:
    base = 0x0123_4567_89AB_CDEF & ~(0x3FF << (10 * digit))
    addresses = [base | (value << (10 * digit)) for value in (3, 1, 1023, 1, 0, 3)]
    assert Sorter(6).order(np.array(addresses, np.uint64)).tolist() == expected(addresses)


def test_constant_middle_digits_are_skipped_without_harm() -> None:
    addresses = [2**63 + 5, 0, 2**63, 5, 2**63 + 1]
    assert Sorter(5).order(np.array(addresses, np.uint64)).tolist() == [1, 3, 2, 4, 0]


def test_both_ends_of_the_address_space() -> None:
    assert Sorter(3).order(np.array([2**64 - 1, 0, 2**63], np.uint64)).tolist() == [1, 2, 0]


def test_equal_addresses_keep_their_order() -> None:
    assert Sorter(5).order(np.full(5, 2**64 - 1, np.uint64)).tolist() == [0, 1, 2, 3, 4]


def test_a_sorter_is_used_again_with_fewer_addresses() -> None:
    sorter = Sorter(1000)
    random = np.random.default_rng(0)
    for count in (1000, 3, 700, 1):
        addresses = random.integers(0, 2**64, count, dtype=np.uint64)
        assert sorter.order(addresses).tolist() == expected(addresses.tolist())
