"""The answer to a look-up."""

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

from pega_tune.kernels.plan import AnyPlan
from pega_tune.kernels.shape import Direction
from pega_tune.profiles.policy.terms import Colocation, Evidence, Hint, Objective, Runtime, Tier


@dataclass(frozen=True, slots=True)
class Expected:
    """What the plan is expected to cost; None where nothing was measured.

    Attributes:
        time_s: median transfer time, preparation included, in seconds; beside decode if it was measured there.
        stall_s: what one burst costs decode at its worst step, in seconds: 95 of 100 bursts stay below.
        completion_p99_s: 99th percentile of the transfer time beside decode, in seconds.
    """

    time_s: float | None = None
    stall_s: float | None = None
    completion_p99_s: float | None = None

    def meaning(self, evidence: Evidence) -> "Meaning":
        """What the numbers are, given what the claim about decode rests on."""
        fitted = ", fitted" if evidence is Evidence.FITTED else ""
        beside = self.completion_p99_s is not None and not fitted
        time = "median beside decode" if beside else "median without decode"
        return Meaning(
            None if self.time_s is None else time,
            None if self.stall_s is None else f"p95 of bursts{fitted}",
            None if self.completion_p99_s is None else f"p99 beside decode{fitted}",
        )


@dataclass(frozen=True, slots=True)
class Meaning:
    """Which statistic of what the numbers of an `Expected` are, a few words each; None where there is no number."""

    time_s: str | None
    stall_s: str | None
    completion_p99_s: str | None


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
class Origin:
    """The profile behind an answer; as it stands, the rule.

    Attributes:
        profile_id: its id; None for the rule.
        tier: how closely it fits the device.
        simulated: it is of a simulated device.
        created_at_s: when it was made, in seconds since the epoch; None for the rule.
        clock: seconds since the epoch, now.
    """

    profile_id: str | None = None
    tier: Tier = Tier.RULE
    simulated: bool = False
    created_at_s: float | None = None
    clock: Callable[[], float] = field(default=time.time, compare=False, repr=False)

    @property
    def age_s(self) -> float | None:
        """Seconds since it was made, not negative; None for the rule."""
        return None if self.created_at_s is None else max(0.0, self.clock() - self.created_at_s)


class Basis(Protocol):
    """What a decision rests on."""

    def why(self) -> str:
        """One or two sentences."""
        ...


@dataclass(frozen=True, slots=True)
class Decision:
    """How to run a transfer, and how far to trust it. Shared by all shapes of a table cell.

    Attributes:
        plan: what to do; a pair if both directions were asked for.
        predicted: what it is expected to cost.
        predicted_for: where; None if nothing is predicted.
        budget_met: whether the plan is known to keep the objective's promise within the period. The rule knows nothing,
            and nothing is known outside what was measured.
        direction, objective, runtime: as asked.
        colocation: whose table answered; for the rule, what was asked (`idle` if nothing was).
        hint: what the table that answered supposes of the ranges, beside their number and size.
        origin: the profile behind it.
        evidence: what the claim about decode rests on.
        basis: the table cell, or the rule, behind it.
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
    hint: Hint
    origin: Origin
    evidence: Evidence
    basis: Basis = field(repr=False)
    warnings: tuple[str, ...] = ()

    @property
    def tier(self) -> Tier:
        """How closely the profile fits the device."""
        return self.origin.tier

    @property
    def profile(self) -> str | None:
        """Id of the profile; None for the rule."""
        return self.origin.profile_id

    @property
    def simulated(self) -> bool:
        """Whether the profile is of a simulated device."""
        return self.origin.simulated

    @property
    def age_s(self) -> float | None:
        """Seconds since the profile was made, now; None for the rule."""
        return self.origin.age_s

    @property
    def why(self) -> str:
        """One or two sentences, put together when they are read."""
        return self.basis.why()

    def to_json(self) -> dict[str, Any]:
        """The decision as a JSON object."""
        return {
            "plan": self.plan.to_json(),
            "predicted": asdict(self.predicted),
            "predicted_as": asdict(self.predicted.meaning(self.evidence)),
            "predicted_for": None if self.predicted_for is None else asdict(self.predicted_for),
            "budget_met": self.budget_met,
            "direction": str(self.direction),
            "objective": str(self.objective),
            "runtime": str(self.runtime),
            "colocation": str(self.colocation),
            "hint": str(self.hint),
            "tier": str(self.tier),
            "profile": self.profile,
            "evidence": str(self.evidence),
            "simulated": self.simulated,
            "age_s": self.age_s,
            "why": self.why,
            "warnings": list(self.warnings),
        }
