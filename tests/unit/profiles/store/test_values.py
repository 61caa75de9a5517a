"""The boundary between Python values and stored ones."""

import json
import struct
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import BigInteger, Double, Integer, LargeBinary, Text

from pega_tune.profiles.store.errors import RecordDamagedError, ValueRefusedError
from pega_tune.profiles.store.records import SweepState
from pega_tune.profiles.store.values import (
    decode_samples,
    decode_time,
    encode_json,
    encode_samples,
    encode_time,
    plain,
    readable,
)


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False)))
def test_samples_come_back_bit_by_bit(samples: list[float]) -> None:
    blob = encode_samples(samples, "samples")
    assert len(blob) == 8 * len(samples)
    decoded = decode_samples(blob, len(samples), "samples")
    assert struct.pack(f"{len(samples)}d", *decoded) == struct.pack(f"{len(samples)}d", *samples)


@pytest.mark.parametrize("count", [0, 1, 3])
def test_samples_of_another_count_are_damage(count: int) -> None:
    with pytest.raises(RecordDamagedError, match="16 bytes"):
        decode_samples(bytes(16), count, "samples")


@pytest.mark.parametrize(
    ("value", "kind", "expected"),
    [
        (np.int64(-(2**63)), BigInteger(), -(2**63)),
        (2**63 - 1, BigInteger(), 2**63 - 1),
        (np.int8(-1), Integer(), -1),
        (np.float32(0.1), Double(), 0.10000000149011612),
        (3, Double(), 3.0),
        (Fraction(1, 4), Double(), 0.25),
        (Decimal("0.5"), Double(), 0.5),
        (SweepState.RUNNING, Text(), "running"),
        (np.str_("x"), Text(), "x"),
        (memoryview(b"ab"), LargeBinary(), b"ab"),
    ],
)
def test_what_fits_becomes_a_built_in(value: object, kind: object, expected: object) -> None:
    stored = plain(value, kind, "t.c")  # type: ignore[arg-type]
    assert stored == expected
    assert type(stored) is type(expected)


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (2**63, BigInteger()),
        (-(2**63) - 1, BigInteger()),
        (2**31, Integer()),
        (1.0, Integer()),
        ("1", Integer()),
        (np.float64("nan"), Double()),
        (float("-inf"), Double()),
        (10**400, Double()),
        ("1.5", Double()),
        (1, Text()),
        (b"x", Text()),
        ("x", LargeBinary()),
        (np.array([1]), LargeBinary()),
    ],
)
def test_what_does_not_fit_is_refused_by_name(value: object, kind: object) -> None:
    with pytest.raises(ValueRefusedError, match=r"^t\.c "):
        plain(value, kind, "t.c")  # type: ignore[arg-type]


def test_json_is_canonical() -> None:
    value = {"b": (np.int64(1), np.float64(0.5)), "a": {"ü": None, "c": np.bool_(True)}}
    assert encode_json(value, "x") == '{"a":{"c":true,"ü":null},"b":[1,0.5]}'


@pytest.mark.parametrize("value", [float("nan"), [float("inf")], {"x": np.float32("nan")}, object(), {1, 2}])
def test_json_that_another_database_would_refuse_is_refused(value: object) -> None:
    with pytest.raises(ValueRefusedError, match=r"^x cannot be stored"):
        encode_json(value, "x")


@given(
    st.datetimes(min_value=datetime(1970, 1, 3), max_value=datetime(2200, 1, 1)),
    st.integers(-14 * 60, 14 * 60),
)
def test_times_come_back_in_utc(moment: datetime, offset_minutes: int) -> None:
    there = moment.replace(tzinfo=timezone(timedelta(minutes=offset_minutes)))
    back = decode_time(encode_time(there, "x"))
    assert back == there
    assert back.tzinfo is UTC


@given(st.datetimes(timezones=st.just(UTC)), st.datetimes(timezones=st.just(UTC)))
def test_text_order_is_time_order(one: datetime, other: datetime) -> None:
    assert (encode_time(one, "x") < encode_time(other, "x")) == (one < other)


@pytest.mark.parametrize(
    "error", [json.JSONDecodeError("bad", "", 0), KeyError("uuid"), TypeError("no"), ValueError("no")]
)
def test_a_row_that_cannot_be_read_is_damage(error: Exception) -> None:
    with pytest.raises(RecordDamagedError, match=r"^sweep aa cannot be read"), readable("sweep aa"):
        raise error
