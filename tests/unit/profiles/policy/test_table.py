"""Tables: the edges are the contract that code emitters repeat, so every one is tested at -1, 0 and +1."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pega_tune.errors import DataError
from pega_tune.kernels.plan import PlanPair
from pega_tune.kernels.shape import Direction
from pega_tune.profiles.policy.table import Bounds, CompiledPolicy, Predicted, centres
from pega_tune.profiles.policy.terms import Hint, Runtime
from tests.unit.profiles.policy.examples import DIRECT, edges, one_way, option


def brute_force(values: tuple[int, ...], value: int) -> int:
    return max(index for index, edge in enumerate(values) if edge <= value)


@given(edges, edges, st.data())
def test_every_edge_lands_in_its_cell(rows, columns, data):
    cells = tuple((option(DIRECT, 1.0 + index),) for index in range(len(rows) * len(columns)))
    table = one_way(range_edges=rows, size_edges=columns, cells=cells)
    near = [max(1, edge + step) for edge in (*rows, *columns) for step in (-1, 0, 1)]
    for ranges in near:
        size = data.draw(st.sampled_from(near))
        expected = cells[brute_force(rows, ranges) * len(columns) + brute_force(columns, size)]
        assert table.look_up(ranges, size) is expected


@given(edges, st.integers(1, 1 << 41))
def test_bounds_hold_the_value_and_end_at_the_edges(values, value):
    bounds = Bounds.around(values, value)
    assert bounds.low in values
    assert bounds.low <= value
    assert bounds.high is None or (value <= bounds.high and bounds.high + 1 in values)


@given(edges, st.integers(1, 1 << 41))
def test_the_centre_of_a_cell_lies_in_it(values, value):
    bounds = Bounds.around(values, value)
    (centre,) = [c for c in centres(values) if Bounds.around(values, c) == bounds]
    table = one_way(range_edges=values, size_edges=(1,), cells=((option(DIRECT, 1.0),),) * len(values))
    assert table.centre(value, 1)[0] == centre


@pytest.mark.parametrize(
    ("ranges", "size", "covered"),
    [
        (1, 4096, True),
        (1, 4095, False),  # too little in all
        (16384, 4096, True),
        (16384, 4097, False),  # too much in all
        (16385, 1024, False),
        (16384, 1023, False),
        (1, 1 << 21, True),
        (1, (1 << 21) + 1, False),
    ],
)
def test_a_table_covers_ranges_sizes_and_both_together(ranges, size, covered):
    assert one_way().covers(ranges, size) is covered


@pytest.mark.parametrize(("bounds", "text"), [((1, 1), "1"), ((4, 7), "4 to 7"), ((8, None), "8 and more")])
def test_bounds_read_as_words(bounds, text):
    assert str(Bounds(*bounds)) == text


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"range_edges": ()}, "range_edges do not ascend from 1"),
        ({"size_edges": (2, 4, 8)}, "size_edges do not ascend from 1"),
        ({"size_edges": (1, 8, 8)}, "size_edges do not ascend from 1"),
        ({"size_edges": (1, 8, 2**63)}, "size_edges do not ascend from 1"),
        ({"range_edges": (1, 2)}, "3 cells where the edges make 6"),
        ({"cells": ((),) * 3}, "cell 0 has 0 options"),
        ({"cells": ((option(DIRECT, 1.0),) * 5,) * 3}, "cell 0 has 5 options"),
        ({"cells": ((option(PlanPair(DIRECT, DIRECT), 1.0),),) * 3}, "cell 0 has a plan for another direction"),
        ({"direction": Direction.BOTH}, "cell 0 has a plan for another direction"),
        ({"measured_ranges": (4, 2)}, "measured_ranges 4 to 2 is no interval"),
        ({"measured_sizes": (0, 2)}, "measured_sizes 0 to 2 is no interval"),
        ({"measured_bytes": (9, 8)}, "measured_bytes 9 to 8 is no interval"),
        ({"margin": math.nan}, "margin"),
        ({"margin": -0.1}, "margin"),
        ({"step_s": 0.0}, "step_s"),
        ({"hint": Hint.STRIDED, "runtime": Runtime.PEGAFLOW}, "h2d/idle/pegaflow/strided: the hint strided is for"),
        ({"sources": ("a",)}, "0 pieces of evidence for 3 cells"),
        ({"evidence": (0, 0, 0)}, "3 pieces of evidence for 3 cells"),
        ({"sources": ("a", "a"), "evidence": (0, 0, 0)}, "named twice"),
        ({"sources": ("",), "evidence": (0, 0, 0)}, "a source is empty"),
        ({"sources": ("a",), "evidence": (0, 0, 1)}, "no index of a source"),
        ({"sources": ("a",), "evidence": (0, -1, 0)}, "no index of a source"),
    ],
)
def test_a_table_that_contradicts_itself_is_refused(changes, complaint):
    with pytest.raises(DataError) as caught:
        one_way(**changes)
    assert complaint in caught.value.message


@pytest.mark.parametrize("bad", [0.0, -1.0, math.inf, math.nan])
def test_times_are_positive_and_finite(bad):
    with pytest.raises(DataError, match="time_s"):
        Predicted(bad)
    with pytest.raises(DataError, match="completion_p99_s"):
        Predicted(1.0, completion_p99_s=bad)


@pytest.mark.parametrize("bad", [-1e-9, math.inf, math.nan])
def test_costs_to_decode_are_not_negative_and_finite(bad):
    with pytest.raises(DataError, match="stall_s"):
        Predicted(1.0, stall_s=bad)
    with pytest.raises(DataError, match="extra_s"):
        Predicted(1.0, extra_s=bad)


def test_a_policy_has_one_table_for_each_key():
    with pytest.raises(DataError, match="two tables"):
        CompiledPolicy((one_way(), one_way()))


def test_find_goes_by_all_four_keys():
    table, strided = one_way(), one_way(hint=Hint.STRIDED)
    policy = CompiledPolicy((table, strided))
    assert policy.find(table.direction, table.colocation, table.runtime) is table
    assert policy.find(table.direction, table.colocation, table.runtime, Hint.STRIDED) is strided
    assert policy.find(table.direction, table.colocation, table.runtime, Hint.HOST_RUNS) is None
    assert policy.find(Direction.D2H, table.colocation, table.runtime) is None
