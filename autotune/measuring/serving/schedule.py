"""The order of a serving block: a pure function of what was recorded, so that a parent can mirror its child's."""

from collections.abc import Callable, Iterator
from enum import StrEnum
from random import Random

from pega_tune.autotune.engine import Status
from pega_tune.autotune.measuring.serving.bursts import observe
from pega_tune.autotune.measuring.serving.checks import checked
from pega_tune.autotune.measuring.serving.tails import MIN_BURSTS, p99_refusal
from pega_tune.autotune.serving import BASELINE, Segment, ServingBlock


class ServingVerdict(StrEnum):
    """Where a serving block stands after a round.

    `ENOUGH`: a p99 may be claimed of the baseline and of every candidate left. `OUT_OF_TIME` and `OUT_OF_ROUNDS` end a
    block without. `NO_BASELINE`: the baseline could not run, so there is nothing to compare with. `NOTHING_LEFT`: no
    candidate could.
    """

    GO_ON = "go-on"
    ENOUGH = "enough"
    OUT_OF_TIME = "out-of-time"
    OUT_OF_ROUNDS = "out-of-rounds"
    NO_BASELINE = "no-baseline"
    NOTHING_LEFT = "nothing-left"


class ServingSchedule:
    """Runs a segment of every candidate and of the baseline, round after round, each in a new random order.

    A candidate whose status is not `OK` leaves at once; if it is the baseline, the block ends. None is dropped for
    being slow: tails decide, and they need all samples.
    """

    def __init__(self, block: ServingBlock) -> None:
        self._block = block
        everyone = (BASELINE, *range(len(block.candidates)))
        self._active = {index: index not in block.excluded for index in everyone}
        self._steps = dict.fromkeys(everyone, 0)
        self._bursts = dict.fromkeys(everyone, 0)
        self._rounds = 0
        self._spent_s = 0.0
        self._verdict = self._standing()
        self._pending = self._shuffled() if self._verdict is ServingVerdict.GO_ON else []

    @property
    def rounds(self) -> int:
        """Rounds done."""
        return self._rounds

    @property
    def verdict(self) -> ServingVerdict:
        """Why the block ended; `GO_ON` while it runs."""
        return self._verdict

    def next(self) -> int | None:
        """Whose segment is due, the same until it has been recorded: the index of a candidate, or `BASELINE`.

        None when the block has ended.
        """
        return self._pending[0] if self._pending else None

    def record(self, segment: Segment) -> None:
        """Takes the segment that is due.

        Raises:
            ValueError: the segment is another one's.
        """
        due = self.next()
        if due is None or segment.candidate != due:
            raise ValueError(f"the segment due is of {due}, not of {segment.candidate}")
        self._pending.pop(0)
        if segment.status is Status.OK:
            self._spent_s += float(segment.step_ends[-1] - segment.step_ends[0])
            self._count(segment)
        else:
            self._active[due] = False
        broken = self._standing()
        if broken is not ServingVerdict.GO_ON:
            self._verdict, self._pending = broken, []
        elif not self._pending:
            self._end_round()

    def _count(self, segment: Segment) -> None:
        if segment.candidate == BASELINE:
            self._steps[BASELINE] += len(segment.steps_s)
            return
        seen = observe(segment)
        self._steps[segment.candidate] += len(seen.steps_s)
        self._bursts[segment.candidate] += seen.bursts

    def _end_round(self) -> None:
        self._rounds += 1
        limits = self._block.limits
        if self._rounds >= limits.min_rounds and self._enough():
            self._verdict = ServingVerdict.ENOUGH
        elif self._rounds >= max(limits.min_rounds, limits.max_rounds):
            self._verdict = ServingVerdict.OUT_OF_ROUNDS
        elif self._rounds >= limits.min_rounds and self._spent_s >= limits.budget_s:
            self._verdict = ServingVerdict.OUT_OF_TIME
        else:
            self._pending = self._shuffled()

    def _enough(self) -> bool:
        return not any(
            p99_refusal(self._steps[index], None if index == BASELINE else self._bursts[index])
            for index, active in self._active.items()
            if active
        )

    def _standing(self) -> ServingVerdict:
        """Whether anything can be measured at all."""
        if not self._active[BASELINE]:
            return ServingVerdict.NO_BASELINE
        left = any(active for index, active in self._active.items() if index != BASELINE)
        return ServingVerdict.GO_ON if left else ServingVerdict.NOTHING_LEFT

    def _shuffled(self) -> list[int]:
        # All are shuffled, so that the order of the others does not depend on who has left.
        order = list(self._active)
        Random(f"{self._block.seed}/{self._rounds}").shuffle(order)
        return [index for index in order if self._active[index]]


def run_serving_block(block: ServingBlock, execute: Callable[[int], Segment]) -> Iterator[Segment]:
    """Runs a serving block by its schedule.

    Args:
        block: what to measure.
        execute: runs one segment, of the candidate with that index or of `BASELINE`; what it raises ends the block.

    Yields:
        Each segment as it ends. One whose times cannot be is `INVALID`: it must not win.
    """
    schedule = ServingSchedule(block)
    while (candidate := schedule.next()) is not None:
        segment = checked(execute(candidate))
        schedule.record(segment)
        yield segment


def rounds_for_tails(bursts: int) -> int:
    """Rounds after which segments of so many bursts have the 100 that a p99 needs."""
    return -(-MIN_BURSTS // bursts)
