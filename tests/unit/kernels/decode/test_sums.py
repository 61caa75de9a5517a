from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from pega_tune.kernels.decode.geometry import MOST_PARTS
from pega_tune.kernels.decode.sums import build_part_sum, build_sum
from pega_tune.kernels.ptx import Access
from tests.helpers.unit_memory import UnitMemory

BASE = 4096


@given(count=st.integers(0, 700) | st.sampled_from([8 * 32, 8 * 96, 16 * 32]), threads=st.sampled_from([32, 64, 96]))
def test_every_unit_is_read_once_and_is_in_the_sum_of_one_thread(count, threads):
    memory = UnitMemory(BASE, count)
    sum_units = build_sum(memory.access(), lambda function: function)
    total = sum(sum_units(BASE, count, rank, threads) for rank in range(threads))
    assert memory.reads == Counter(range(count))
    assert total == sum(sum(memory.value(index)) for index in range(count))


@given(parts=st.lists(st.integers(-1000, 1000), max_size=MOST_PARTS), step=st.sampled_from([4, 32, 10_240]))
def test_as_many_parts_as_there_are_make_the_sum(parts, step):
    stored = {BASE + i * step: part for i, part in enumerate(parts)}

    def refuse(*_: object) -> None:
        raise AssertionError("a sum loads what there is, and stores nothing")

    access = Access(4, refuse, refuse, lambda address, wanted: stored.pop(address) if wanted else 1 << 30, refuse)
    sum_parts = build_part_sum(access, lambda bits: 2 * bits, lambda function: function)
    assert sum_parts(BASE, step, len(parts), 0) == 2 * sum(parts)
    assert not stored
