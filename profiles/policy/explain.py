"""Says in words why a plan was chosen."""

from pega_tune.kernels.plan import AnyPlan
from pega_tune.kernels.shape import TransferShape
from pega_tune.profiles.policy.choose import Choice
from pega_tune.profiles.policy.table import Option, Table


def why_chosen(shape: TransferShape, table: Table, options: tuple[Option, ...], choice: Choice) -> str:
    """One sentence on the plan, and one on the cell and what else was in it."""
    ranges, sizes = table.bounds(shape.merged_ranges, shape.average_range_bytes)
    others = "; ".join(_costs(option) for option in options if option is not choice.option)
    return (
        f"{_costs(choice.option)} {choice.reason}. "
        f"Table {table.direction}, {table.colocation}, {table.runtime}; cell of {ranges} ranges of {sizes} bytes; "
        f"{'instead of ' + others if others else 'no other plan is worth choosing there'}."
    )


def why_ruled(plan: AnyPlan, reason: str) -> str:
    """One sentence on the plan of the rule."""
    return f"{plan.key} {reason}."


def _costs(option: Option) -> str:
    predicted = option.predicted
    stall = "" if predicted.stall_s is None else f", stall {predicted.stall_s * 1e3:.3g} ms"
    return f"{option.plan.key} ({predicted.latency_s * 1e3:.3g} ms{stall})"
