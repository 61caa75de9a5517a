"""From what was seen beside decode to what a look-up chooses from."""

from pega_tune.autotune.measuring.serving.summary import ServingSummary
from pega_tune.kernels.plan import AnyPlan
from pega_tune.profiles.policy.table import Option, Predicted


def option_of(plan: AnyPlan, summary: ServingSummary, time_s: float | None = None) -> Option:
    """A plan with what it costs.

    The stall is that of which 95 of 100 bursts stay below, so that a budget is kept but for one burst in twenty; an
    average below zero, which is noise, counts as nothing.

    Args:
        plan: what was measured.
        summary: beside decode.
        time_s: transfer time without decode, in seconds; None takes the median completion beside it.
    """
    predicted = Predicted(
        time_s=summary.completion.p50_s if time_s is None else time_s,
        stall_s=max(0.0, summary.stall.p95_s),
        extra_s=max(0.0, summary.extra_s),
        completion_p99_s=summary.completion.p99_s.value,
    )
    return Option(plan, predicted)
