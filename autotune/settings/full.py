"""What an engine that could run every plan would do with a mix: what settings are measured by."""

from collections.abc import Callable, Sequence
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
from pega_tune.kernels.shape import TransferShape
from pega_tune.profiles.policy.auto import Auto
from pega_tune.profiles.policy.decision import Decision
from pega_tune.profiles.policy.stored import StoredProfile
from pega_tune.profiles.policy.terms import Colocation, Hint, Objective

_WHATEVER_IT_TAKES_S: Final = 1e9


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
    for seen in sorted(observations, key=lambda each: each.hint is not Hint.NONE):  # what a hint's say counts
        at = np.flatnonzero([d.direction is seen.direction and seen.hint in (Hint.NONE, d.hint) for d in decisions])
        if len(at):
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
