"""The order of a block: a pure function of what has been recorded, so that a parent process can mirror its child's."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from math import isfinite
from random import Random

from pega_tune.autotune.engine import CandidateKind, Measurement, Phase, Status, TransferBlock
from pega_tune.autotune.measuring.stopping import StoppingRule, Verdict


@dataclass(frozen=True, slots=True)
class Step:
    """What to run next.

    Attributes:
        candidate: index into `TransferBlock.candidates`.
        phase: verification or a timed round.
    """

    candidate: int
    phase: Phase


class BlockSchedule:
    """Verifies every candidate in order, then times those left, round after round, each round in a new random order.

    A candidate whose status is not `OK` leaves at once. One that can no longer win leaves between rounds: a plan
    after `drop_after` rounds, a static rule one round later, the ceiling never. What they have been timed for
    stays theirs, even if it is too little for an interval: more samples of a hopeless candidate would cost more
    than all the others together and change no decision.
    """

    def __init__(self, block: TransferBlock) -> None:
        self._block = block
        self._rule = StoppingRule(block.limits)
        self._active = {index: index not in block.excluded for index in range(len(block.candidates))}
        self._samples: dict[int, list[float]] = {candidate: [] for candidate in self._active}
        self._pending = [Step(candidate, Phase.VERIFY) for candidate, active in self._active.items() if active]
        self._rounds = -1  # what ends first is the verification
        self._spent_s = 0.0
        self._verdict = Verdict.GO_ON

    @property
    def rounds(self) -> int:
        """Timed rounds done."""
        return max(0, self._rounds)

    @property
    def verdict(self) -> Verdict:
        """Why the block ended; `GO_ON` while it runs."""
        return self._verdict

    def next(self) -> Step | None:
        """The step that is due, the same until it has been recorded; None when the block has ended."""
        while not self._pending:
            if self._verdict is not Verdict.GO_ON or not any(self._active.values()):
                return None
            self._end_round()
        return self._pending[0]

    def record(self, measurement: Measurement) -> None:
        """Takes the outcome of the step that is due.

        Raises:
            ValueError: the measurement is of another step.
        """
        step = self.next()
        if step is None or (measurement.candidate, measurement.phase) != (step.candidate, step.phase):
            raise ValueError(f"the step due is {step}, not candidate {measurement.candidate} {measurement.phase}")
        self._pending.pop(0)
        if measurement.status is not Status.OK:
            self._active[step.candidate] = False
        elif step.phase is Phase.TIMED:
            self._samples[step.candidate].append(measurement.transfer_s)
            self._spent_s += measurement.transfer_s

    def withdraw(self) -> None:
        """Takes the candidate whose step is due out of the block; what it was timed for stays its."""
        step = self.next()
        if step is not None:
            self._pending.pop(0)
            self._active[step.candidate] = False

    def _end_round(self) -> None:
        self._rounds += 1
        contenders = [self._samples[candidate] for candidate in self._active_of(CandidateKind.PLAN)]
        # Without a plan there is no winner to find: the others are timed until they are known well enough.
        judged = contenders or [self._samples[index] for index, active in self._active.items() if active]
        self._verdict = self._rule.verdict(self._rounds, self._spent_s, judged)
        if self._verdict is Verdict.GO_ON:
            self._drop_hopeless(contenders)
            self._pending = [Step(candidate, Phase.TIMED) for candidate in self._shuffled()]

    def _drop_hopeless(self, contenders: list[list[float]]) -> None:
        for kind, rounds in ((CandidateKind.PLAN, self._rounds), (CandidateKind.STATIC, self._rounds - 1)):
            for candidate in self._active_of(kind):
                if self._rule.hopeless(rounds, self._samples[candidate], contenders):
                    self._active[candidate] = False

    def _active_of(self, kind: CandidateKind) -> list[int]:
        candidates = self._block.candidates
        return [index for index, active in self._active.items() if active and candidates[index].kind is kind]

    def _shuffled(self) -> list[int]:
        # All candidates are shuffled, so that the order of the others does not depend on who has left.
        order = list(self._active)
        Random(f"{self._block.seed}/{self._rounds}").shuffle(order)
        return [candidate for candidate in order if self._active[candidate]]


def run_block(block: TransferBlock, execute: Callable[[Step], Measurement]) -> Iterator[Measurement]:
    """Runs a block by its schedule.

    Args:
        block: what to measure.
        execute: runs one step and says how it went; what it raises ends the block.

    Yields:
        Each measurement as it is taken. A timed one without a finite, positive transfer time is `INVALID`: a
        clock too coarse or a device that reports nonsense must not win.
    """
    schedule = BlockSchedule(block)
    while (step := schedule.next()) is not None:
        measurement = _checked(execute(step))
        schedule.record(measurement)
        yield measurement


def _checked(measurement: Measurement) -> Measurement:
    times = (measurement.transfer_s, measurement.prepare_s, measurement.submit_s, measurement.device_s or 0.0)
    timed = measurement.status is Status.OK and measurement.phase is Phase.TIMED
    if not timed or (all(isfinite(time) and time >= 0 for time in times) and measurement.transfer_s > 0):
        return measurement
    wrong = f"times are not finite and positive: {', '.join(f'{time:g}' for time in times)} s"
    return replace(measurement, status=Status.INVALID, detail=wrong)
