"""Times that cannot be: a profile from the future, by a clock that was wrong, would be the newest for years."""

from datetime import datetime, timedelta

CLOCK_SKEW = timedelta(days=1)
"""How far the clocks of two hosts may be apart."""


def is_ahead(created_at: datetime, now: datetime) -> bool:
    """Whether a profile is dated further in the future than clocks are apart; both times are aware."""
    return created_at > now + CLOCK_SKEW


def newness(created_at: datetime, now: datetime) -> tuple[bool, datetime]:
    """What profiles are compared by, the largest first: one from the future is never newer than a sound one."""
    return not is_ahead(created_at, now), created_at
