"""Says in words why a plan was chosen."""

from pega_tune.kernels.plan import AnyPlan
from pega_tune.kernels.shape import TransferShape
from pega_tune.profiles.policy.choose import Choice
from pega_tune.profiles.policy.table import Option, Table
from pega_tune.profiles.policy.terms import Hint


def why_chosen(table: Table, cell: int, choice: Choice) -> str:
    """One sentence on the plan, and one on the cell and what else was in it."""
    others = "; ".join(_costs(option) for option in table.cells[cell] if option is not choice.option)
    return (
        f"{_costs(choice.option)} {choice.reason}. {_cell(table, cell)}; "
        f"{'instead of ' + others if others else 'no other plan is worth choosing there'}."
    )


def why_nearest(table: Table, cell: int, plan: AnyPlan) -> str:
    """The same for a shape outside what was measured; it names no time, as none is known."""
    return f"{plan.key} is chosen in the nearest cell; what it takes here was not measured. {_cell(table, cell)}."


def why_ruled(plan: str, reason: str) -> str:
    """One sentence on the plan of the rule."""
    return f"{plan} {reason}."


def not_measured(table: Table, shape: TransferShape | None = None) -> str:
    """The warning about a shape outside what was measured: what was asked, if it is told, and what was measured."""
    ranges, sizes, totals = (
        f"{low} to {high}" for low, high in (table.measured_ranges, table.measured_sizes, table.measured_bytes)
    )
    asked = "the shape lies"
    if shape is not None:
        counts = f"{counted(shape.merged_ranges, 'range')} of {counted(shape.average_range_bytes, 'byte')}"
        asked = f"{counts} ({shape.total_bytes} in all) {'lies' if shape.merged_ranges == 1 else 'lie'}"
    return (
        f"{asked} outside what was measured, {ranges} ranges of {sizes} bytes ({totals} in all): the plan of "
        "the nearest cell answers, and no time is known"
    )


def counted(number: int | str, noun: str) -> str:
    """A number, or words for several, with its noun: `1 range`, `16 ranges`, `1 to 4 ranges`."""
    return f"{number} {noun}" if str(number) == "1" else f"{number} {noun}s"


def format_duration(seconds: float) -> str:
    """Three significant digits in seconds, ms, us or ns, whichever suits: `8.21 us`, `1.35 ms`, `48.0 s`."""
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= scale:
            return f"{_three_digits(seconds / scale)} {unit}"
    return f"{_three_digits(seconds / 1e-9)} ns"


def _three_digits(value: float) -> str:
    decimals = 0 if value >= 100 else 1 if value >= 10 else 2
    return f"{value:.{decimals}f}"


def _cell(table: Table, cell: int) -> str:
    ranges, sizes = table.bounds(*table.corner(cell))
    hint = "" if table.hint is Hint.NONE else f", {table.hint}"
    words = f"{table.direction}, {table.colocation}, {table.runtime}{hint}"
    return f"Table {words}; cell of {counted(str(ranges), 'range')} of {counted(str(sizes), 'byte')}"


def _costs(option: Option) -> str:
    predicted = option.predicted
    completion_s, stall_s = predicted.completion_p99_s, predicted.stall_s
    time = f"median {format_duration(predicted.time_s)}"
    completion = "" if completion_s is None else f", p99 {format_duration(completion_s)}"
    stall = "" if stall_s is None else f", stall {format_duration(stall_s)}"
    return f"{option.plan.key} ({time}{completion}{stall})"
