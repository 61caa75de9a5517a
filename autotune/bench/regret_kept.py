"""What became of claims: how many were kept, and who was faster among those that kept the budget. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from statistics import fmean

from pega_tune.autotune.bench.regret_beside import BurstResult, ClaimRow
from pega_tune.autotune.bench.regret_plan import AUTO
from pega_tune.autotune.bench.regret_statistics import Halves, Spread, cross_regret, noise_floor
from pega_tune.autotune.static_rules import STATIC_RULES
from pega_tune.profiles.policy.terms import Evidence


@dataclass(frozen=True, slots=True)
class RuleClaims:
    """A rule over the bursts in which it kept the budget.

    Attributes:
        rule: `auto`, or a static rule.
        measured: bursts in which it ran beside decode; one that is hopelessly slow alone does not.
        kept: of them, those in which it kept the budget and the period.
        spread: of its regret in completion latency, against the fastest that kept the budget; None if it never did.
        slower: mean of t(rule) / t(auto) - 1 over the claims where both kept it; None if there are none.
    """

    rule: str
    measured: int
    kept: int
    spread: Spread | None
    slower: float | None


@dataclass(frozen=True, slots=True)
class ClaimsSummary:
    """What became of the claims.

    Attributes:
        claimed: bursts of which `Auto` claimed that it keeps the budget.
        broken: those of them in which it did not.
        unclaimed: bursts of which it did not claim so.
        missed: those of them in which something that was measured kept it.
        missed_with_evidence: those of these of which it had evidence beside decode.
        missed_kept: those of them in which what `Auto` took kept it, though it did not claim so.
        outside: bursts in which something that was measured kept it, and what `Auto` took did not.
        floor: of the noise, over bursts in which anything kept the budget; None without any.
        rows: `auto`, then the static rules, the best first.
    """

    claimed: int
    broken: int
    unclaimed: int
    missed: int
    missed_with_evidence: int
    missed_kept: int
    outside: int
    floor: Spread | None
    rows: tuple[RuleClaims, ...]


def summarise_claims(bursts: Sequence[BurstResult]) -> ClaimsSummary:
    """Judges all claims, and everyone's speed within the budget."""
    claimed = [burst for burst in bursts if burst.claimed]
    rest = [burst for burst in bursts if not burst.claimed]
    missed = [burst for burst in rest if burst.possible]
    floors = [noise_floor(kept) for burst in bursts if (kept := _kept(burst))]
    names = (AUTO, *(rule.name for rule in STATIC_RULES))
    rows = sorted((_rule(name, bursts) for name in names), key=_rank)
    return ClaimsSummary(
        claimed=len(claimed),
        broken=sum(not burst.kept for burst in claimed),
        unclaimed=len(rest),
        missed=len(missed),
        missed_with_evidence=sum(burst.burst.decision.evidence is not Evidence.NONE for burst in missed),
        missed_kept=sum(burst.kept for burst in missed),
        outside=sum(burst.possible and not burst.kept for burst in bursts),
        floor=Spread.of(floors),
        rows=tuple(rows),
    )


def regret_within_budget(burst: BurstResult, row: ClaimRow) -> float | None:
    """Regret in completion latency against the fastest that kept the budget; None for who did not keep it."""
    return cross_regret(row.halves, _kept(burst)) if row.kept and row.halves is not None else None


def _kept(burst: BurstResult) -> tuple[Halves, ...]:
    return tuple(row.halves for row in burst.rows if row.kept and row.halves is not None)


def _rule(name: str, bursts: Sequence[BurstResult]) -> RuleClaims:
    ran = [(burst, row) for burst in bursts if (row := burst.row(name)) is not None and row.completion_s is not None]
    regrets = [regret for burst, row in ran if (regret := regret_within_budget(burst, row)) is not None]
    slower = [ratio - 1 for burst, row in ran if burst.claimed and (ratio := _against_auto(burst, row)) is not None]
    kept = sum(row.kept for _, row in ran)
    return RuleClaims(name, len(ran), kept, Spread.of(regrets), fmean(slower) if slower else None)


def _against_auto(burst: BurstResult, row: ClaimRow) -> float | None:
    auto = burst.row(AUTO)
    if auto is None or not (auto.kept and row.kept) or not (auto.completion_s and row.completion_s):
        return None
    return row.completion_s / auto.completion_s


def _rank(row: RuleClaims) -> tuple[bool, float]:
    return row.rule != AUTO, inf if row.spread is None else row.spread.mean
