"""The plan space in writing, and what of it a device can run."""

from importlib.resources import files

import pytest

from pega_tune.autotune.layouts import NamedLayout
from pega_tune.autotune.search.candidates import every_candidate, every_plan
from pega_tune.autotune.search.plan_set import FILE, PlanSet, generate, plan_set
from pega_tune.autotune.search.sites import PLACES, Site, exhaustive_sites
from pega_tune.autotune.static_rules import STATIC_RULES
from pega_tune.autotune.sweep.plans import STATIC_KERNEL, candidates, launched, legs_of
from pega_tune.autotune.sweep.shapes import DIRECTIONS, UNLIMITED, Memory
from pega_tune.kernels.plan import Backend, PlanPair, Variant
from pega_tune.kernels.shape import Direction, TransferShape
from tests.helpers.sweeps import MIB, capabilities

ALL = tuple(Backend)
LARGE = TransferShape(16_384, 64 * MIB, Direction.H2D)


def test_the_committed_file_is_what_the_axes_give() -> None:
    written = (files("pega_tune.autotune") / "data" / FILE).read_text("utf-8")
    assert generate().to_json() == written
    assert PlanSet.from_json(written) == generate() == plan_set()


def test_no_plan_is_there_twice() -> None:
    whole = plan_set()
    for plans in (whole.single, whole.pairs):
        assert len(set(plans)) == len(plans)
    assert not [pair for pair in whole.pairs if pair.load == pair.save and not pair.fused]


def test_every_axis_is_crossed() -> None:
    single = plan_set().single
    assert {plan.backend for plan in single} == set(ALL)
    kernels = [plan for plan in single if plan.backend is Backend.KERNEL and not plan.is_chunked]
    crossed = {(p.variant, p.threads, p.options.max_grid_blocks) for p in kernels if p.options}
    assert {(v, t, 1 << k) for v in Variant for t in (128, 256, 512, 1024) for k in range(15)} <= crossed
    assert {plan.chunk_bytes for plan in single if plan.backend is Backend.STAGED} == {None, 2 * MIB, 4 * MIB, 16 * MIB}
    fused = [pair for pair in plan_set().pairs if pair.fused]
    assert {pair.load for pair in fused} == {plan for plan in single if plan.backend is Backend.STAGED}


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("layout", ["shuffled", "host-ordered", "strided"])
def test_what_sweeps_measure_without_hints_is_among_them(direction: Direction, layout: str) -> None:
    shape = NamedLayout.parse(layout).described(TransferShape(4096, 16 * MIB, direction))
    device = capabilities(backends=ALL, priorities=(0,))
    every = {launched(plan, shape) for plan in every_plan(shape, device)}
    for candidate in candidates(shape, device, full=True, dense=True):
        assert launched(candidate.plan, shape) in every, candidate.name


def test_rules_that_systems_ship_are_among_them_where_they_launch_once() -> None:
    every = {launched(plan, LARGE) for plan in every_plan(LARGE, capabilities(backends=ALL))}
    missing = [rule.name for rule in STATIC_RULES if launched(rule.plan(LARGE), LARGE) not in every]
    assert missing == []


def test_candidates_are_the_ceiling_the_rule_and_each_launch_once() -> None:
    chosen = every_candidate(LARGE, capabilities(backends=ALL))
    assert [c.name for c in chosen if c.kind != "plan"] == ["ceiling", STATIC_KERNEL]
    launches = [launched(c.plan, LARGE) for c in chosen[1:]]
    assert len(set(launches)) == len(launches)


def test_nothing_is_planned_that_the_device_cannot_run_or_the_shape_does_not_tell() -> None:
    legs = {leg for plan in every_plan(LARGE, capabilities(max_threads=512)) for leg in legs_of(plan)}
    assert {leg.backend for leg in legs} == {Backend.DIRECT, Backend.KERNEL}
    assert max(leg.threads or 0 for leg in legs) == 512
    blind = {plan.backend for p in every_plan(LARGE, capabilities(backends=ALL)) for plan in legs_of(p)}
    assert not blind & {Backend.STAGED, Backend.PITCHED}


def test_chunks_that_hold_everything_are_left_out() -> None:
    small = TransferShape(16, MIB, Direction.BOTH, host_runs=1)
    assert not any(leg.is_chunked for plan in every_plan(small, capabilities(backends=ALL)) for leg in legs_of(plan))


def test_both_ways_there_are_fused_and_mixed_pairs_too() -> None:
    shape = NamedLayout.parse("host-ordered").described(TransferShape(4096, 16 * MIB, Direction.BOTH))
    pairs = [plan for plan in every_plan(shape, capabilities(backends=ALL)) if isinstance(plan, PlanPair)]
    assert any(pair.fused for pair in pairs)
    assert any(pair.load.backend is not pair.save.backend for pair in pairs)


def test_places_are_measured_in_all_directions_where_memory_allows() -> None:
    sites = exhaustive_sites(UNLIMITED)
    assert len({site.key for site in sites}) == len(sites) == len(PLACES) * len(DIRECTIONS)
    few = exhaustive_sites(Memory(48 * MIB, 64 * MIB))
    assert 0 < len(few) < len(sites)
    assert all(site in sites for site in few)


def test_a_site_tells_what_its_layout_does() -> None:
    site = Site(TransferShape(1024, 4 * MIB, Direction.H2D), NamedLayout.parse("strided"))
    assert (site.described.host_runs, site.described.pitch) == (1, 8192)
    assert site.key == "idle/h2d/1024x4194304/strided"
