"""Durations, sizes and rates as people write and read them; inside, all are seconds and bytes."""

import re
from datetime import UTC, datetime

from pega_tune.errors import UsageError

_NUMBER = re.compile(r"(\d+(?:\.\d*)?|\.\d+)\s*([A-Za-z]*)", re.ASCII)
_SECONDS = {"": 1.0, "ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}
_BYTES = {
    "": 1, "b": 1,
    "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40,
    "kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40,
    "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12,
}  # fmt: skip
_MAX_DURATION_S = 7 * 86_400.0
_MAX_SIZE_BYTES = 2**62
_LEAST_AMBIGUOUS_PERIOD_S = 1.0  # engines transfer many times a second; who writes 50, or 5, may mean milliseconds


def parse_duration(text: str) -> float:
    """Seconds from `5m`, `90s`, `50ms`, `1h`; a bare number is in seconds.

    Raises:
        UsageError: it is no duration, is not positive, or is longer than a week.
    """
    seconds = _scaled(text, _SECONDS, "a duration", "write it like 90s, 5m or 50ms")
    if not 0 < seconds <= _MAX_DURATION_S:
        raise UsageError(f"a duration is more than nothing and at most a week, not {text!r}")
    return seconds


def parse_period(text: str) -> float:
    """Seconds from burst to burst, as `parse_duration`; a bare number is less than 1.

    Raises:
        UsageError: as `parse_duration`, or a number without a unit is 1 or more.
    """
    period_s = parse_duration(text)
    bare = text.strip()
    if not bare[-1:].isalpha() and period_s >= _LEAST_AMBIGUOUS_PERIOD_S:
        raise UsageError(f"a period of {bare} needs a unit", f"write {bare}ms or {bare}s")
    return period_s


def parse_size(text: str) -> int:
    """Bytes from `64MiB`, `2G` (powers of 1024), `2GB` (powers of 1000); a bare number is in bytes.

    Raises:
        UsageError: it is no size, is less than a byte, or is more than 2^62.
    """
    size = _scaled(text, _BYTES, "a size", "write it like 64MiB or 2G")
    if not 1 <= size <= _MAX_SIZE_BYTES:  # thousands of digits are infinity, which is no int
        raise UsageError(f"a size is between 1 and 2^62 bytes, not {text!r}")
    return int(size)


def _scaled(text: str, units: dict[str, float] | dict[str, int], what: str, hint: str) -> float:
    match = _NUMBER.fullmatch(text.strip())
    factor = units.get(match[2].lower()) if match else None
    if match is None or factor is None:
        raise UsageError(f"{text!r} is not {what}", hint)
    return float(match[1]) * factor


def format_duration(seconds: float) -> str:
    """Three significant digits in the unit that suits: `8.21 us`, `1.35 ms`, `48.0 s`, `5 min 3 s`."""
    if seconds >= 60:
        minutes, rest = divmod(round(seconds), 60)
        return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= scale:
            return f"{_three_digits(seconds / scale)} {unit}"
    return f"{_three_digits(seconds / 1e-9)} ns"


def format_age(seconds: float) -> str:
    """In whole units, the largest that fits: `12 s`, `5 min`, `3 h`, `40 days`."""
    for unit, scale in (("days", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * scale:
            return f"{int(seconds // scale)} {unit}"
    return f"{max(int(seconds), 0)} s"


def format_size(size_bytes: int) -> str:
    """The largest power of 1024 that fits: `64 MiB`, `4 KiB`, `1.5 GiB`, `100 B`."""
    for unit, scale in (("TiB", 2**40), ("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if size_bytes >= scale:
            value = size_bytes / scale
            return f"{value:.0f} {unit}" if value == int(value) else f"{value:.1f} {unit}"
    return f"{size_bytes} B"


def format_rate(bytes_per_s: float) -> str:
    """In powers of 1024, as sizes are: `49.5 GiB/s`."""
    for unit, scale in (("GiB/s", 2**30), ("MiB/s", 2**20), ("KiB/s", 2**10)):
        if bytes_per_s >= scale:
            return f"{_three_digits(bytes_per_s / scale)} {unit}"
    return f"{_three_digits(bytes_per_s)} B/s"


def format_time(moment: datetime) -> str:
    """UTC to the second: `2026-11-30 13:05:00Z`."""
    return f"{moment.astimezone(UTC).replace(tzinfo=None).isoformat(sep=' ', timespec='seconds')}Z"


def _three_digits(value: float) -> str:
    decimals = 0 if value >= 100 else 1 if value >= 10 else 2
    return f"{value:.{decimals}f}"
