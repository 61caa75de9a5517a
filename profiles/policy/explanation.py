"""All that stands behind a decision, for people and for tools: put together only when it is asked for."""

from dataclasses import asdict, dataclass
from typing import Any

from pega_tune.kernels.plan import AnyPlan
from pega_tune.kernels.shape import TransferShape
from pega_tune.profiles.policy.answer import Chosen
from pega_tune.profiles.policy.choose import evidence_of
from pega_tune.profiles.policy.decision import Decision
from pega_tune.profiles.policy.explain import not_measured
from pega_tune.profiles.policy.passed_over import passed_over
from pega_tune.profiles.policy.table import Bounds, Predicted
from pega_tune.profiles.policy.terms import Evidence, Hint, Tier


@dataclass(frozen=True, slots=True)
class Considered:
    """An option of the cell.

    Attributes:
        plan: what to do.
        predicted: what it is expected to cost at the centre of the cell.
        evidence: what its cost to decode rests on.
        chosen: it is the plan of the decision.
        reason: why it was chosen or passed over, as the predicate of a sentence about it.
    """

    plan: AnyPlan
    predicted: Predicted
    evidence: Evidence
    chosen: bool
    reason: str

    def to_json(self) -> dict[str, Any]:
        """The option as a JSON object."""
        return {
            "plan": self.plan.to_json(),
            "predicted": asdict(self.predicted),
            "evidence": str(self.evidence),
            "chosen": self.chosen,
            "reason": self.reason,
        }


@dataclass(frozen=True, slots=True)
class Cell:
    """The table cell that answered.

    Attributes:
        ranges: merged ranges that share it.
        sizes: average range sizes that share it, in bytes.
    """

    ranges: Bounds
    sizes: Bounds


@dataclass(frozen=True, slots=True)
class Explanation:
    """A decision about one shape, and what it rests on.

    Attributes:
        decision: the answer.
        shape: what was asked about.
        considered: the options of the cell; none for the rule.
        cell: the cell; None for the rule.
        blocks: keys of the measured blocks that the cell rests on; none if the profile does not tell.
        warnings: what may be wrong with the answer, a sentence each; those of the decision, with the shape in them.
    """

    decision: Decision
    shape: TransferShape
    considered: tuple[Considered, ...]
    cell: Cell | None
    blocks: tuple[str, ...]
    warnings: tuple[str, ...]

    @property
    def hint(self) -> Hint:
        """What the table that answered supposes of the ranges."""
        return self.decision.hint

    @property
    def tier(self) -> Tier:
        """How closely the profile fits the device."""
        return self.decision.tier

    @property
    def profile(self) -> str | None:
        """Id of the profile; None for the rule."""
        return self.decision.profile

    @property
    def age_s(self) -> float | None:
        """Seconds since the profile was made, now; None for the rule."""
        return self.decision.age_s

    def to_json(self) -> dict[str, Any]:
        """The decision as a JSON object, and beside its keys those of what it rests on."""
        return {
            **self.decision.to_json(),
            "considered": [each.to_json() for each in self.considered],
            "cell": None if self.cell is None else asdict(self.cell),
            "blocks": list(self.blocks),
            "warnings": list(self.warnings),
        }


def explain(decision: Decision, shape: TransferShape) -> Explanation:
    """What stands behind a decision about a shape."""
    basis = decision.basis
    if not isinstance(basis, Chosen):
        return Explanation(decision, shape, (), None, (), decision.warnings)
    table, cell = basis.table, basis.cell
    warnings = decision.warnings
    if not basis.covered:  # the last one says so, of any shape
        warnings = (*warnings[:-1], not_measured(table, shape))
    return Explanation(
        decision=decision,
        shape=shape,
        considered=_considered(basis),
        cell=Cell(*table.bounds(*table.corner(cell))),
        blocks=(table.sources[table.evidence[cell]],) if table.sources else (),
        warnings=warnings,
    )


def _considered(basis: Chosen) -> tuple[Considered, ...]:
    chosen = basis.choice.option
    return tuple(
        Considered(
            plan=option.plan,
            predicted=option.predicted,
            evidence=evidence_of(option),
            chosen=option is chosen,
            reason=basis.choice.reason if option is chosen else passed_over(option, basis),
        )
        for option in basis.table.cells[basis.cell]
    )
