"""The answer to a look-up."""

from dataclasses import asdict, dataclass
from typing import Any

from pega_tune.kernels.plan import AnyPlan
from pega_tune.kernels.shape import Direction
from pega_tune.profiles.policy.terms import Colocation, Evidence, Objective, Runtime, Tier


@dataclass(frozen=True, slots=True)
class Expected:
    """What the plan is expected to cost; None where nothing was measured.

    Attributes:
        time_s: transfer time, preparation included, in seconds.
        stall_s: what one burst costs decode at its worst step, in seconds.
        completion_p99_s: 99th percentile of the transfer time beside decode, in seconds.
    """

    time_s: float | None = None
    stall_s: float | None = None
    completion_p99_s: float | None = None


@dataclass(frozen=True, slots=True)
class Place:
    """The shape that a prediction is made for: the centre of the table cell that answers.

    Attributes:
        merged_ranges: ranges per direction.
        average_range_bytes: average size of a range, in bytes.
    """

    merged_ranges: int
    average_range_bytes: int


@dataclass(frozen=True, slots=True)
class Decision:
    """How to run a transfer, and how far to trust it.

    Attributes:
        plan: what to do; a pair if both directions were asked for.
        predicted: what it is expected to cost.
        predicted_for: where; None if nothing is predicted.
        budget_met: whether the plan is known to keep the objective's promise within the period. The rule knows nothing,
            and nothing is known outside what was measured.
        direction, objective, runtime: as asked.
        colocation: whose table answered; for the rule, what was asked (`idle` if nothing was).
        tier: how closely the profile fits the device.
        profile: id of the profile; None for the rule.
        evidence: what the claim about decode rests on.
        simulated: the profile is of a simulated device.
        age_s: seconds since the profile was made; None for the rule.
        why: one or two sentences.
        warnings: what may be wrong with the answer, a sentence each.
    """

    plan: AnyPlan
    predicted: Expected
    predicted_for: Place | None
    budget_met: bool
    direction: Direction
    objective: Objective
    runtime: Runtime
    colocation: Colocation
    tier: Tier
    profile: str | None
    evidence: Evidence
    simulated: bool
    age_s: float | None
    why: str
    warnings: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The decision as a JSON object with the keys of its attributes."""
        return {
            "plan": self.plan.to_json(),
            "predicted": asdict(self.predicted),
            "predicted_for": None if self.predicted_for is None else asdict(self.predicted_for),
            "budget_met": self.budget_met,
            "direction": str(self.direction),
            "objective": str(self.objective),
            "runtime": str(self.runtime),
            "colocation": str(self.colocation),
            "tier": str(self.tier),
            "profile": self.profile,
            "evidence": str(self.evidence),
            "simulated": self.simulated,
            "age_s": self.age_s,
            "why": self.why,
            "warnings": list(self.warnings),
        }
