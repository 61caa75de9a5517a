"""How long a burst takes beside decode, at most: what the plans of a kind lose, by ratio and by difference."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np

from pega_tune.autotune.compiling.laws import Array
from pega_tune.autotune.sweep.plans import legs_of
from pega_tune.kernels.plan import AnyPlan, Backend, PlanPair

LEAST_RUNS: Final = 2
"""One run alone may have been lucky."""

Kind: TypeAlias = tuple[tuple[Backend, bool], ...]


@dataclass(frozen=True, slots=True)
class Run:
    """A plan in one process.

    Attributes:
        plan: which.
        alone_s: its transfer time without decode, in seconds.
        beside_s: 99th percentile of its completion latency beside decode, in seconds.
    """

    plan: AnyPlan
    alone_s: float
    beside_s: float


@dataclass(frozen=True, slots=True)
class Slowing:
    """What plans of one kind lose to decode.

    Attributes:
        ratio: completion latency over the transfer time without decode, at most.
        excess_s: the difference of the two, at most, in seconds: a short transfer, too, waits until it is let in.
        longest_s: the longest transfer without decode of which this is known, in seconds.
        runs: how many were measured.
    """

    ratio: float
    excess_s: float
    longest_s: float
    runs: int

    def at(self, times_s: Array) -> Array:
        """Completion latencies for transfer times without decode, (C,); NaN for longer ones than were measured."""
        latencies = np.maximum(times_s * self.ratio, times_s + self.excess_s)
        found: Array = np.where(times_s <= self.longest_s * (1 + 1e-9), latencies, np.nan)
        return found


def kind_of(plan: AnyPlan) -> Kind:
    """What plans share that decode slows alike: backends, and whether they go in chunks, which each wait in turn."""
    kinds = tuple((leg.backend, leg.is_chunked) for leg in legs_of(plan))
    return (*kinds, kinds[0]) if isinstance(plan, PlanPair) and plan.fused else tuple(dict.fromkeys(kinds))


def slowings(runs: Iterable[Run]) -> Mapping[Kind, Slowing]:
    """What each kind loses; kinds of which too few runs were measured are left out.

    Chunks wait in turn, each for as long as a transfer that is not in chunks waits once. So where a kind without chunks
    has too few runs, those of its kin in chunks count, too.
    """
    members: dict[Kind, list[Run]] = {}
    for run in runs:
        members.setdefault(kind_of(run.plan), []).append(run)
    joined = {
        kind: [*found, *_kin(kind, members)] if len(found) < LEAST_RUNS else found for kind, found in members.items()
    }
    return {kind: _slowing(found) for kind, found in joined.items() if len(found) >= LEAST_RUNS}


def _kin(kind: Kind, members: Mapping[Kind, Sequence[Run]]) -> Sequence[Run]:
    """Runs of the same backends in chunks; none of a kind that is in chunks itself."""
    chunked = tuple((backend, True) for backend, _ in kind)
    return () if chunked == kind else members.get(chunked, ())


def _slowing(runs: Sequence[Run]) -> Slowing:
    return Slowing(
        ratio=max(1.0, *(run.beside_s / run.alone_s for run in runs)),
        excess_s=max(0.0, *(run.beside_s - run.alone_s for run in runs)),
        longest_s=max(run.alone_s for run in runs),
        runs=len(runs),
    )
