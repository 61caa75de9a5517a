"""What a search asks for, given what it is told."""

from collections.abc import Callable
from dataclasses import replace
from math import log2
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pega_tune.autotune.layouts import HOST_ORDERED
from pega_tune.autotune.search.candidates import every_plan
from pega_tune.autotune.search.search import Proposal, Search, SearchLimits, Step, Verdict
from pega_tune.autotune.search.sites import Site
from pega_tune.autotune.search.space import Space
from pega_tune.autotune.sweep.plans import legs_of
from pega_tune.autotune.sweep.survivors import MeasuredPlan
from pega_tune.kernels.plan import AnyPlan, Backend
from pega_tune.kernels.shape import Direction, TransferShape
from tests.helpers.sweeps import capabilities

Time = Callable[[Site, AnyPlan], float]

ALL = capabilities(backends=tuple(Backend))
SITES = tuple(Site(TransferShape(n, n * 4096, d)) for n in (256, 1024, 4096) for d in (Direction.H2D, Direction.BOTH))
SPACES = tuple(Space(site, every_plan(site.described, ALL)) for site in SITES)
TOTAL = sum(len(space.plans) for space in SPACES)


def _measured(plan: AnyPlan, time_s: float) -> MeasuredPlan:
    """A plan that nothing but its time tells from another one."""
    return MeasuredPlan(plan, time_s, 0, 0.0, 0, 0.0)


def _steady(_block: int) -> float:
    return 1.0


def _run(search: Search, time: Time, scale: Callable[[int], float] = _steady) -> list[Proposal]:
    """Answers a search to its end, each block on a device that is so many times slower."""
    asked: list[Proposal] = []
    while (proposal := search.next()) is not None:
        factor = scale(len(asked))
        asked.append(proposal)
        plans = (*proposal.plans, *([proposal.anchor] if proposal.anchor else []))
        search.record(proposal.site, plans, [_measured(plan, time(proposal.site, plan) * factor) for plan in plans])
    return asked


def _valley(site: Site, plan: AnyPlan) -> float:
    """Kernels are fastest at some grid and thread count, which depends on the ranges; all else is slow."""
    leg, *others = dict.fromkeys(legs_of(plan))
    if others or leg.options is None or leg.threads is None or leg.is_chunked:
        return 100.0
    grid = abs(log2(leg.options.max_grid_blocks) - log2(site.shape.merged_ranges) / 2)
    return 1.0 + 0.1 * grid + 0.07 * abs(log2(leg.threads) - 8) + (0.05 if leg.variant == "block" else 0.0)


def _noise(site: Site, plan: AnyPlan) -> float:
    return Random(f"{site.key} {plan.key}").uniform(1.0, 2.0)


def _fastest(space: Space, time: Time) -> float:
    return min(time(space.site, plan) for plan in space.plans)


def test_a_coarse_pass_over_all_sites_comes_first() -> None:
    asked = _run(Search(SPACES, SearchLimits(), 0), _valley)
    first = asked[: len(SITES)]
    assert [proposal.site for proposal in first] == list(SITES)
    assert {proposal.step for proposal in first} == {Step.COARSE}
    assert Step.COARSE not in {proposal.step for proposal in asked[len(SITES) :]}
    assert all(proposal.anchor is None for proposal in first)


@pytest.mark.parametrize("time", [_valley, _noise])
@pytest.mark.parametrize("share", [0.02, 0.15, 0.5])
def test_no_more_than_the_share_is_measured_and_nothing_twice(time: Time, share: float) -> None:
    search = Search(SPACES, SearchLimits(share=share), 0)
    pairs = [(proposal.site, plan) for proposal in _run(search, time) for plan in proposal.plans]
    assert len(pairs) == len(set(pairs)) <= share * TOTAL
    assert search.left == int(share * TOTAL) - len(pairs)


def test_it_finds_the_bottom_of_a_valley_with_a_small_part_of_all_plans() -> None:
    search = Search(SPACES, SearchLimits(share=0.25), 0)
    _run(search, _valley)
    for space in SPACES:
        best = search.best(space.site)
        assert best is not None
        assert best.transfer_s == pytest.approx(_fastest(space, _valley))


def test_it_stops_when_nothing_near_a_leader_is_left() -> None:
    search = Search(SPACES, SearchLimits(share=1.0, leaders=1), 0)
    asked = _run(search, _valley)
    assert search.verdict is Verdict.SETTLED
    assert sum(len(proposal.plans) for proposal in asked) < TOTAL / 2
    tried = {(proposal.site, plan) for proposal in asked for plan in proposal.plans}
    for space in SPACES:
        best = search.best(space.site)
        assert best is not None
        assert all((space.site, near) in tried for near in space.neighbours(best.plan))


def test_it_stops_when_its_share_is_spent() -> None:
    search = Search(SPACES, SearchLimits(share=0.08), 0)
    _run(search, _noise)
    assert (search.verdict, search.left, search.next()) == (Verdict.SPENT, 0, None)


def test_a_share_too_small_for_the_coarse_pass_still_reaches_every_site() -> None:
    search = Search(SPACES, SearchLimits(share=0.03), 0)
    assert {proposal.site for proposal in _run(search, _valley)} == set(SITES)


def test_what_leads_at_a_site_is_tried_at_its_neighbours() -> None:
    search, lent = Search(SPACES, SearchLimits(share=0.6, coarse=2), 0), 0
    while (proposal := search.next()) is not None:
        site = proposal.site
        if proposal.step is Step.SHAPES:
            lent += 1
            others = (other for other in SITES if other != site and other.shape.direction is site.shape.direction)
            leading = {best.plan for other in others if (best := search.best(other))}
            assert set(proposal.plans) <= leading
        search.record(site, proposal.plans, [_measured(plan, _noise(site, plan)) for plan in proposal.plans])
    assert lent


