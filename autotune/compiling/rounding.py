"""Digits that a table keeps: a few more than were measured, since each one costs every profile its size."""

from decimal import ROUND_CEILING, Context
from typing import Final

_TIME: Final = Context(prec=4)
_COST: Final = Context(prec=3, rounding=ROUND_CEILING)


def rounded(time_s: float) -> float:
    """A time to 4 significant digits."""
    return float(_TIME.create_decimal_from_float(float(time_s)))


def rounded_up(cost_s: float) -> float:
    """A cost to 3 significant digits, never less than it is."""
    return float(_COST.create_decimal_from_float(float(cost_s)))
