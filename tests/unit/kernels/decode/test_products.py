"""How a product is cut into CTAs, and what its lanes read: run as plain Python over a modelled memory."""

from collections import Counter
from itertools import product

from hypothesis import given, settings
from hypothesis import strategies as st

from pega_tune.kernels.decode.geometry import (
    GROUP_ROWS,
    HEAD_CLUSTER,
    LANE_UNITS,
    LAYER_CLUSTER,
    LAYER_SM_PERCENT,
    MOST_PARTS,
    PART_VALUES,
    PASS_UNITS,
    PRODUCT_THREADS,
    TILE_ROWS,
    WARP,
    Split,
    layer_ctas,
)
from pega_tune.kernels.decode.products import Operands, ProductParts, Share, build_product, share_of
from pega_tune.kernels.ptx import Access
from tests.helpers.unit_memory import UnitMemory

eights = st.integers(1, 4000).map(lambda n: 8 * n)
shapes = st.tuples(eights, eights)
WEIGHTS, INPUTS, OUTPUTS = 1 << 20, 1 << 16, 1 << 12


def passes_of(shape: tuple[int, int]) -> int:
    return -(-shape[0] // (8 * PASS_UNITS))


def covers(split: Split, shape: tuple[int, int]) -> bool:
    """Whether the CTAs hold all rows, in whole clusters of which none has nothing to do."""
    idle = (split.columns - split.cluster) * split.block_rows >= shape[1]
    return split.columns % split.cluster == 0 and not idle and shape[1] <= split.columns * split.block_rows


@given(shape=shapes, widest=st.integers(1, 200))
def test_a_split_has_a_cta_for_every_row_and_part_and_no_more_than_allowed(shape, widest):
    for split in (Split.of(shape, widest), Split.whole(shape, widest)):
        assert 1 <= split.columns * split.parts <= max(widest, LAYER_CLUSTER)
        assert covers(split, shape)
        assert split.block_rows % TILE_ROWS == 0
        assert split.passes == -(-passes_of(shape) // split.parts)
        assert split.parts == 1 or split.parts <= min(MOST_PARTS, passes_of(shape), shape[0] // PART_VALUES)


@given(shape=shapes, widest=st.integers(1, 200))
def test_no_split_takes_a_quarter_off_the_largest_cta_of_the_chosen_one(shape, widest):
    chosen, whole = Split.of(shape, widest), Split.whole(shape, widest)
    assert chosen == whole or chosen.largest <= 0.75 * whole.largest
    most = min(MOST_PARTS, passes_of(shape), shape[0] // PART_VALUES, widest // LAYER_CLUSTER)
    for parts in range(1, most + 1):
        clusters = widest // (parts * LAYER_CLUSTER)
        largest = TILE_ROWS * -(-shape[1] // (TILE_ROWS * LAYER_CLUSTER * clusters)) * -(-passes_of(shape) // parts)
        assert largest >= chosen.largest or largest > 0.75 * whole.largest


@given(shape=shapes, sms=st.integers(1, 200))
def test_the_head_has_at_most_a_cta_for_every_sm(shape, sms):
    split = Split.head(shape, sms)
    assert (split.parts, split.passes, split.cluster) == (1, passes_of(shape), HEAD_CLUSTER)
    assert split.columns <= max(sms, HEAD_CLUSTER)
    assert covers(split, shape)


@given(sms=st.integers(1, 300))
def test_layers_leave_sms_free(sms):
    share = LAYER_SM_PERCENT / 100
    assert max(1, share * sms - 1) <= layer_ctas(sms) <= max(1, share * sms)


def shares_of(shape: tuple[int, int], split: Split, lane: int = 0) -> list[Share]:
    """Those of one lane of every warp."""
    grid = split.columns, split.parts
    blocks = product(range(split.columns), range(split.parts))
    threads = range(lane, PRODUCT_THREADS, WARP)
    return [share_of(thread, block, grid, (shape[1], shape[0] // 8)) for block in blocks for thread in threads]


@given(shape=shapes, widest=st.integers(1, 200), is_head=st.booleans())
@settings(max_examples=30)
def test_the_shares_of_all_warps_are_the_matrix_once(shape, widest, is_head):
    split = Split.head(shape, widest) if is_head else Split.of(shape, widest)
    shares = shares_of(shape, split)
    parts = sorted({(share.begin, share.stop) for share in shares})
    assert len(parts) == split.parts
    assert [begin for begin, _ in parts] == [0, *(stop for _, stop in parts[:-1])]
    assert parts[-1][1] == shape[0] // 8
    assert all(0 < stop - begin <= split.passes * PASS_UNITS for begin, stop in parts)
    step = PRODUCT_THREADS // WARP * GROUP_ROWS
    groups = Counter(row for share in shares for row in range(share.row, share.end, step))
    assert groups == Counter(dict.fromkeys(range(0, shape[1], GROUP_ROWS), split.parts))


@given(
    rows=st.integers(1, 40).map(lambda n: 8 * n),
    units=st.integers(1, 300) | st.sampled_from([PASS_UNITS, 2 * PASS_UNITS, 4 * PASS_UNITS]),
    vectors=st.sampled_from([1, 3]),
    widest=st.integers(1, 12),
)
@settings(max_examples=15, deadline=None)
def test_every_unit_meets_that_of_its_vector_once(rows, units, vectors, widest):
    matrix, vector = UnitMemory(WEIGHTS, rows * units), UnitMemory(INPUTS, vectors * units)
    sums: Counter[int] = Counter()
    split = Split.of((8 * units, rows), widest)

    def finish(outputs: int, row: int, totals: tuple[int, ...]) -> None:
        assert outputs == OUTPUTS
        sums.update({row + i: total for i, total in enumerate(totals)})

    multiply_rows = build_product(
        ProductParts(matrix.access(), vector.access(), lambda total, a, b: total + a * (b + 1), finish),
        lambda function: function,
    )
    operands = Operands(WEIGHTS, 16 * units, INPUTS, vectors, OUTPUTS)
    for lane in range(WARP):
        for share in shares_of((8 * units, rows), split, lane):
            multiply_rows(operands, share, 0)
    assert matrix.reads == Counter(range(rows * units))
    assert set(vector.reads) == set(range(min(vectors, rows // GROUP_ROWS) * units))
    for row in range(rows):
        first = row // GROUP_ROWS % vectors * units
        pairs = ((matrix.value(row * units + i), vector.value(first + i)) for i in range(units))
        assert sums[row] == sum(a * (b + 1) for weights, inputs in pairs for a, b in zip(weights, inputs, strict=True))


def test_all_loads_of_a_pass_are_made_before_the_first_is_used():
    memory, events = UnitMemory(0, 4 * PASS_UNITS), []
    load_if = memory.access().load_if

    def seen(address: int, condition: bool) -> tuple[int, int]:
        events.append("load")
        return load_if(address, condition)

    def add_products(total: int, a: int, b: int) -> int:
        events.append("add")
        return total + a * b

    access = Access(16, seen, seen, seen, seen)
    multiply_rows = build_product(
        ProductParts(access, access, add_products, lambda *_: None), lambda function: function
    )
    operands = Operands(0, 16 * PASS_UNITS, 0, 1, 0)
    multiply_rows(operands, share_of(0, (0, 0), (1, 1), (4, PASS_UNITS)), 0)
    loads = (GROUP_ROWS + 1) * LANE_UNITS
    assert events == ["load"] * loads + ["add"] * (2 * GROUP_ROWS * LANE_UNITS)