def test_sites_of_other_layouts_lend_beside_those_of_the_same_one() -> None:
    """Of two sites that lend, one of each layout, the one of the same layout has other ranges."""
    shape = TransferShape(1024, 1024 * 4096, Direction.H2D)
    own, other = Site(shape), Site(shape, HOST_ORDERED)
    alike = Site(replace(shape, total_bytes=2 * shape.total_bytes))
    plans = {own: every_plan(own.described, ALL)[:3], alike: every_plan(own.described, ALL)[3:4]}
    staged = next(p for p in every_plan(other.described, ALL) if legs_of(p)[0].backend is Backend.STAGED)
    shared = every_plan(own.described, ALL)[4]
    for lent, expected in ((shared, {plans[alike][0], shared}), (staged, {plans[alike][0]})):
        whole = {**plans, own: (*plans[own], *plans[alike], shared), other: (lent,)}
        search = Search([Space(site, those) for site, those in whole.items()], SearchLimits(1.0, 0, sites=1), 0)
        search.record(own, plans[own], [_measured(plans[own][0], 1.0)])
        for lender in (alike, other):
            search.record(lender, whole[lender], [_measured(plan, 1.0) for plan in whole[lender]])
        steps = [proposal for proposal in _run(search, _noise) if proposal.step is Step.SHAPES]
        assert {plan for proposal in steps if proposal.site == own for plan in proposal.plans} == expected


def test_nothing_is_lent_between_directions() -> None:
    sites = [Site(TransferShape(1024, 1024 * 4096, direction)) for direction in Direction]
    limits = SearchLimits(share=1.0, coarse=1)
    asked = _run(Search([Space(site, every_plan(site.described, ALL)) for site in sites], limits, 0), _noise)
    assert Step.PLANS in {proposal.step for proposal in asked}
    assert Step.SHAPES not in {proposal.step for proposal in asked}


def test_each_later_block_has_the_fastest_plan_as_its_anchor() -> None:
    search = Search(SPACES, SearchLimits(share=0.3), 0)
    while (proposal := search.next()) is not None:
        best = search.best(proposal.site)
        assert proposal.anchor == (best.plan if best else None)
        measured = [_measured(plan, _noise(proposal.site, plan)) for plan in proposal.plans]
        search.record(proposal.site, proposal.plans, measured)


def test_times_of_slower_blocks_are_put_into_proportion() -> None:
    plain, shaken = (Search(SPACES, SearchLimits(share=0.3), 0) for _ in range(2))
    asked = _run(plain, _valley)
    again = _run(shaken, _valley, lambda block: 1.0 + 0.5 * (block % 3) if block >= len(SITES) else 1.0)
    assert [replace(p, plans=tuple(sorted(p.plans, key=str))) for p in again] == [
        replace(p, plans=tuple(sorted(p.plans, key=str))) for p in asked
    ]
    for site in SITES:
        one, other = plain.best(site), shaken.best(site)
        assert one is not None
        assert other is not None
        assert other.transfer_s == pytest.approx(one.transfer_s)


def test_plans_that_fail_are_not_asked_for_again() -> None:
    search = Search(SPACES[:1], SearchLimits(share=1.0), 0)
    asked: list[AnyPlan] = []
    while (proposal := search.next()) is not None:
        asked += proposal.plans
        good = [plan for plan in proposal.plans if "block" not in plan.key]
        search.record(proposal.site, proposal.plans, [_measured(plan, _valley(proposal.site, plan)) for plan in good])
    assert len(asked) == len(set(asked))
    best = search.best(SITES[0])
    assert best is not None
    assert "warp" in best.plan.key


def test_if_everything_fails_the_search_ends() -> None:
    search = Search(SPACES, SearchLimits(), 0)
    while (proposal := search.next()) is not None:
        search.record(proposal.site, proposal.plans, ())
    assert search.verdict is Verdict.SETTLED
    assert search.best(SITES[0]) is None
    assert search.survivors(SITES[0]) == ()


def test_survivors_are_pruned_on_all_five_measures() -> None:
    search = Search(SPACES[:1], SearchLimits(), 0)
    proposal = search.next()
    assert proposal is not None
    fast, gentle, worse = proposal.plans[:3]
    found = [MeasuredPlan(fast, 1.0, 64, 1.0, 64, 1.0), MeasuredPlan(gentle, 2.0, 1, 2.0, 32, 0.5)]
    search.record(proposal.site, proposal.plans, [*found, MeasuredPlan(worse, 2.5, 64, 2.5, 64, 2.0)])
    assert search.survivors(proposal.site) == tuple(found)


def test_a_search_without_sites_has_nothing_to_ask() -> None:
    search = Search((), SearchLimits(), 0)
    assert (search.next(), search.verdict) == (None, Verdict.SETTLED)


@settings(max_examples=25)
@given(seed=st.integers(0, 2**31), share=st.floats(0.01, 1.0), world=st.integers(0, 5))
def test_equal_searches_fed_alike_ask_alike(seed: int, share: float, world: int) -> None:
    def time(site: Site, plan: AnyPlan) -> float:
        return Random(f"{world} {site.key} {plan.key}").uniform(1.0, 3.0)

    one, other = (_run(Search(SPACES[:3], SearchLimits(share=share), seed), time) for _ in range(2))
    assert one == other
    assert sum(len(proposal.plans) for proposal in one) <= share * sum(len(space.plans) for space in SPACES[:3])
