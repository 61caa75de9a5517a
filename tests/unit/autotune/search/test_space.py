"""Plans as points: what is next to what, and what stands for many."""

from dataclasses import replace
from random import Random

import pytest

from pega_tune.autotune.layouts import NamedLayout
from pega_tune.autotune.search.candidates import every_plan
from pega_tune.autotune.search.sites import Site
from pega_tune.autotune.search.space import Point, Space
from pega_tune.autotune.sweep.plans import legs_of, pegaflow_kernel
from pega_tune.kernels.plan import AnyPlan, Backend, CopyPlan, KernelOptions, PlanPair, Variant, direct, kernel
from pega_tune.kernels.shape import Direction, TransferShape
from tests.helpers.sweeps import MIB, capabilities

ALL = capabilities(backends=tuple(Backend))


def _space(direction: Direction = Direction.H2D, layout: str = "shuffled", ranges: int = 16_384) -> Space:
    site = Site(TransferShape(ranges, 64 * MIB, direction), NamedLayout.parse(layout))
    return Space(site, every_plan(site.described, ALL))


def _kernel(grid: int, threads: int, chunk: int | None = None, variant: Variant = Variant.WARP) -> CopyPlan:
    return CopyPlan(Backend.KERNEL, variant, threads, KernelOptions(grid, chunk))


def test_the_neighbours_of_a_kernel_are_one_step_away_along_each_axis() -> None:
    assert set(_space().neighbours(_kernel(32, 256))) == {
        _kernel(16, 256),
        _kernel(64, 256),
        _kernel(32, 128),
        _kernel(32, 512),
        _kernel(32, 256, variant=Variant.BLOCK),
        _kernel(32, 256, 2048),
    }


def test_missing_values_of_an_axis_are_stepped_over() -> None:
    near = _space().neighbours(pegaflow_kernel())
    assert kernel(Variant.BLOCK, 8192, 256) in near


@pytest.mark.parametrize("direction", list(Direction))
@pytest.mark.parametrize("layout", ["shuffled", "strided"])
def test_neighbours_are_mutual_and_of_one_kind(direction: Direction, layout: str) -> None:
    space = _space(direction, layout)
    for plan in space.plans:
        for other in space.neighbours(plan):
            assert plan in space.neighbours(other)
            assert Point.of(plan).kind == Point.of(other).kind


@pytest.mark.parametrize("direction", list(Direction))
def test_from_the_middle_of_each_kind_all_plans_can_be_reached(direction: Direction) -> None:
    space = _space(direction, "strided")
    found = list(space.coarse(0, Random(0)))
    for plan in found:
        found += [other for other in space.neighbours(plan) if other not in found]
    assert set(found) == set(space.plans)


def test_chunks_of_dma_are_neighbours_of_the_whole() -> None:
    near = _space(layout="strided").neighbours(CopyPlan(Backend.PITCHED))
    assert near == (CopyPlan(Backend.PITCHED, chunk_bytes=16 * MIB),)


def test_a_plan_from_elsewhere_has_no_neighbours() -> None:
    assert _space().neighbours(replace(direct(), chunk_bytes=12_345)) == ()


@pytest.mark.parametrize("direction", list(Direction))
@pytest.mark.parametrize("count", [0, 1, 4, 30])
def test_the_coarse_ones_are_of_every_kind_and_in_one_piece(direction: Direction, count: int) -> None:
    space = _space(direction, "host-ordered")
    coarse = space.coarse(count, Random(1))
    kinds = {Point.of(plan).kind for plan in space.plans}
    assert {Point.of(plan).kind for plan in coarse} == kinds
    assert len(coarse) == len(set(coarse)) == len(kinds) + count
    assert not any(leg.is_chunked for plan in coarse for leg in legs_of(plan))
    assert set(coarse) <= set(space.plans)


@pytest.mark.parametrize("direction", list(Direction))
def test_two_more_than_the_kinds_are_the_ends_of_the_longest_axis(direction: Direction) -> None:
    space = _space(direction)
    middles, coarse = (space.coarse(count, Random(0)) for count in (0, 2))
    ends = {leg for plan in coarse if plan not in middles for leg in legs_of(plan)}
    grids = sorted(leg.options.max_grid_blocks for leg in ends if leg.options)
    assert grids[0] == 1
    assert grids[-1] >= space.site.shape.merged_ranges


def test_the_coarse_ones_are_far_apart() -> None:
    def spread(plans: tuple[AnyPlan, ...]) -> float:
        points = [Point.of(plan) for plan in plans]
        pairs = [(a, b) for a in points for b in points if a is not b and a.kind == b.kind]
        return min(a.distance(b) for a, b in pairs)

    space = _space()
    kernels = [plan for plan in space.plans if isinstance(plan, CopyPlan) and plan.backend is Backend.KERNEL]
    chance = [spread(tuple(Random(seed).sample(kernels, 8))) for seed in range(50)]
    assert spread(space.coarse(8, Random(0))) > sum(chance) / len(chance)


def test_fewer_plans_than_asked_for_are_all_taken() -> None:
    site = Site(TransferShape(1, 4096, Direction.H2D))
    plans = every_plan(site.described, ALL)
    whole = {plan for plan in plans if not any(leg.is_chunked for leg in legs_of(plan))}
    assert set(Space(site, plans).coarse(1000, Random(0))) == whole


def test_a_seed_draws_the_same_ones_again() -> None:
    assert _space().coarse(12, Random(5)) == _space().coarse(12, Random(5))


def test_plans_that_launch_the_same_are_alike() -> None:
    space = _space(ranges=16)
    assert space.alike(kernel(Variant.BLOCK, 64, 256)) == pegaflow_kernel()
    assert space.alike(CopyPlan(Backend.PITCHED)) is None


def test_a_pair_of_equal_plans_has_no_more_axes_than_one() -> None:
    one = Point.of(_kernel(4, 256))
    twin = Point.of(PlanPair(_kernel(4, 256), _kernel(4, 256)))
    mixed = Point.of(PlanPair(_kernel(4, 256), direct()))
    assert twin.place == one.place
    assert twin.kind != mixed.kind
    assert len(mixed.place) == 2 * len(twin.place)
