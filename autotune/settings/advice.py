"""Which setting to take, and what it costs."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pega_tune.autotune.kv.traffic import CountedShape
from pega_tune.autotune.settings.cells import MeasuredTimes
from pega_tune.autotune.settings.full import Full, full
from pega_tune.autotune.settings.mix import Mix
from pega_tune.autotune.settings.setting import Engine, Setting
from pega_tune.autotune.settings.stalls import Stall, stall_of
from pega_tune.autotune.settings.tables import TabledTimes
from pega_tune.autotune.settings.times import Source, Times
from pega_tune.autotune.sweep.observations import observe
from pega_tune.errors import DataError
from pega_tune.profiles.policy.stored import StoredProfile
from pega_tune.profiles.policy.table import CompiledPolicy
from pega_tune.profiles.policy.terms import Colocation, Runtime
from pega_tune.profiles.store.records import BlockRecord


@dataclass(frozen=True, slots=True)
class Cost:
    """What a setting costs for a mix.

    Attributes:
        time_s: of all its transfers, one after the other, in seconds.
        full_s: the same with what `Auto` answers an engine that can run every plan.
    """

    time_s: float
    full_s: float

    @property
    def ratio(self) -> float:
        """How many times as long the transfers take."""
        return self.time_s / self.full_s


@dataclass(frozen=True, slots=True)
class Advice:
    """A setting for a mix.

    Attributes:
        setting: the one that takes the least time; of those that differ by noise, the one that holds fewest threads.
        cost: of it.
        stall: what it costs decode; None without evidence.
        default: what the engine does unless told otherwise; None if nothing that is known stands for that.
        default_cost: of that.
        basis: what the times rest on.
        guessed: fraction of the transfers that load in one way and save in another at once, which was not measured.
        outside: fraction of the bytes in shapes outside what was measured.
        left_out: fraction of the bytes in shapes that were not looked at, as they are too many.
    """

    setting: Setting
    cost: Cost
    stall: Stall | None
    default: Setting | None
    default_cost: Cost | None
    basis: str
    guessed: float
    outside: float
    left_out: float


@dataclass(frozen=True, slots=True)
class Known:
    """What there is to choose by.

    Attributes:
        profile: the tables, and the device.
        blocks: of its sweep; none if they are not at hand.
        traffic: the transfers, at least one.
    """

    profile: StoredProfile
    blocks: Sequence[BlockRecord]
    traffic: Sequence[CountedShape]


def advise(engine: Engine, known: Known) -> Advice:
    """The setting for an engine.

    Raises:
        UsageError: nothing that the engine can be told changes anything for these transfers.
        DataError: nothing is known of the plans that stand for its settings, or of these transfers.
    """
    mix, policy = Mix.of(known.traffic), known.profile.policy
    observations = observe(known.blocks)
    source: Source = MeasuredTimes(observations, mix) if observations else TabledTimes(policy, mix)
    times, reference = Times(mix, source), full(known.profile, observations, mix)
    if not np.isfinite(reference.times_s).all():
        raise DataError(
            f"profile {known.profile.profile_id} tells no times of some of these transfers",
            "leave out directions that were not measured",
        )
    settings = tuple(engine.settings(times, known.profile.device.identity.sm_count))
    if not settings:
        raise DataError(
            f"profile {known.profile.profile_id} does not tell how long settings of {engine.name} take",
            "measure with --preset standard"
            if known.blocks
            else "the cells of its sweep would; they are not in this database: export where it was measured",
        )
    best = _best(settings, times, reference)
    default = engine.default(times)
    return Advice(
        setting=best,
        cost=_cost(best, times, reference),
        stall=stall_of(best, known.profile, times),
        default=default,
        default_cost=None if default is None else _cost(default, times, reference),
        basis=source.basis,
        guessed=best.guessed(times),
        outside=_outside(policy, mix),
        left_out=mix.left_out,
    )


def _best(settings: Sequence[Setting], times: Times, reference: Full) -> Setting:
    totals = [float(times.mix.counts @ setting.times_s(times)) for setting in settings]
    limit_s = min(totals) * (1 + reference.margin)
    within = [(setting, total) for setting, total in zip(settings, totals, strict=True) if total <= limit_s]
    return min(within, key=lambda pair: (pair[0].threads(times), pair[1]))[0]


def _cost(setting: Setting, times: Times, reference: Full) -> Cost:
    counts = times.mix.counts
    return Cost(float(counts @ setting.times_s(times)), float(counts @ reference.times_s))


def _outside(policy: CompiledPolicy, mix: Mix) -> float:
    """The fraction of the bytes of a mix that no measured shape is around."""
    moved = mix.counts * [shape.moved_bytes for shape in mix.shapes]
    tables = [policy.find(shape.direction, Colocation.IDLE, Runtime.FULL) for shape in mix.shapes]
    pairs = zip(tables, mix.shapes, strict=True)
    inside = np.array([bool(t and t.covers(s.merged_ranges, s.average_range_bytes)) for t, s in pairs])
    return float(moved[~inside].sum() / moved.sum())
