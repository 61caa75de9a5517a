"""What no device takes: tables may say it, and a bundle may not."""

from collections.abc import Iterator

from pega_tune.profiles.bundle.errors import BundleError
from pega_tune.profiles.policy.table import CompiledPolicy, Option, Table

MAX_TIME_S = 86_400.0
"""A day. The longest transfer that an H200 was measured with takes 97 s."""

MAX_MARGIN = 100.0


def require_plausible(policy: CompiledPolicy) -> None:
    """Refuses tables with a time of more than a day, or in which all plans are alike.

    Raises:
        BundleError: as said; the message names the table.
    """
    for table in policy.tables:
        where = f"table {table.direction}/{table.colocation}/{table.runtime}"
        longest_s = max((table.step_s or 0.0, *(_longest_s(option) for option in _options(table))))
        if longest_s > MAX_TIME_S:
            raise BundleError(f"{where} has a time of {longest_s:g} s, and the longest is a day")
        if table.margin > MAX_MARGIN:
            raise BundleError(f"{where} has a margin of {table.margin:g}, and the largest is {MAX_MARGIN:g}")


def _options(table: Table) -> Iterator[Option]:
    """Each once, as cells share them."""
    cells = {id(options): options for options in table.cells}
    return iter({id(option): option for options in cells.values() for option in options}.values())


def _longest_s(option: Option) -> float:
    told = option.predicted
    return max(told.time_s, told.stall_s or 0.0, told.extra_s or 0.0, told.completion_p99_s or 0.0)
