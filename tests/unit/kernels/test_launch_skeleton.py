"""Programs from a skeleton beside those from a builder."""

import ctypes
from dataclasses import replace

import numpy as np
import pytest

from pega_tune.kernels.backends.kernel import KernelBackend
from pega_tune.kernels.descriptors import DescriptorSpace
from pega_tune.kernels.plan import CopyPlan, KernelOptions, Variant, kernel
from pega_tune.kernels.program import Program, Route, StaleError
from pega_tune.kernels.ranges import RangeBatch
from pega_tune.kernels.shape import Direction
from tests.helpers.batches import columns
from tests.helpers.fake_driver import FakeDriver
from tests.helpers.programs import STREAM, route, submit

FUNCTIONS = {Variant.BLOCK: 2**63 + 1, Variant.WARP: 2**63 + 2}
START, END = 2**63 + 3, 2**63 + 4
CAPACITY = 64


def backend() -> KernelBackend:
    pinned = np.zeros((CAPACITY, 3), np.uint64)
    return KernelBackend(FUNCTIONS, DescriptorSpace(pinned, pinned.ctypes.data, 2**47, CAPACITY))


def batch(ranges: int) -> RangeBatch:
    return columns([(i * 8192, (7 - i % 8) * 8192, 0, 4096, 0, 0) for i in range(ranges)])


def words(program: Program) -> list[list[int]]:
    """The commands, with what a launch hands to its kernel in place of where that lies."""
    rows = [list(row) for row in program.commands.tolist()]
    launch = next(row for row in rows if row[0] == 7)
    pointers = (ctypes.c_uint64 * 2).from_address(launch[5])
    launch[5] = tuple(ctypes.c_uint64.from_address(pointer).value for pointer in pointers)
    copy = next(row for row in rows if row[0] == 0)
    copy[3] = 0  # pinned memory of one backend or of the other
    return rows


@pytest.mark.parametrize("start", [None, START])
@pytest.mark.parametrize("plan", [kernel(Variant.WARP, 2, 64), kernel(Variant.BLOCK, 3, 1024)], ids=lambda p: p.key)
def test_a_skeleton_makes_what_a_builder_makes_again_and_again(plan: CopyPlan, start: int | None) -> None:
    assert plan.options
    as_built = replace(plan, options=KernelOptions(plan.options.max_grid_blocks, 10**6))  # one chunk
    made, built, way = backend(), backend(), route(start, END)
    for ranges in (1, 8, 3, 30):
        again = made.prepare(batch(ranges), Direction.H2D, plan, way)
        other = built.prepare(batch(ranges), Direction.H2D, as_built, way)
        assert words(again) == words(other)
        assert (again.end, again.events) == (other.end, other.events) == (END, ())


def test_another_plan_or_route_is_not_taken_for_the_last_one() -> None:
    made = backend()
    first, other = kernel(Variant.WARP, 2, 64), kernel(Variant.BLOCK, 1, 128)
    elsewhere = Route(STREAM + 7, STREAM + 8, route().events, None, END + 1)
    for plan, way in ((first, route(end=END)), (other, route(end=END)), (other, elsewhere), (first, elsewhere)):
        program = made.prepare(batch(8), Direction.D2H, plan, way)
        fresh = backend().prepare(batch(8), Direction.D2H, plan, way)
        assert words(program) == words(fresh)


def test_programs_do_not_share_their_words_and_the_older_one_is_stale() -> None:
    driver, made, way = FakeDriver(), backend(), route(end=END)
    plan = kernel(Variant.WARP, 2, 64)
    first = made.prepare(batch(1), Direction.H2D, plan, way)
    before = first.commands.copy()
    second = made.prepare(batch(8), Direction.H2D, plan, way)
    assert (first.commands == before).all()
    with pytest.raises(StaleError):
        submit(driver.table, first)
    assert second.lease is not None
    assert not second.lease.revoked
