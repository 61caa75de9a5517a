"""The one boundary between Python values and stored ones: numbers are checked and made plain, text is canonical."""

import json
import math
import operator
import struct
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, SupportsFloat, SupportsIndex, TypeVar

from sqlalchemy import BigInteger, Float, Integer, LargeBinary, Table
from sqlalchemy.types import TypeEngine

from pega_tune.errors import UsageError
from pega_tune.profiles.store.errors import RecordDamagedError, ValueRefusedError
from pega_tune.profiles.store.models import Base

_SAMPLE_BYTES = 8

Row = TypeVar("Row", bound=Base)


def settled(row: Row) -> Row:
    """`row` with every value made plain; each row passes here before it is written.

    Raises:
        ValueRefusedError: a value does not fit its column; named as `table.column`.
    """
    table = row.__table__
    assert isinstance(table, Table)
    for column in table.columns:
        value = getattr(row, column.key)
        # Nulls are the database's to judge: generated and foreign keys are filled in when the row is flushed.
        if value is not None:
            setattr(row, column.key, plain(value, column.type, f"{table.name}.{column.key}"))
    return row


def plain(value: object, kind: TypeEngine[Any], field: str) -> int | float | str | bytes:
    """`value` as the built-in type that a column of `kind` holds.

    Drivers take NumPy scalars for blobs or refuse them, and let NaN become NULL, so nothing else reaches them.

    Raises:
        ValueRefusedError: it does not fit; the message names `field`.
    """
    if isinstance(kind, Integer):
        return whole(value, field, bits=64 if isinstance(kind, BigInteger) else 32)
    if isinstance(kind, Float):
        return real(value, field)
    if isinstance(kind, LargeBinary):
        if isinstance(value, bytes | bytearray | memoryview):
            return bytes(value)
    elif isinstance(value, str):
        return str(value)
    raise ValueRefusedError(f"{field} cannot hold {value!r}")


def whole(value: object, field: str, bits: int = 64) -> int:
    """`value` as an `int` that fits into `bits` bits, sign included; any integer type is taken."""
    if not isinstance(value, SupportsIndex):
        raise ValueRefusedError(f"{field} is a whole number, not {value!r}")
    number = operator.index(value)
    if not -(2 ** (bits - 1)) <= number < 2 ** (bits - 1):
        raise ValueRefusedError(f"{field} is below 2^{bits - 1}, which {number} is not")
    return number


def real(value: object, field: str) -> float:
    """`value` as a finite `float`; any real type is taken."""
    if not isinstance(value, SupportsFloat | SupportsIndex):
        raise ValueRefusedError(f"{field} is a number, not {value!r}")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise ValueRefusedError(f"{field} is a finite number, not {number}")
    return number


def encode_samples(samples: Iterable[float], field: str) -> bytes:
    """Samples as little-endian float64, 8 bytes each."""
    numbers = [real(sample, field) for sample in samples]
    return struct.pack(f"<{len(numbers)}d", *numbers)


def decode_samples(blob: bytes, count: int, field: str) -> tuple[float, ...]:
    """Inverse of `encode_samples`.

    Raises:
        RecordDamagedError: the blob does not hold `count` samples.
    """
    if len(blob) != _SAMPLE_BYTES * count:
        raise RecordDamagedError(f"{field} holds {len(blob)} bytes where {count} samples take {_SAMPLE_BYTES * count}")
    return struct.unpack(f"<{count}d", blob)


def encode_json(value: object, field: str) -> str:
    """`value` as canonical JSON: keys sorted, no blanks, no NaN or infinity (which PostgreSQL refuses in JSON)."""
    try:
        return json.dumps(
            value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False, default=_scalar
        )
    except (TypeError, ValueError) as error:
        raise ValueRefusedError(f"{field} cannot be stored: {error}") from error


def encode_time(value: datetime, field: str) -> str:
    """An aware time as ISO 8601 in UTC with microseconds, so that text order is time order."""
    if value.tzinfo is None:
        raise ValueRefusedError(f"{field} needs a time zone: {value.isoformat()}")
    return value.astimezone(UTC).isoformat(timespec="microseconds")


def decode_time(text: str) -> datetime:
    """Inverse of `encode_time`; raises ValueError."""
    return datetime.fromisoformat(text).astimezone(UTC)


@contextmanager
def readable(field: str) -> Iterator[None]:
    """Turns whatever a malformed row raises on its way to a record into `RecordDamagedError`, naming `field`."""
    try:
        yield
    except (ValueError, KeyError, TypeError, AttributeError, UsageError) as error:
        raise RecordDamagedError(
            f"{field} cannot be read: {type(error).__name__}: {error}", "it was written by another program or damaged"
        ) from error


def _scalar(value: object) -> object:
    # NumPy scalars tell their built-in value; whatever else JSON does not know is a mistake.
    item = getattr(value, "item", None)
    if item is None:
        raise TypeError(f"{type(value).__name__} is not a JSON value")
    return item()
