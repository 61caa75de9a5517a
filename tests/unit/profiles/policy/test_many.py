"""`decide_many` answers as `decide` does, at every edge too, and both answer as the tables say."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pega_tune.errors import UsageError
from pega_tune.kernels.shape import MAX_BYTES
from pega_tune.profiles.policy.auto import Auto
from pega_tune.profiles.policy.many import axis
from pega_tune.profiles.policy.table import Table
from pega_tune.profiles.policy.terms import Colocation, Evidence, Hint, Objective, Tier
from tests.unit.profiles.policy.examples import DIRECT, NARROW, STAGED, edges, now, one_way, option, profile

LAYOUTS = ({}, {"pitch": MAX_BYTES}, {"host_runs": 1}, {"host_runs": 1, "pitch": MAX_BYTES, "alignment": 8})


@st.composite
def tables_of_a_hint(draw: st.DrawFn, hint: Hint) -> Table:
    """No two cells are alike, so that an answer from a wrong one is seen."""
    rows, columns = draw(edges), draw(edges)
    first = list(Hint).index(hint) + 1.0
    measured = st.tuples(st.integers(1, 1 << 40), st.integers(1, 1 << 62)).map(lambda pair: tuple(sorted(pair)))
    return one_way(
        range_edges=rows,
        size_edges=columns,
        cells=tuple((option(DIRECT, first + 4 * index),) for index in range(len(rows) * len(columns))),
        hint=hint,
        **{name: draw(measured | st.just((1, MAX_BYTES))) for name in ("measured_ranges", "measured_sizes")},
        measured_bytes=draw(measured | st.just((1, MAX_BYTES))),
    )


@st.composite
def answerers(draw: st.DrawFn) -> Auto:
    hints = draw(st.sets(st.sampled_from(Hint))) | {Hint.NONE}
    return Auto(profile(*(draw(tables_of_a_hint(hint)) for hint in Hint if hint in hints)), Tier.BOARD, clock=now)


def tables_of(answerer: Auto) -> dict[Hint, Table]:
    return {table.hint: table for table in answerer.profile.policy.tables}


def near(answerer: Auto) -> list[tuple[int, int]]:
    """Ranges and bytes around every edge of every table, and where what was measured begins and ends."""
    tables = tables_of(answerer).values()
    ranges = {edge for table in tables for edge in (*table.range_edges, *table.measured_ranges)}
    sizes = {edge for table in tables for edge in (*table.size_edges, *table.measured_sizes)}
    totals = {edge for table in tables for edge in table.measured_bytes}
    pairs = [(n + a, (n + a) * (s + b) + c) for n, s in product(ranges, sizes) for a, b in product((-1, 0, 1), repeat=2)
             for c in (0, n // 2)]  # fmt: skip
    pairs += [(n, total + c) for n, total in product(ranges, totals) for c in (-1, 0, 1)]
    return [(n, total) for n, total in pairs if 1 <= n <= total <= MAX_BYTES]


def looked_up(tables: dict[Hint, Table], shape: tuple[int, int], layout: dict[str, int]) -> tuple[Table, int, bool]:
    """The table that answers, the cell, and whether it covers the shape: as the contract says it, step by step."""
    ranges, total_bytes = shape
    runs, size = layout.get("host_runs"), total_bytes // ranges
    hints = [
        *([Hint.STRIDED] if "pitch" in layout else []),
        *([Hint.HOST_ORDERED] if runs == 1 else []),
        *([Hint.HOST_RUNS] if runs is not None and ranges // runs >= 16 else []),
    ]
    covering = (tables[h] for h in hints if h in tables and tables[h].covers(ranges, size))
    table = next(covering, tables[Hint.NONE])
    return table, table.index(ranges, size), table.covers(ranges, size)


@given(answerers(), st.sampled_from(LAYOUTS), st.data())
@settings(max_examples=60)
def test_at_every_edge_both_answer_as_the_tables_say(answerer, layout, data):
    shapes = data.draw(st.lists(st.sampled_from(near(answerer)), min_size=1, max_size=60))
    decisions = answerer.decide_many(*zip(*shapes, strict=True), "h2d", **layout)
    assert len(decisions) == len(shapes)
    tables = tables_of(answerer)
    for shape, decision in zip(shapes, decisions, strict=True):
        table, cell, covered = looked_up(tables, shape, layout)
        assert answerer.decide(*shape, "h2d", **layout) is decision
        assert answerer.decide(*shape, "h2d", **layout) is decision  # the second time without the slow way
        assert (decision.hint, decision.basis.cell, decision.basis.covered) == (table.hint, cell, covered)
        assert decision.predicted.time_s == (table.cells[cell][0].predicted.time_s if covered else None)


all_edges = st.sets(st.integers(2, MAX_BYTES), max_size=12).map(lambda values: (1, *sorted(values)))


def small_world(hint: Hint) -> Table:
    """Every shape near it can be asked."""
    first = list(Hint).index(hint) + 1.0
    return one_way(
        range_edges=(1, 4, 20),
        size_edges=(1, 3, 8),
        cells=tuple((option(DIRECT, first + 4 * index),) for index in range(9)),
        hint=hint,
        measured_ranges=(2, 34),
        measured_sizes=(2, 9),
        measured_bytes=(24, 160) if hint is Hint.NONE else (40, 100),
    )


@pytest.mark.parametrize("layout", [{}, {"host_runs": 1}, {"host_runs": 2}, {"pitch": 99}])
@pytest.mark.parametrize("step", [1, -1])
def test_a_small_world_is_answered_rightly_whatever_was_asked_before(layout, step):
    answerer = Auto(profile(*map(small_world, Hint)), Tier.BOARD, clock=now)
    tables = tables_of(answerer)
    shapes = [(n, n * size + rest) for n in range(2, 37) for size in range(1, 12) for rest in (0, n - 1)][::step]
    for _ in range(2):
        for shape in shapes:
            basis = answerer.decide(*shape, "h2d", **layout).basis
            assert (basis.table, basis.cell, basis.covered) == looked_up(tables, shape, layout)


def lending_world() -> Auto:
    """Beside decode every second cell knows what it costs, and nothing but a pitch was measured of how ranges lie."""
    beside = [replace(small_world(hint), colocation=Colocation.TIME_SLICED) for hint in (Hint.NONE, Hint.STRIDED)]
    served = tuple((option(DIRECT, 1e-3 * (1 + index), 1e-4 if index % 2 else None),) for index in range(9))
    return Auto(profile(*map(small_world, Hint), replace(beside[0], cells=served), beside[1]), Tier.BOARD, clock=now)


def lent(answerer: Auto, shape: tuple[int, int], layout: dict[str, int]) -> tuple[Table, int, bool]:
    """As `looked_up`, by the rule of `Chain`, step by step."""
    tables = {(table.colocation, table.hint): table for table in answerer.profile.policy.tables}
    beside = {hint: table for (where, hint), table in tables.items() if where is Colocation.TIME_SLICED}
    table, cell, covered = looked_up(beside, shape, layout)
    if table.hint is Hint.NONE and not (covered and table.cells[cell][0].predicted.stall_s is not None):
        idle = {hint: table for (_, hint), table in tables.items() if hint not in beside}
        return looked_up(idle | {Hint.NONE: table}, shape, layout)
    return table, cell, covered


@pytest.mark.parametrize(
    "layout", [{}, {"host_runs": 1}, {"host_runs": 2}, {"pitch": 99}, {"host_runs": 1, "pitch": 99}]
)
@pytest.mark.parametrize("objective", Objective)
def test_idle_tables_of_a_hint_answer_where_nothing_is_known_beside_decode(layout, objective):
    answerer = lending_world()
    shapes = [(n, n * size + rest) for n in range(2, 37) for size in range(1, 12) for rest in (0, n - 1)]
    many = answerer.decide_many(*zip(*shapes, strict=True), "h2d", objective=objective, period_s=1e9, **layout)
    for shape, each in zip(shapes, many, strict=True):
        decision = answerer.decide(*shape, "h2d", objective=objective, period_s=1e9, **layout)
        assert decision is each
        assert decision is answerer.decide(*shape, "h2d", objective=objective, period_s=1e9, **layout)
        basis = decision.basis
        assert (basis.table, basis.cell, basis.covered) == lent(answerer, shape, layout)
    hints = {each.hint for each in many}
    assert (Hint.HOST_ORDERED in hints) == (layout == {"host_runs": 1})
    assert (Hint.STRIDED in hints) == ("pitch" in layout)
    assert len(many.distinct) == len({id(each) for each in many})


@pytest.mark.parametrize("answerer", [Auto.rule_only(), Auto(profile(one_way()), Tier.BOARD)])
def test_what_was_answered_does_not_let_a_senseless_shape_pass(answerer):
    answerer.decide(3, MAX_BYTES // 4, "h2d")
    answerer.decide(3, MAX_BYTES, "h2d")
    for shape in ((3, MAX_BYTES + 1), (-3, -MAX_BYTES // 4), (3, 2), (0, 3)):
        with pytest.raises(UsageError):
            answerer.decide(*shape, "h2d")
    with pytest.raises(UsageError):
        answerer.decide(3, MAX_BYTES // 4, "h2d", host_runs=4)


@given(edges | all_edges, st.lists(st.integers(1, MAX_BYTES), max_size=50))
def test_edges_are_found_as_by_bisection(values, more):
    exact = [max(1, min(MAX_BYTES, e + step)) for e in values for step in (-1, 0, 1)]
    powers = [max(1, (1 << k) + step) for k in range(62) for step in (-1, 0, 1)]
    asked = np.array([*exact, *powers, *more])
    assert axis(values).find(asked).tolist() == (np.searchsorted(values, asked, side="right") - 1).tolist()


def test_layouts_may_differ_from_shape_to_shape():
    plain, ordered, strided = (
        one_way(option(plan, 1e-3), hint=hint)
        for plan, hint in ((NARROW, Hint.NONE), (STAGED, Hint.HOST_ORDERED), (DIRECT, Hint.STRIDED))
    )
    answerer = Auto(profile(plain, ordered, strided), Tier.BOARD, clock=now)
    ranges, totals = [64] * 5, np.full(5, 1 << 20, np.uint32)
    runs, pitch = (0, 64, 1, 1, 4), [0, 0, 0, 1 << 14, 1 << 15]
    decisions = answerer.decide_many(ranges, totals, "h2d", host_runs=runs, pitch=pitch, alignment=16)
    assert [each.plan for each in decisions] == [NARROW, NARROW, STAGED, DIRECT, DIRECT]
    for at in range(5):
        alone = answerer.decide(64, 1 << 20, "h2d", host_runs=runs[at] or None, pitch=pitch[at] or None)
        assert decisions[at] is alone
    assert len(decisions.distinct) == 3


def test_a_slice_of_one_cell_shares_one_decision():
    decisions = Auto.rule_only().decide_many(range(16, 5000), range(1 << 20, (1 << 20) + 4984))
    assert len(decisions) == 4984
    assert len(decisions.distinct) == 1
    assert decisions[-1] is decisions[0]
    with pytest.raises(ValueError, match="read-only"):
        decisions.index[0] = 1
    with pytest.raises(IndexError):
        decisions[4984]


def test_no_shapes_have_no_answers():
    decisions = Auto.rule_only().decide_many([], [], host_runs=[])
    assert (len(decisions), list(decisions), decisions.distinct) == (0, [], ())


def test_terms_are_those_of_decide():
    busy = one_way(option(NARROW, 1e-3, 3e-3), option(DIRECT, 40e-3, 0.1e-3), step_s=4e-3)
    answerer = Auto(profile(busy), Tier.BOARD, clock=now)
    for terms in ({"objective": "strict"}, {"objective": "strict", "period_s": 0.02}, {"runtime": "pegaflow"}):
        (decision,) = answerer.decide_many([64], [1 << 20], "h2d", colocation="idle", **terms)
        assert decision is answerer.decide(64, 1 << 20, "h2d", colocation="idle", **terms)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"merged_ranges": [4, 0, -1]}, "shape 1: a transfer has at least 1 range, not 0"),
        ({"total_bytes": [64, 64, 3]}, "shape 2: 4 ranges need at least as many bytes, not 3"),
        ({"total_bytes": [64, 64, 2**62 + 1]}, "shape 2: a transfer has between 1 and 2^62 bytes"),
        ({"total_bytes": np.array([64, 2**63 + 1, 1], np.uint64)}, "shape 1: total_bytes is at most 2^62"),
        ({"total_bytes": [64, 2**70, 1]}, "shape 1: total_bytes is at most 2^62"),
        ({"merged_ranges": [4, 4.0, 4]}, "shape 1: merged_ranges is a whole number, not 4.0"),
        ({"merged_ranges": [4, 4, None]}, "shape 2: merged_ranges is a whole number, not None"),
        ({"merged_ranges": np.array([True, True, True])}, "shape 0: merged_ranges is a whole number, not"),
        ({"merged_ranges": [4, 4]}, "there are 2 merged_ranges and 3 total_bytes"),
        ({"merged_ranges": 4}, "merged_ranges are a sequence of whole numbers"),
        ({"merged_ranges": [4, [4], 4]}, "merged_ranges are a sequence of whole numbers"),
        ({"merged_ranges": [[4], [4], [4]]}, "merged_ranges are a sequence of whole numbers"),
        ({"host_runs": [1, 5, 1]}, "shape 1: host runs are 1 to the number of ranges, not 5"),
        ({"host_runs": -1}, "shape 0: host runs are 1 to the number of ranges, not -1"),
        ({"host_runs": [1, 1]}, "there are 3 shapes and 2 host_runs"),
        ({"alignment": [16, 16, 12]}, "shape 2: alignment is one of 1, 2, 4, 8, 16, not 12"),
        ({"alignment": 32}, "shape 0: alignment"),
        ({"pitch": [0, 16, 15]}, "shape 2: pitch is at least the size of a range, 16 bytes, not 15"),
        ({"direction": "up"}, "direction is one of"),
        ({"budget": -1.0}, "budget"),
    ],
)
def test_a_senseless_question_is_refused_and_the_shape_named(wrong, words):
    with pytest.raises(UsageError) as caught:
        Auto.rule_only().decide_many(**({"merged_ranges": [4, 4, 4], "total_bytes": [64, 64, 64]} | wrong))
    assert words in caught.value.message
    assert "\n" not in caught.value.message


def test_outside_what_was_measured_nothing_is_promised():
    decisions = Auto(profile(one_way()), Tier.BOARD, clock=now).decide_many([16384, 16385], [64 << 20] * 2, "h2d")
    assert [each.predicted_for is None for each in decisions] == [False, True]
    assert decisions[1].evidence is Evidence.NONE
