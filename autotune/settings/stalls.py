"""What a setting costs decode, as far as the tables of a profile tell."""

from dataclasses import dataclass
from typing import Final

import numpy as np

from pega_tune.autotune.settings.full import decided
from pega_tune.autotune.settings.setting import Setting
from pega_tune.autotune.settings.times import Times
from pega_tune.autotune.sweep.plans import launched
from pega_tune.kernels.plan import AnyPlan, CopyPlan, PlanPair
from pega_tune.kernels.shape import Direction, TransferShape
from pega_tune.profiles.policy.chain import DEFAULT_COLOCATION
from pega_tune.profiles.policy.stored import StoredProfile
from pega_tune.profiles.policy.table import CompiledPolicy
from pega_tune.profiles.policy.terms import Colocation, Runtime

_BESIDE: Final = (DEFAULT_COLOCATION, Colocation.SAME_CONTEXT, Colocation.MPS)
"""Where decode may run, what a look-up takes first."""


@dataclass(frozen=True, slots=True)
class Stall:
    """What one burst costs decode at its worst step, on average over the transfers of which it is known.

    Attributes:
        colocation: where decode ran.
        stall_s: with the setting, in seconds.
        full_s: with what `Auto` answers an engine that can run every plan, for the same transfers.
        share: fraction of the transfers of which both are known.
    """

    colocation: Colocation
    stall_s: float
    full_s: float
    share: float


def stall_of(setting: Setting, profile: StoredProfile, times: Times) -> Stall | None:
    """The stall in the first colocation in which any is known; None without evidence."""
    mix = times.mix
    plans = [_plan(shape, *pair) for shape, pair in zip(mix.shapes, setting.pairs(times), strict=True)]
    for colocation in _BESIDE:
        if not any(table.colocation is colocation for table in profile.policy.tables):
            continue
        decisions = decided(profile, mix, colocation)
        full_s = np.array([_number(d.predicted.stall_s if d.colocation is colocation else None) for d in decisions])
        own_s = np.array(
            [_number(_stall_s(profile.policy, colocation, *pair)) for pair in zip(mix.shapes, plans, strict=True)]
        )
        known = np.isfinite(full_s) & np.isfinite(own_s)
        if known.any():
            counts = mix.counts[known]
            own, reference = (float(counts @ each[known] / counts.sum()) for each in (own_s, full_s))
            return Stall(colocation, own, reference, float(counts.sum() / mix.counts.sum()))
    return None


def _plan(shape: TransferShape, load: CopyPlan, save: CopyPlan) -> AnyPlan:
    match shape.direction:
        case Direction.H2D:
            return load
        case Direction.D2H:
            return save
    return PlanPair(load, save)


def _stall_s(policy: CompiledPolicy, colocation: Colocation, shape: TransferShape, plan: AnyPlan) -> float | None:
    wanted = launched(plan, shape)
    for runtime in Runtime:
        table = policy.find(shape.direction, colocation, runtime)
        options = table.look_up(shape.merged_ranges, shape.average_range_bytes) if table else ()
        for option in options:
            if launched(option.plan, shape) == wanted and option.predicted.stall_s is not None:
                return option.predicted.stall_s
    return None


def _number(value: float | None) -> float:
    return np.nan if value is None else value
