"""Which plans of a table cell are worth keeping: no other is both as fast and as gentle."""

from collections.abc import Sequence
from dataclasses import dataclass

from pega_tune.autotune.sweep.plans import legs_of
from pega_tune.kernels.plan import AnyPlan
from pega_tune.profiles.policy.choose import BY_SIMPLICITY
from pega_tune.profiles.policy.table import MAX_OPTIONS


@dataclass(frozen=True, slots=True)
class Offer:
    """A plan at one shape.

    Attributes:
        plan: what may be chosen.
        time_s: its transfer time in seconds.
        threads: threads that it keeps on the SMs at this shape.
    """

    plan: AnyPlan
    time_s: float
    threads: int

    @property
    def weight(self) -> tuple[int, int]:
        """How heavy the plan is on whatever else runs: threads here, then how far it is from the simplest backend.

        Of the backends that keep no threads `direct` is the lightest: what a batched copy does on the device is the
        driver's secret.
        """
        return self.threads, max(BY_SIMPLICITY.index(leg.backend) for leg in legs_of(self.plan))

    @property
    def burden(self) -> tuple[int, int, int, int, int, str]:
        """Orders equally fast plans: fewer threads here, fewer anywhere, a simpler backend, fewer hints, the key."""
        threads, backend = self.weight
        legs = legs_of(self.plan)
        priority = sum(abs(leg.stream_priority) for leg in legs)
        hints = sum((leg.sm_partition is not None) + leg.prefer_overlap for leg in legs)
        return threads, self.plan.resident_threads, backend, priority, hints, self.plan.key


def pareto(offers: Sequence[Offer], margin: float) -> tuple[Offer, ...]:
    """At most `MAX_OPTIONS` of the offers, by ascending time and, from the second on, descending weight.

    The fastest, then the gentlest that is as fast within the noise, and so on among those lighter still. The fastest
    stays even if it is no harder on the SMs, since a look-up measures the noise from it. If there are too many, the
    gentlest of all stays and the slower ones before it go.

    Args:
        offers: at least one.
        margin: relative difference of times that is noise.
    """
    fastest, gentlest = _ends(offers, margin)
    kept = [fastest] if gentlest == fastest else [fastest, gentlest]
    while rest := [offer for offer in offers if offer.weight < kept[-1].weight]:
        kept.append(_ends(rest, margin)[1])
    return tuple(kept if len(kept) <= MAX_OPTIONS else [*kept[: MAX_OPTIONS - 1], kept[-1]])


def _ends(offers: Sequence[Offer], margin: float) -> tuple[Offer, Offer]:
    """The fastest offer, and the gentlest one that is as fast within the noise."""
    fastest = min(offers, key=lambda offer: offer.time_s)
    limit_s = fastest.time_s * (1 + margin)
    return fastest, min((o for o in offers if o.time_s <= limit_s), key=lambda offer: offer.burden)
