"""From a question and a table, or the rule, to a decision. Pure."""

from dataclasses import dataclass, replace

from pega_tune.kernels.shape import TransferShape
from pega_tune.profiles.policy.choose import Choice, Demand, choose
from pega_tune.profiles.policy.decision import Decision, Expected, Place
from pega_tune.profiles.policy.explain import not_measured, why_chosen, why_nearest, why_ruled
from pega_tune.profiles.policy.rule import rule
from pega_tune.profiles.policy.table import Table
from pega_tune.profiles.policy.terms import Colocation, Evidence, Runtime, Tier


@dataclass(frozen=True, slots=True)
class Question:
    """One look-up, in checked words.

    Attributes:
        shape: what is to be moved.
        demand: what is asked of the plan.
        colocation: where decode runs; None leaves it to the profile.
        runtime: which plans the caller can run.
    """

    shape: TransferShape
    demand: Demand
    colocation: Colocation | None
    runtime: Runtime


@dataclass(frozen=True, slots=True)
class Origin:
    """The profile behind an answer.

    Attributes:
        profile_id: its id.
        tier: how closely it fits the device.
        simulated: it is of a simulated device.
        age_s: seconds since it was made.
    """

    profile_id: str
    tier: Tier
    simulated: bool
    age_s: float


def from_table(question: Question, table: Table, origin: Origin, warnings: tuple[str, ...]) -> Decision:
    """The best plan of a shape's cell; outside what was measured, that of the nearest, with nothing predicted."""
    shape, demand = question.shape, question.demand
    if demand.step_s is None and table.step_s is not None:
        demand = replace(demand, step_s=table.step_s)
    size = shape.average_range_bytes
    options = table.look_up(shape.merged_ranges, size)
    choice = choose(options, demand, table.margin)
    covered = table.covers(shape.merged_ranges, size)
    return Decision(
        plan=choice.option.plan,
        predicted=_expected(choice) if covered else Expected(),
        predicted_for=Place(*table.centre(shape.merged_ranges, size)) if covered else None,
        budget_met=covered and choice.budget_met,
        direction=shape.direction,
        objective=demand.objective,
        runtime=question.runtime,
        colocation=table.colocation,
        tier=origin.tier,
        profile=origin.profile_id,
        evidence=choice.evidence if covered else Evidence.NONE,
        simulated=origin.simulated,
        age_s=origin.age_s,
        why=why_chosen(shape, table, options, choice) if covered else why_nearest(shape, table, choice.option.plan),
        warnings=warnings if covered else (*warnings, not_measured(shape, table)),
    )


def _expected(choice: Choice) -> Expected:
    predicted = choice.option.predicted
    return Expected(predicted.time_s, predicted.stall_s, predicted.completion_p99_s)


def from_rule(question: Question, warnings: tuple[str, ...]) -> Decision:
    """The plan of the rule, of which nothing is known."""
    plan, reason = rule(question.shape, question.demand.objective, question.runtime)
    return Decision(
        plan=plan,
        predicted=Expected(),
        predicted_for=None,
        budget_met=False,
        direction=question.shape.direction,
        objective=question.demand.objective,
        runtime=question.runtime,
        colocation=question.colocation or Colocation.IDLE,
        tier=Tier.RULE,
        profile=None,
        evidence=Evidence.NONE,
        simulated=False,
        age_s=None,
        why=why_ruled(plan, reason),
        warnings=warnings,
    )
