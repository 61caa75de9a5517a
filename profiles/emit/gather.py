"""From profiles to a listing of them."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import product

from pega_tune.kernels.facts import DeviceFacts
from pega_tune.kernels.plan import AnyPlan, PlanPair
from pega_tune.kernels.shape import Direction, TransferShape
from pega_tune.profiles.emit.errors import EmitError
from pega_tune.profiles.emit.listing import Ints, ListedProfile, Listing
from pega_tune.profiles.emit.pool import Pool
from pega_tune.profiles.emit.vectors import VectorMaker
from pega_tune.profiles.policy.answer import RULE_FRAME
from pega_tune.profiles.policy.chain import TableKey, answering
from pega_tune.profiles.policy.rule import DIRECT_BELOW_RANGES, rule
from pega_tune.profiles.policy.stored import StoredProfile
from pega_tune.profiles.policy.table import Table
from pega_tune.profiles.policy.terms import Colocation, Hint, Objective, ProfileState, Runtime

_LARGEST_FACT = 2**31 - 1
_RULE_COVERS = (1, 0) * 3  # from 1 to 0 there is nothing


def list_profiles(profiles: Sequence[StoredProfile], runtime: Runtime | None = None) -> Listing:
    """The profiles as arrays.

    Args:
        profiles: at least one.
        runtime: whose tables to take; None takes all.

    Raises:
        EmitError: there is no profile, two differ under one id, or a number of theirs is too large.
    """
    kept = _newest_first(profiles)
    pool = Pool()
    plans = [_rule_plan(runtime) for runtime in Runtime]
    ruled = tuple(map(pool.add_rule, (_rule_plan(None), *plans)))
    tables: list[Ints] = [_rule_table(pool)]
    noise = [(0.0, 0.0)]
    routes: list[Ints] = []
    for profile in kept:
        _check_facts(profile.device)
        places: dict[TableKey, int] = {}
        for table in _tables(profile, runtime):
            places[table.direction, table.colocation, table.runtime, table.hint] = len(tables)
            tables.append(pool.add_table(table))
            noise.append((float(table.margin), float(table.step_s or 0.0)))
        routes += _routes(places, runtime)
    vectors = VectorMaker(pool).vectors(kept, runtime)
    return Listing(
        profiles=tuple(map(_listed, kept)),
        plans=tuple(pool.plans),
        options=pool.option_rows(),
        costs=tuple(costs for *_, costs in pool.options),
        entries=tuple(pool.entries),
        cells=tuple(pool.cells),
        edges=tuple(pool.edges),
        centres=tuple(pool.centres),
        buckets=tuple(pool.buckets),
        tables=tuple(tables),
        noise=tuple(noise),
        routes=tuple(routes),
        rule=ruled,
        vectors=vectors,
    )


def _newest_first(profiles: Iterable[StoredProfile]) -> tuple[StoredProfile, ...]:
    kept: dict[str, StoredProfile] = {}
    for profile in profiles:
        if kept.setdefault(profile.profile_id, profile) != profile:
            raise EmitError("two profiles that differ have the same id")
    if not kept:
        raise EmitError("there is no profile to write", "name one")
    return tuple(sorted(kept.values(), key=lambda profile: profile.created_at, reverse=True))


def _listed(profile: StoredProfile) -> ListedProfile:
    published = profile.state is ProfileState.PUBLISHED
    return ListedProfile(profile.profile_id, profile.created_at.isoformat(), published, profile.device)


def _check_facts(device: DeviceFacts) -> None:
    identity = device.identity
    link = identity.max_link
    counts = (
        *identity.compute_capability,
        identity.sm_count,
        identity.memory_gib,
        identity.copy_engines,
        identity.numa_distance or 0,
        *((link.generation, link.width) if link else ()),
    )
    if not all(0 <= count <= _LARGEST_FACT for count in counts):
        raise EmitError("the facts of the device have a number out of its range")


def _tables(profile: StoredProfile, runtime: Runtime | None) -> Iterator[Table]:
    return (table for table in profile.policy.tables if runtime in (None, table.runtime))


def _routes(places: dict[TableKey, int], only: Runtime | None) -> Iterator[Ints]:
    """The rows of one profile, as `Listing.routes` has them; whose tables answer is said in `policy.chain`."""
    for direction, wanted, runtime in product(Direction, (*Colocation, None), Runtime):
        if only not in (None, runtime):
            yield (-1,) * len(Hint)
            continue
        found = answering(places, direction, wanted, runtime)
        if found is None:
            yield tuple(0 if hint is Hint.NONE else -1 for hint in Hint)
        else:
            yield tuple(found.by_hint.get(hint, -1) for hint in Hint)


def _rule_plan(runtime: Runtime | None) -> AnyPlan:
    """The plan for many small ranges, or without a runtime that for few."""
    ranges = 1 if runtime is None else DIRECT_BELOW_RANGES
    shape = TransferShape(ranges, ranges, Direction.H2D)
    plan, _ = rule(shape, Objective.THROUGHPUT, runtime or Runtime.FULL)
    assert not isinstance(plan, PlanPair)
    return plan


def _rule_table(pool: Pool) -> Ints:
    rows, columns = (pool.add_axis(edges) for edges in (RULE_FRAME.range_edges, RULE_FRAME.size_edges))
    return 0, 0, *rows, *columns, 0, *_RULE_COVERS
