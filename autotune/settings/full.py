"""What an engine that could run every plan would do with a mix: what settings are measured by."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np
from numpy.typing import NDArray

from pega_tune.autotune.compiling.laws import Array
from pega_tune.autotune.settings.cells import Foreseen
from pega_tune.autotune.settings.mix import Mix
from pega_tune.autotune.settings.tables import TabledTimes
from pega_tune.autotune.sweep.observations import Observations
from pega_tune.kernels.plan import AnyPlan
from pega_tune.kernels.shape import Direction, TransferShape
from pega_tune.profiles.policy.auto import Auto
from pega_tune.profiles.policy.decision import Decision
from pega_tune.profiles.policy.question import STRONGEST_FIRST, known_of
from pega_tune.profiles.policy.stored import StoredProfile
from pega_tune.profiles.policy.table import CompiledPolicy
from pega_tune.profiles.policy.terms import Colocation, Hint, Objective, Runtime

_WHATEVER_IT_TAKES_S: Final = 1e9

# The stronger ones last: what they say of a plan counts.
_HINTS: Final = (Hint.NONE, *(hint for _, hint in reversed(STRONGEST_FIRST)))


@dataclass(frozen=True, slots=True, eq=False)
class Full:
    """What `throughput` answers for C shapes.

    Attributes:
        plans: (C,).
        times_s: what they take, (C,), in seconds.
        margin: relative difference of times that is noise.
    """

    plans: tuple[AnyPlan, ...]
    times_s: Array
    margin: float


def full(profile: StoredProfile, observations: Sequence[Observations], mix: Mix) -> Full:
    """What `Auto` answers, with the times at the very shapes where cells of the sweep are at hand.

    Where it predicts no time, as the shape lies outside what was measured, that of the nearest cell stands for it.
    """
    decisions = decided(profile, mix, Colocation.IDLE)
    plans = tuple(decision.plan for decision in decisions)
    times_s = np.full(len(plans), np.nan)
    tables = TabledTimes(profile.policy, mix)
    for direction in mix.directions:
        at = np.flatnonzero([shape.direction is direction for shape in mix.shapes])
        _take(times_s, plans, at, partial(tables.times_s, direction=direction))
    for c, decision in enumerate(decisions):
        times_s[c] = decision.predicted.time_s or times_s[c]
    for hint in _HINTS:
        for seen in observations:
            at = _answered(profile.policy, mix, seen.direction, hint)
            if seen.hint is hint and len(at):
                _take(times_s, plans, at, Foreseen(seen, [mix.shapes[c] for c in at]).times_s)
    margins = [table.margin for table in profile.policy.tables if table.direction in mix.directions]
    return Full(plans, times_s, max(margins, default=0.0))


def decided(profile: StoredProfile, mix: Mix, colocation: Colocation) -> tuple[Decision, ...]:
    """The answer of `throughput` for each shape, (C,)."""
    auto = Auto.from_profile(profile)

    def answer(shape: TransferShape) -> Decision:
        return auto.decide(
            shape.merged_ranges,
            shape.total_bytes,
            shape.direction,
            objective=Objective.THROUGHPUT,
            period_s=_WHATEVER_IT_TAKES_S,
            colocation=colocation,
            host_runs=shape.host_runs,
            pitch=shape.pitch,
        )

    return tuple(map(answer, mix.shapes))


def _take(times_s: Array, plans: Sequence[AnyPlan], at: NDArray[np.intp], known: Callable[[AnyPlan], Array]) -> None:
    """Puts the times in that are known of each shape's own plan; `known` is for the shapes at `at`."""
    for plan in dict.fromkeys(plans[c] for c in at):
        found = known(plan)
        for place, c in enumerate(at):
            if plans[c] == plan and np.isfinite(found[place]):
                times_s[c] = found[place]


def _answered(policy: CompiledPolicy, mix: Mix, direction: Direction, hint: Hint) -> NDArray[np.intp]:
    """Indices of the shapes of a direction for which the table of a hint may answer."""
    table = policy.find(direction, Colocation.IDLE, Runtime.FULL, hint)

    def answers(shape: TransferShape) -> bool:
        known = shape.direction is direction and hint in set(_hints_of(shape))
        covered = table is not None and table.covers(shape.merged_ranges, shape.average_range_bytes)
        return known and (hint is Hint.NONE or covered)

    return np.flatnonzero([answers(shape) for shape in mix.shapes])


def _hints_of(shape: TransferShape) -> Iterator[Hint]:
    yield Hint.NONE
    known = known_of(shape.merged_ranges, shape.average_range_bytes, shape.host_runs, None, shape.pitch)
    yield from (hint for bit, hint in STRONGEST_FIRST if known & bit)
