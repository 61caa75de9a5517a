from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pega_tune.autotune.cli.units import (
    format_age,
    format_duration,
    format_rate,
    format_size,
    format_time,
    parse_duration,
    parse_period,
    parse_size,
)
from pega_tune.errors import UsageError


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("5m", 300.0), ("90s", 90.0), ("50ms", 0.05), ("1h", 3600.0), ("2.5", 2.5), (" 10 us ", 1e-5), (".5s", 0.5)],
)
def test_durations_are_read(text: str, seconds: float) -> None:
    assert parse_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "m", "5 parsecs", "-5s", "0s", "0", "nan", "inf", "1e3s", "8000h", "5m3s", "٣s"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="a duration"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("text", "seconds"), [("50ms", 0.05), ("50s", 50.0), ("0.05", 0.05), ("0.999", 0.999), ("2 m", 120.0)]
)
def test_periods_are_read(text: str, seconds: float) -> None:
    assert parse_period(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["50", " 50 ", "10.5", "5", "1", "1."])
def test_a_long_period_without_a_unit_is_refused_with_both_meanings(text: str) -> None:
    number = text.strip()
    with pytest.raises(UsageError, match="needs a unit") as refused:
        parse_period(text)
    assert refused.value.hint == f"write {number}ms or {number}s"


@pytest.mark.parametrize("text", ["often", "0", "-5"])
def test_what_is_no_duration_is_no_period(text: str) -> None:
    with pytest.raises(UsageError, match="a duration"):
        parse_period(text)


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [
        ("64MiB", 64 << 20),
        ("2G", 2 << 30),
        ("2GB", 2 * 10**9),
        ("1K", 1024),
        ("1k", 1024),
        ("1.5 KiB", 1536),
        ("4096", 4096),
        ("7b", 7),
    ],
)
def test_sizes_are_read(text: str, size_bytes: int) -> None:
    assert parse_size(text) == size_bytes


@pytest.mark.parametrize("text", ["", "MiB", "-1", "0", "0.5", "1PiB", "nan", "4 apples", "9999999999G", "9" * 5000])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="a size"):
        parse_size(text)


@given(st.floats(1e-9, 59))
def test_a_short_duration_keeps_three_digits(seconds: float) -> None:
    assert parse_duration(format_duration(seconds)) == pytest.approx(seconds, rel=0.006)


@given(st.integers(1, 2**50))
def test_a_size_keeps_its_magnitude(size_bytes: int) -> None:
    assert parse_size(format_size(size_bytes)) == pytest.approx(size_bytes, rel=0.05)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(8.21e-6, "8.21 us"), (0.00135, "1.35 ms"), (48.0, "48.0 s"), (303.0, "5 min 3 s"), (7260.0, "2 h 1 min")],
)
def test_durations_are_written_in_the_unit_that_suits(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


def test_ages_are_whole_units() -> None:
    ages = (-1, 0.7, 119, 120, 7199, 7200, 172_799, 172_800, 40 * 86_400)
    texts = "0 s,0 s,119 s,2 min,119 min,2 h,47 h,2 days,40 days"
    assert ",".join(map(format_age, ages)) == texts


def test_sizes_are_powers_of_1024_and_rates_of_1000() -> None:
    assert [format_size(n) for n in (100, 4096, 64 << 20, 3 << 29)] == ["100 B", "4 KiB", "64 MiB", "1.5 GiB"]
    rates = (53.1 * 2**30, 2.5 * 2**20, 7 * 2**10, 10.0)
    assert [format_rate(rate) for rate in rates] == ["53.1 GiB/s", "2.50 MiB/s", "7.00 KiB/s", "10.0 B/s"]


def test_times_are_written_in_utc() -> None:
    eastern = datetime(2026, 11, 30, 8, 5, tzinfo=timezone(timedelta(hours=-5)))
    assert format_time(eastern) == format_time(eastern.astimezone(UTC)) == "2026-11-30 13:05:00Z"


def test_a_year_has_four_digits() -> None:
    assert format_time(datetime(1, 1, 1, tzinfo=UTC)) == "0001-01-01 00:00:00Z"
