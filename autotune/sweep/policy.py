"""Compiles measured blocks into decision tables.

A plan may be chosen in a cell only if it was measured at the measured shape nearest to the cell: there its rivals were
measured in the same block, so that no plan wins by extrapolation from shapes far away. Its time in the cell follows its
curve and what that misses at the measured shapes around; see `pega_tune.autotune.compiling`.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from pega_tune.autotune.compiling.curves import Curve, Fit
from pega_tune.autotune.compiling.decode import DecodeFits, fit_decode
from pega_tune.autotune.compiling.forecast import Curves, fit_curves, forecast
from pega_tune.autotune.compiling.grid import grid_of
from pega_tune.autotune.compiling.ground import Ground
from pega_tune.autotune.compiling.idle_tables import idle_tables
from pega_tune.autotune.compiling.laws import Law, family_of, law_of
from pega_tune.autotune.compiling.serving_tables import Beside, claims, places_of
from pega_tune.autotune.sweep.observations import Observations, observe
from pega_tune.autotune.sweep.serving_policy import Survey, surveys
from pega_tune.profiles.policy.table import CompiledPolicy, Table
from pega_tune.profiles.policy.terms import Colocation
from pega_tune.profiles.store.records import BlockRecord, FitRecord


@dataclass(frozen=True, slots=True)
class Learnt:
    """What blocks have taught.

    Attributes:
        policy: the tables; none if no plan could be measured.
        fits: for each plan that was measured at shapes enough, and for each family of plans, its curve or why there is
            none.
    """

    policy: CompiledPolicy
    fits: tuple[FitRecord, ...]


def compile_policy(blocks: Iterable[BlockRecord]) -> Learnt:
    """Tables for every direction, colocation, runtime and hint of which a plan was measured, and the curves behind."""
    blocks = tuple(blocks)
    tables: list[Table] = []
    fits: list[FitRecord] = []
    decode = tuple(_decode_fits(blocks))
    for seen in observe(blocks):
        curves, grid = fit_curves(seen), grid_of(seen)
        ground = Ground(seen, grid, forecast(seen, curves, grid.shapes))
        idle = tuple(idle_tables(ground))
        tables += idle
        places = tuple(places_of(ground, blocks)) if decode else ()
        for members, fitted in decode:
            beside = Beside(ground, fitted, claims(ground, fitted, places), members)
            tables += map(beside.table, idle if beside.is_known else ())
        fits += _records(seen, curves)
    for members, fitted in decode:
        fits += fitted.records(str(members[0].shape.direction))
    return Learnt(CompiledPolicy(tuple(tables)), tuple(fits))


def _decode_fits(blocks: Sequence[BlockRecord]) -> Iterator[tuple[tuple[Survey, ...], DecodeFits]]:
    """For each colocation that was measured, its surveys and the fits through them."""
    seen = surveys(blocks)
    for colocation in Colocation:
        members = tuple(survey for survey in seen if survey.colocation is colocation)
        if members:
            yield members, fit_decode(members, blocks)


def _records(seen: Observations, curves: Curves) -> Iterator[FitRecord]:
    for plan, found in curves.plans.items():
        yield _record(plan.key, seen, law_of(plan), found)
    for name, found in curves.families.items():
        law = next(law_of(plan) for plan in seen.plans if family_of(plan) == name)
        yield _record(name, seen, law, found)


def _record(name: str, seen: Observations, law: Law, found: Fit) -> FitRecord:
    words = (name, str(seen.direction), Colocation.IDLE, law.formula)
    if not isinstance(found, Curve):
        return FitRecord(*words, reason=found.reason)
    parameters = dict(zip(law.parameters, map(float, found.coefficients), strict=True))
    for parameter, (low, high) in zip(law.parameters, found.intervals, strict=True):
        parameters |= {f"{parameter}_low": float(low), f"{parameter}_high": float(high)}
    return FitRecord(*words, parameters=parameters, residual=found.residual)
