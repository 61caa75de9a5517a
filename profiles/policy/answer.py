"""From a question and a table, or the rule, to the decisions of their cells. Pure."""

from dataclasses import dataclass, replace

from pega_tune.kernels.shape import TransferShape
from pega_tune.profiles.policy.choose import Choice, Demand, choose
from pega_tune.profiles.policy.decision import Decision, Expected, Origin, Place
from pega_tune.profiles.policy.explain import not_measured, why_chosen, why_nearest, why_ruled
from pega_tune.profiles.policy.grid import Frame
from pega_tune.profiles.policy.question import Question
from pega_tune.profiles.policy.rule import DIRECT_BELOW_RANGES, DIRECT_FROM_RANGE_BYTES, rule
from pega_tune.profiles.policy.table import Table
from pega_tune.profiles.policy.terms import Colocation, Evidence, Hint

RULE_FRAME = Frame((1, DIRECT_BELOW_RANGES), (1, DIRECT_FROM_RANGE_BYTES))
"""The rule is the same for every shape between its constants."""


def frame_of(table: Table) -> Frame:
    """The cells of a table."""
    return Frame(table.range_edges, table.size_edges, table.measured_ranges, table.measured_sizes, table.measured_bytes)


@dataclass(frozen=True, slots=True)
class Chosen:
    """A choice in a table cell.

    Attributes:
        table: whose cell.
        cell: its index.
        demand: what was asked of the plan.
        choice: what was chosen there.
        covered: the shape lies inside what was measured.
    """

    table: Table
    cell: int
    demand: Demand
    choice: Choice
    covered: bool

    def why(self) -> str:
        """One sentence on the plan and one on the cell."""
        if self.covered:
            return why_chosen(self.table, self.cell, self.choice)
        return why_nearest(self.table, self.cell, self.choice.option.plan)


@dataclass(frozen=True, slots=True)
class Ruled:
    """A plan of the rule.

    Attributes:
        plan: the plan's name.
        reason: why, as the predicate of a sentence about the plan.
    """

    plan: str
    reason: str

    def why(self) -> str:
        """One sentence on the plan."""
        return why_ruled(self.plan, self.reason)


@dataclass(frozen=True, slots=True)
class TableAnswers:
    """A table's answers to a question.

    Attributes:
        question: what is asked.
        table: what answers.
        frame: its cells.
        origin: the profile that it is of.
        warnings: what may be wrong with every answer, a sentence each.
        lent: it was measured without decode and answers beside it: nothing is known of what that costs decode.
    """

    question: Question
    table: Table
    frame: Frame
    origin: Origin
    warnings: tuple[str, ...]
    lent: bool = False

    def decision(self, cell: int, covered: bool) -> Decision:
        """The best plan of a cell; for shapes outside what was measured, the same with nothing predicted."""
        table, question = self.table, self.question
        demand = question.demand
        if demand.step_s is None and table.step_s is not None:
            demand = replace(demand, step_s=table.step_s)
        choice = choose(table.cells[cell], demand, table.margin)
        known = covered and not self.lent
        return Decision(
            plan=choice.option.plan,
            predicted=_expected(choice) if covered else Expected(),
            predicted_for=Place(*table.centre(*table.corner(cell))) if covered else None,
            budget_met=known and choice.budget_met,
            direction=question.direction,
            objective=demand.objective,
            runtime=question.runtime,
            colocation=table.colocation,
            hint=table.hint,
            origin=self.origin,
            evidence=choice.evidence if known else Evidence.NONE,
            basis=Chosen(table, cell, demand, choice, covered),
            warnings=self.warnings if covered else (*self.warnings, not_measured(table)),
        )


def _expected(choice: Choice) -> Expected:
    predicted = choice.option.predicted
    return Expected(predicted.time_s, predicted.stall_s, predicted.completion_p99_s)


@dataclass(frozen=True, slots=True)
class RuleAnswers:
    """The rule's answers to a question.

    Attributes:
        question: what is asked.
        warnings: what may be wrong with every answer, a sentence each.
    """

    question: Question
    warnings: tuple[str, ...]

    @property
    def frame(self) -> Frame:
        """Its cells."""
        return RULE_FRAME

    def decision(self, cell: int, covered: bool) -> Decision:  # noqa: ARG002  (the rule covers every shape)
        """The plan of the rule, of which nothing is known."""
        question = self.question
        row, column = divmod(cell, len(RULE_FRAME.size_edges))
        ranges, size = RULE_FRAME.range_edges[row], RULE_FRAME.size_edges[column]
        shape = TransferShape(ranges, ranges * size, question.direction)
        plan, reason = rule(shape, question.demand.objective, question.runtime)
        return Decision(
            plan=plan,
            predicted=Expected(),
            predicted_for=None,
            budget_met=False,
            direction=question.direction,
            objective=question.demand.objective,
            runtime=question.runtime,
            colocation=question.colocation or Colocation.IDLE,
            hint=Hint.NONE,
            origin=Origin(),
            evidence=Evidence.NONE,
            basis=Ruled(plan.key, reason),
            warnings=self.warnings,
        )
