"""Recorded shapes are counted."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pega_tune.autotune.kv.traffic import CountedShape, merged
from pega_tune.errors import UsageError
from pega_tune.kernels.shape import Direction, TransferShape

shapes = st.builds(TransferShape, st.integers(1, 3), st.integers(3, 5), st.sampled_from(Direction))
counted = st.lists(st.builds(CountedShape, shapes, st.integers(1, 9)))


@given(counted)
def test_each_shape_comes_once_and_no_transfer_is_lost(recorded: list[CountedShape]) -> None:
    together = merged(recorded)
    assert len({each.shape for each in together}) == len(together)
    for each in together:
        assert each.count == sum(one.count for one in recorded if one.shape == each.shape)
    assert sum(each.count for each in together) == sum(each.count for each in recorded)
    assert [each.count for each in together] == sorted((each.count for each in together), reverse=True)


def test_equally_frequent_shapes_keep_their_order() -> None:
    first, second = (CountedShape(TransferShape(n, 9)) for n in (5, 2))
    assert merged([first, second]) == (first, second)


def test_no_transfer_at_all_is_refused() -> None:
    with pytest.raises(UsageError, match="at least once"):
        CountedShape(TransferShape(1, 1), 0)
