"""Decode beside paced bursts, made up: segments whose stalls and tails are known."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from pega_tune.autotune.engine import Candidate, CandidateKind
from pega_tune.autotune.pacing import PacedClock
from pega_tune.autotune.serving import BASELINE, Segment, ServingBlock, ServingLimits
from pega_tune.kernels.plan import Variant, direct, kernel
from pega_tune.kernels.shape import Direction, TransferShape
from pega_tune.profiles.policy.terms import Colocation

THREE_TO_FIVE = ServingLimits(budget_s=1e9, min_rounds=3, max_rounds=5)
SHAPE = TransferShape(16, 65_536, Direction.H2D)


def constant(value: float) -> Callable[[np.random.Generator], float]:
    return lambda _: value


@dataclass(frozen=True, slots=True)
class MadeUpDecode:
    """Steps of about `step_s`, and `extra_s` more for each that overlaps a burst, drawn once for a burst."""

    step_s: float = 4e-3
    noise: float = 0.002
    completion_s: Callable[[np.random.Generator], float] = field(default_factory=lambda: constant(2e-3))
    extra_s: Callable[[np.random.Generator], float] = field(default_factory=lambda: constant(1e-3))

    def segment(self, candidate: int, period_s: float, bursts: int, seed: int) -> Segment:
        """One segment, whose clock begins anywhere; of the baseline it has no bursts."""
        rng = np.random.default_rng((seed, candidate + 1))
        start_s = float(rng.uniform(0, 1e4))
        due, submitted, completed = self._bursts(start_s, period_s, bursts, rng)
        until = max(start_s + (bursts + 1) * period_s, completed[-1], due[-1] + period_s)
        if candidate == BASELINE:
            due = submitted = completed = np.empty(0)
        extras = np.array([self.extra_s(rng) for _ in due])
        ends = [start_s - float(rng.uniform(0, self.step_s))]
        while ends[-1] < until:
            ends.append(ends[-1] + self._step(ends[-1], submitted, completed, extras, rng))
        return Segment(
            candidate, np.array(ends), due, submitted, completed, SHAPE.moved_bytes if len(due) else 0, period_s
        )

    def _bursts(
        self, start_s: float, period_s: float, bursts: int, rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        clock, now_s = PacedClock(start_s, period_s), start_s
        times = np.empty((3, bursts))
        for number in range(bursts):
            now_s = max(now_s, clock.due_s)
            due_s, submitted_s = clock.submit(now_s), now_s
            now_s += self.completion_s(rng)
            clock.complete(now_s)
            times[:, number] = due_s, submitted_s, now_s
        due, submitted, completed = times
        return due, submitted, completed

    def _step(
        self,
        begin_s: float,
        submitted: np.ndarray,
        completed: np.ndarray,
        extras: np.ndarray,
        rng: np.random.Generator,
    ) -> float:
        alone_s = self.step_s * (1 + self.noise * float(rng.standard_normal()))
        beside = (begin_s < completed) & (submitted < begin_s + alone_s)
        return alone_s + float(extras[beside].sum())


def serving_block(
    names: tuple[str, ...] = ("a", "b"),
    limits: ServingLimits = THREE_TO_FIVE,
    seed: int = 3,
    excluded: frozenset[int] = frozenset(),
) -> ServingBlock:
    """A block of so many candidates."""
    plans = (direct(), kernel(Variant.WARP, 2, 1024))
    candidates = tuple(Candidate(name, CandidateKind.PLAN, plans[n % 2]) for n, name in enumerate(names))
    return ServingBlock("serving", SHAPE, candidates, Colocation.TIME_SLICED, limits, seed, excluded=excluded)
