"""What decode suffers from a burst, as a sum of terms with fitted coefficients, and what it suffers at most.

Processes that take turns on the device lose what the others' kernels last, and a switch for each of them. Where kernels
run side by side, it is the SM-seconds that decode goes without. In both cases its own few bytes wait on a copy engine
for what was enqueued before them. A figure is never claimed as it is fitted, but as the worst of the n plans was missed
when the fit did without it: one more like them exceeds that in about one case of n + 1 (after Barber and others,
Predictive inference with the jackknife+, Annals of Statistics 49(1), 2021).
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
from scipy.optimize import nnls

from pega_tune.autotune.compiling.burdens import Burdens
from pega_tune.autotune.compiling.curves import NoFit
from pega_tune.autotune.compiling.latency import kind_of
from pega_tune.autotune.compiling.laws import Array, Law
from pega_tune.kernels.plan import AnyPlan
from pega_tune.profiles.policy.terms import Colocation

MAX_MISS: Final = 3.0
"""Most by which a plan may exceed what a fit without it says."""

SPARE: Final = 4
"""Plans that a fit needs beyond the number of its coefficients."""

GRAIN_S: Final = 1e-6
"""What counts as next to nothing: relative errors below it mean little."""

Columns: TypeAlias = Callable[[Burdens], tuple[Array, ...]]


@dataclass(frozen=True, slots=True)
class Burden:
    """A law of burdens.

    Attributes:
        law: its names.
        columns: the terms of C shapes, (C,) each.
    """

    law: Law
    columns: Columns

    def terms(self, burdens: Burdens) -> Array:
        """The terms side by side: (C, F)."""
        return np.stack(self.columns(burdens), axis=1)


TURNS_STALL: Final = Burden(
    Law(
        "base_s + switch_s * copies + per_span * span_s / launches + per_backlog * backlog_s",
        ("base_s", "switch_s", "per_span", "per_backlog"),
    ),
    lambda b: (np.ones_like(b.copies), b.copies, b.span_s / np.maximum(b.launches, 1), b.backlog_s),
)
TURNS_EXTRA: Final = Burden(
    Law(
        "base_s + switch_s * copies * launches + per_span * copies * span_s + gather_s * gathers"
        " + per_backlog * backlog_s",
        ("base_s", "switch_s", "per_span", "gather_s", "per_backlog"),
    ),
    lambda b: (np.ones_like(b.copies), b.copies * b.launches, b.copies * b.span_s, b.gathers, b.backlog_s),
)
SIDE_STALL: Final = Burden(
    Law(
        "base_s + kernel_s * copies + per_sm * sm_s + per_backlog * backlog_s",
        ("base_s", "kernel_s", "per_sm", "per_backlog"),
    ),
    lambda b: (np.ones_like(b.copies), b.copies, b.sm_s, b.backlog_s),
)
SIDE_EXTRA: Final = Burden(
    Law("base_s + per_sm * sm_s + per_backlog * backlog_s", ("base_s", "per_sm", "per_backlog")),
    lambda b: (np.ones_like(b.copies), b.sm_s, b.backlog_s),
)


def laws_of(colocation: Colocation) -> tuple[Burden, Burden]:
    """What stall and extra time depend on where decode runs."""
    return (TURNS_STALL, TURNS_EXTRA) if colocation is Colocation.TIME_SLICED else (SIDE_STALL, SIDE_EXTRA)


@dataclass(frozen=True, slots=True, eq=False)
class Bound:
    """A fit and its bound.

    Attributes:
        burden: the law.
        coefficients: (F,), not negative.
        miss: cost over fitted cost, at most, of the plans and of those left out; at least 1.
        residual: root mean square of the logarithm of measured over fitted cost.
        highest: the largest terms it was fitted to, (F,): beyond any of them nothing is claimed.
        plans: how many it was fitted to.
    """

    burden: Burden
    coefficients: Array
    miss: float
    residual: float
    highest: Array
    plans: int

    def at(self, burdens: Burdens) -> Array:
        """What it costs at most, in seconds, (C,); NaN beyond what was measured."""
        terms = self.burden.terms(burdens)
        inside = np.all(terms <= self.highest * (1 + 1e-9), axis=1)
        bounds: Array = np.where(inside, terms @ self.coefficients * self.miss, np.nan)
        return bounds


@dataclass(frozen=True, slots=True, eq=False)
class Point:
    """A plan that was measured beside decode.

    Attributes:
        plan: which; it may be measured in several layouts.
        burdens: of it, at one shape.
        cost_s: what it cost, in seconds, not negative.
        bursts: in how many bursts that was seen.
        processes: in how many processes.
    """

    plan: AnyPlan
    burdens: Burdens
    cost_s: float
    bursts: int
    processes: int = 1


def bound(burden: Burden, points: Sequence[Point]) -> Bound | NoFit:
    """Fits a law to what was measured.

    What is missed counts where it was measured, and where a plan is left out that is not the only one of its kind:
    without that one, the fit would know nothing of its kind.
    """
    wanted = len(burden.law.parameters) + SPARE
    if len(points) < wanted:
        return NoFit(f"it needs at least {wanted} plans beside decode and has {len(points)}")
    terms = np.concatenate([burden.terms(point.burdens) for point in points])
    costs = np.maximum([point.cost_s for point in points], GRAIN_S)
    if not (np.all(np.isfinite(terms)) and np.all(np.isfinite(costs))):
        return NoFit("some costs are no numbers")
    coefficients = _solve(terms, costs)
    missed = costs / np.maximum(terms @ coefficients, GRAIN_S)
    miss = max(1.0, float(missed.max()), *_left_out(terms, costs, [point.plan for point in points]))
    if miss > MAX_MISS:
        return NoFit(f"a plan exceeds what the others make of it {miss:.1f} times")
    residual = float(np.sqrt(np.mean(np.log(missed) ** 2)))
    return Bound(burden, coefficients, miss, residual, terms.max(axis=0), len(costs))


def _left_out(terms: Array, costs: Array, plans: Sequence[AnyPlan]) -> Iterator[float]:
    """Of each plan that is not the only one of its kind, cost over what a fit without it says, at most."""
    kinds = Counter(kind_of(plan) for plan in dict.fromkeys(plans))
    for plan in dict.fromkeys(plans):
        if kinds[kind_of(plan)] > 1:
            left = np.array([other == plan for other in plans])
            expected = terms[left] @ _solve(terms[~left], costs[~left])
            yield float((costs[left] / np.maximum(expected, GRAIN_S)).max())


def _solve(terms: Array, costs: Array) -> Array:
    """Coefficients of least relative error, none negative."""
    relative = terms / costs[:, None]
    scale = relative.max(axis=0)
    scale[scale == 0] = 1.0
    try:
        found, _ = nnls(relative / scale, np.ones(len(costs)))
    except RuntimeError:  # SciPy's way to say that it ran out of iterations; whoever is left out then tells
        found = np.zeros(terms.shape[1])
    solved: Array = found / scale
    return solved
