"""When a block has seen enough: a rule fed with numbers, which never sees a device."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import median

from pega_tune.autotune.engine import SamplingLimits
from pega_tune.autotune.measuring.statistics import Interval, median_interval, separated


class Verdict(StrEnum):
    """Where a block stands after a round.

    `SEPARATED`: the best interval is narrow and touches no other. `EQUIVALENT`: it is narrow, and so are all that
    touch it. `OUT_OF_TIME` and `OUT_OF_ROUNDS` end a block undecided.
    """

    GO_ON = "go-on"
    SEPARATED = "separated"
    EQUIVALENT = "equivalent"
    OUT_OF_TIME = "out-of-time"
    OUT_OF_ROUNDS = "out-of-rounds"


@dataclass(frozen=True, slots=True)
class StoppingRule:
    """Decides from samples alone, in seconds, so that whoever holds the same samples decides alike."""

    limits: SamplingLimits

    def verdict(self, rounds: int, spent_s: float, contenders: Sequence[Sequence[float]]) -> Verdict:
        """Whether to go on.

        Args:
            rounds: timed rounds done.
            spent_s: sum of the transfer times recorded in them.
            contenders: samples of each candidate that may still win.
        """
        if rounds >= self.limits.max_rounds:
            return self._decided(contenders) or Verdict.OUT_OF_ROUNDS
        if rounds < self.limits.min_rounds:
            return Verdict.GO_ON
        return self._decided(contenders) or (Verdict.OUT_OF_TIME if spent_s >= self.limits.budget_s else Verdict.GO_ON)

    def hopeless(self, rounds: int, samples: Sequence[float], contenders: Sequence[Sequence[float]]) -> bool:
        """Whether a candidate's fastest sample is still too slow to win.

        Args:
            rounds: timed rounds done.
            samples: the candidate's.
            contenders: samples of each candidate that may still win; without any, nothing is hopeless.
        """
        medians = [median(other) for other in contenders if other]
        if rounds < self.limits.drop_after or not samples or not medians:
            return False
        return min(samples) > self.limits.drop_ratio * min(medians)

    def _decided(self, contenders: Sequence[Sequence[float]]) -> Verdict | None:
        intervals = [median_interval(samples) for samples in contenders]
        known = sorted((i for i in intervals if i is not None), key=lambda interval: interval.estimate)
        if not known or len(known) < len(intervals) or not self._narrow(known[0]):
            return None
        best, *others = known
        rivals = [other for other in others if not separated(best, other)]
        if not rivals:
            return Verdict.SEPARATED
        return Verdict.EQUIVALENT if all(map(self._narrow, rivals)) else None

    def _narrow(self, interval: Interval) -> bool:
        return interval.relative_width <= self.limits.settled_width
