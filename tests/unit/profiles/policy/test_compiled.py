"""The stored form: round trips, is small, and lets nothing damaged through."""

import json
import math
import random
import zlib
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pega_tune.errors import DataError
from pega_tune.kernels.plan import AnyPlan, PlanPair, Variant, kernel
from pega_tune.kernels.shape import Direction
from pega_tune.profiles.policy import compiled
from pega_tune.profiles.policy.compiled import decode, digest, encode
from pega_tune.profiles.policy.table import CompiledPolicy, Option, Predicted, Table
from pega_tune.profiles.policy.terms import Colocation, Hint, Runtime
from tests.unit.profiles.policy.examples import BATCH, DIRECT, NARROW, STAGED, WIDE, one_way, option, policies

MAX_BLOB_BYTES = 512 << 10


@given(policies())
@settings(max_examples=60)
def test_decode_inverts_encode(policy):
    blob = encode(policy)
    assert decode(blob) == policy
    assert encode(decode(blob)) == blob


def test_hints_fits_and_sources_are_kept():
    fitted = Option(STAGED, Predicted(1e-3, 0.0, 0.0, 1e-3), fitted=True)
    known = one_way(fitted, hint=Hint.HOST_RUNS, **SOURCES)
    policy = CompiledPolicy((one_way(replace(fitted, fitted=False), **SOURCES), known))
    assert decode(encode(policy)) == policy
    assert decode(encode(policy)).find(known.direction, known.colocation, known.runtime, Hint.HOST_RUNS) == known


def test_times_keep_six_digits():
    policy = CompiledPolicy((one_way(option(DIRECT, 1 / 3, 1 / 7)),))
    predicted = decode(encode(policy)).tables[0].cells[0][0].predicted
    assert predicted == Predicted(0.333333, 0.142857, 0.285714, 0.333333)


def test_equal_policies_give_equal_bytes():
    zero, negative_zero = (CompiledPolicy((one_way(option(DIRECT, 1.0, stall)),)) for stall in (0.0, -0.0))
    assert zero == negative_zero
    assert encode(zero) == encode(negative_zero)


