from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from pega_tune.kernels.decode.sums import build_sum
from tests.helpers.unit_memory import UnitMemory

BASE = 4096


@given(count=st.integers(0, 700) | st.sampled_from([8 * 32, 8 * 96, 16 * 32]), threads=st.sampled_from([32, 64, 96]))
def test_every_unit_is_read_once_and_is_in_the_sum_of_one_thread(count, threads):
    memory = UnitMemory(BASE, count)
    sum_units = build_sum(memory.access(), lambda function: function)
    total = sum(sum_units(BASE, count, rank, threads) for rank in range(threads))
    assert memory.reads == Counter(range(count))
    assert total == sum(sum(memory.value(index)) for index in range(count))