def test_the_digest_is_sha256():
    assert digest(b"abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"


def half_octaves(count: int, first: int) -> tuple[int, ...]:
    return (1, *(round(first * 2 ** (step / 2)) for step in range(1, count)))


def realistic(direction: Direction, served: bool) -> tuple[Table, ...]:
    """Three runtimes over one set of measured plans; no two cells are alike, as measured ones are not."""
    rng = random.Random(f"{direction} {served}")
    single = (DIRECT, BATCH, WIDE, NARROW, STAGED, *(kernel(Variant.WARP, grid, 1024) for grid in (2, 4, 8, 16)))
    plans: tuple[AnyPlan, ...] = tuple(PlanPair(p, p) for p in single) if direction is Direction.BOTH else single
    cells: dict[Runtime, list[tuple[Option, ...]]] = {runtime: [] for runtime in Runtime}
    for _ in range(35 * 35):
        costs = [rng.uniform(1e-6, 1e-1) for _ in range(3 * len(plans))]
        measured = [
            Option(p, Predicted(t, s, e, 1.5 * t) if served else Predicted(t))
            for p, t, s, e in zip(plans, costs[::3], costs[1::3], costs[2::3], strict=True)
        ]
        cells[Runtime.PEGAFLOW].append((measured[0], measured[2]))
        cells[Runtime.KERNEL_OPTIONS].append((measured[0], measured[2], *rng.sample(measured[5:], 2)))
        cells[Runtime.FULL].append(tuple(rng.sample(measured, 4)))
    edges = {"range_edges": half_octaves(35, 4), "size_edges": half_octaves(35, 16)}
    sources = tuple(f"{direction} {n} x {size} {served}" for n in range(10) for size in range(9))
    evidence = tuple(row // 4 * 9 + column // 4 for row in range(35) for column in range(35))
    known = {**edges, "sources": sources, "evidence": evidence}
    return tuple(
        one_way(direction=direction, runtime=runtime, cells=tuple(cells[runtime]), **known) for runtime in Runtime
    )


def test_all_tables_of_a_device_are_small():
    idle = [table for direction in Direction for table in realistic(direction, served=False)]
    busy = [table for direction in Direction for table in realistic(direction, served=True)]
    policy = CompiledPolicy((*idle, *(replace(table, colocation=Colocation.TIME_SLICED) for table in busy)))
    assert len(policy.tables) == 3 * 3 * 2
    blob = encode(policy)
    assert len(blob) <= MAX_BLOB_BYTES
    assert len(decode(blob).tables) == len(policy.tables)


def decoded(blob: bytes) -> CompiledPolicy | None:
    """The policy, or None if it was refused in one line; every other error escapes."""
    try:
        return decode(blob)
    except DataError as error:
        return None if error.message.count("\n") == 0 else pytest.fail(f"not one line: {error.message}")


SOURCES = {"sources": ("h2d 16", "h2d 64"), "evidence": (0, 1, 1)}
SMALL = encode(CompiledPolicy((one_way(option(NARROW, 1e-3, 1e-4), option(DIRECT, 2e-3), **SOURCES),)))


@given(st.integers(0, len(SMALL) - 1), st.integers(1, 255))
def test_a_changed_byte_is_noticed_or_harmless(position, change):
    damaged = bytearray(SMALL)
    damaged[position] ^= change
    policy = decoded(bytes(damaged))
    assert policy is None or policy == decode(SMALL)  # deflate ignores the bits after its end


@given(st.integers(0, len(SMALL) - 1))
def test_a_cut_blob_is_refused(length):
    with pytest.raises(DataError):
        decode(SMALL[:length])


@given(st.binary(max_size=200))
def test_noise_is_refused(noise):
    with pytest.raises(DataError):
        decode(noise)
    with pytest.raises(DataError):
        decode(zlib.compress(noise))


def packed(content: object) -> bytes:
    return zlib.compress(json.dumps(content).encode())


def paths(content: object, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """Where every value of a JSON document is."""
    children = content.items() if isinstance(content, dict) else enumerate(content) if isinstance(content, list) else ()
    return [path, *(deeper for key, value in children for deeper in paths(value, (*path, key)))]


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=4,
)


@given(st.data())
@settings(max_examples=300)
def test_no_wrong_value_escapes_as_another_error(data):
    content = json.loads(zlib.decompress(SMALL))
    *parents, last = data.draw(st.sampled_from(paths(content)[1:]))
    target = content
    for key in parents:
        target = target[key]
    target[last] = data.draw(JUNK)
    policy = decoded(packed(content))
    assert policy is None or encode(decode(encode(policy))) == encode(policy)


def changed(*path_and_value: object) -> bytes:
    content = json.loads(zlib.decompress(SMALL))
    *path, last, value = path_and_value
    target = content
    for key in path:
        target = target[key]
    target[last] = value
    return packed(content)


@pytest.mark.parametrize(
    ("blob", "complaint"),
    [
        (changed("format", None), "does not say its format"),
        (changed("format", True), "does not say its format"),
        (changed("plans", 0, "backend", "teleport"), "plan 0 is malformed: 'teleport' is not a valid Backend"),
        (changed("plans", 0, "threads", 33), "plan 0: threads is a multiple of 32"),
        (changed("plans", 0, "threads", 64.0), "plan 0: 64.0 is no whole number"),
        (changed("plans", 0, "stream_priority", "high"), "plan 0: 'high' is no whole number"),
        (changed("plans", 0, "stream_priority", -1000), "plan 0: stream_priority is -100 to 0, not -1000"),
        (changed("plans", 0, "stream_priority", 1), "plan 0: stream_priority is -100 to 0, not 1"),
        (changed("plans", 0, "chunk_descriptors", 1 << 63), "plan 0: chunk_descriptors is 1 to"),
        (changed("plans", 0, "color", "red"), "plan 0: it has unknown or contradicting entries"),
        (changed("plans", 0, "sm_partition", 8.0), "plan 0 is malformed: sm_partition is a whole number"),
        (changed("options", "time_s", 0, 0), "option 0: time_s is positive and finite"),
        (changed("options", "time_s", 0, 10**400), "option 0 is malformed"),
        (changed("options", "time_s", 0, "1"), "option 0: '1' is no number"),
        (changed("options", "time_s", [1.0]), "differ in length"),
        (changed("options", "plan", 1, 2), "option 1: there is no plan 2"),
        (changed("options", "plan", 1, -1), "option 1: there is no plan -1"),
        (changed("options", "p50_s", []), "the options has unknown 'p50_s'"),
        (changed("options", "fitted", 0, 0), "option 0: fitted is true or false, not 0"),
        (changed("sources", 0, 7), "source 0: 7 is no text"),
        (changed("sources", 0, ""), "table 0: table h2d/idle/full: a source is empty or named twice"),
        (changed("tables", 0, "hint", "none "), "table 0 is malformed: 'none ' is not a valid Hint"),
        (changed("tables", 0, "sources", [0, 2]), "table 0: there is no source 2"),
        (changed("tables", 0, "evidence", [0, 1]), "2 pieces of evidence for 3 cells"),
        (changed("tables", 0, "evidence", [0, 1, 1]), "evidence is no index of a source"),
        (changed("lists", 0, [1, 1]), "option list 0: there is no option 2"),
        (changed("lists", 0, []), "table 0: table h2d/idle/full: cell 0 has 0 options"),
        (changed("tables", 0, "direction", "up"), "table 0 is malformed: 'up' is not a valid Direction"),
        (changed("tables", 0, "size_edges", 0, 2), "size_edges do not ascend from 1"),
        (changed("tables", 0, "cells", [0, 0]), "2 cells where the edges make 3"),
        (changed("tables", 0, "measured_sizes", [1]), "table 0 is malformed"),
        (changed("tables", 0, "note", 1), "table 0: it has unknown 'note'"),
        (changed("tables", 0, "cells", [0, 0, 0.0]), "table 0: 0.0 is no whole number"),
        (changed("tables", 0, "cells", [0, 0, 1]), "table 0: there is no option list 1"),
        (changed("tables", {}), "the tables are not a list"),
        (packed([]), "not a JSON object"),
        (packed({"format": 3}), "the policy lacks lists, options, plans, sources, tables"),
        (packed({"format": math.nan}), "not JSON: NaN is no number"),
        (zlib.compress(b"[" * 100_000), "not JSON"),
        (SMALL + b"x", "bytes after its end"),
        (SMALL[:-1], "cut short"),
        (b"", "cut short"),
        (b"not zlib", "damaged"),
    ],
)
def test_the_refusal_names_what_is_wrong(blob, complaint):
    with pytest.raises(DataError) as caught:
        decode(blob)
    assert complaint in caught.value.message


def test_a_newer_format_is_refused_by_name():
    with pytest.raises(DataError) as caught:
        decode(changed("format", compiled.FORMAT + 1))
    assert caught.value.message == "the policy has format 4, this version reads up to 3"
    assert "install" in caught.value.hint


def test_an_older_format_is_refused_by_name():
    with pytest.raises(DataError) as caught:
        decode(changed("format", compiled.FORMAT - 1))
    assert caught.value.message == "the policy has format 2, this version reads 3"
    assert "pega-tune sweep" in caught.value.hint


def test_a_bomb_is_not_inflated():
    with pytest.raises(DataError, match="larger than"):
        decode(zlib.compress(bytes(compiled.MAX_INFLATED_BYTES + 1)))


def test_more_values_than_any_policy_has_are_not_read():
    with pytest.raises(DataError, match="more than 1048576 values"):
        decode(zlib.compress(b"[" + b"1," * compiled.MAX_VALUES + b"1]"))


def test_more_quotation_marks_than_any_policy_has_are_not_read():
    with pytest.raises(DataError, match="more than 65536 quotation marks"):
        decode(zlib.compress(b"[" + b'"",' * compiled.MAX_QUOTES + b"1]"))


def test_the_text_is_ascii():
    text = zlib.decompress(SMALL)
    with pytest.raises(DataError, match="not ASCII"):
        decode(zlib.compress(text.replace(b"h2d 16", "h2d \N{GRINNING FACE}".encode())))


@pytest.mark.parametrize("member", [b'"format":1', b'"format":3'])
def test_a_key_twice_is_refused(member):
    text = zlib.decompress(encode(CompiledPolicy((one_way(option(NARROW, 1.0)),))))
    for doubled in (b"{" + member + b"," + text[1:], text[:-1] + b"," + member + b"}"):
        with pytest.raises(DataError, match="the key 'format' twice"):
            decode(zlib.compress(doubled))


def test_a_table_of_both_directions_holds_pairs():
    pair = PlanPair(NARROW, STAGED, fused=True)
    policy = CompiledPolicy(
        (one_way(option(pair, 1.0), direction=Direction.BOTH, colocation=Colocation.MPS, step_s=0.004),)
    )
    assert decode(encode(policy)) == policy
