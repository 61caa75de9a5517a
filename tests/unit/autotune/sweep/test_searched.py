"""Blocks whose candidates a search has left."""

from collections.abc import Iterator
from dataclasses import replace
from statistics import median

import pytest

from pega_tune.autotune.engine import Measurement, Phase, Status, TransferBlock
from pega_tune.autotune.layouts import NamedLayout
from pega_tune.autotune.search.candidates import every_candidate
from pega_tune.autotune.search.sites import Site
from pega_tune.autotune.sweep.keys import block_seed
from pega_tune.autotune.sweep.observations import transfer_samples, usable
from pega_tune.autotune.sweep.planner import plan_sweep
from pega_tune.autotune.sweep.plans import STATIC_KERNEL, allowed
from pega_tune.autotune.sweep.presets import find_preset
from pega_tune.autotune.sweep.recording import Measured, block_record
from pega_tune.autotune.sweep.request import SweepRequest
from pega_tune.autotune.sweep.run import run_sweep
from pega_tune.autotune.sweep.searched import COMPARED, SearchedBlock
from pega_tune.autotune.sweep.serving_tasks import PlannedServing
from pega_tune.autotune.sweep.shapes import UNLIMITED, full_shapes
from pega_tune.errors import UsageError
from pega_tune.kernels.plan import AnyPlan, Backend
from pega_tune.kernels.shape import Direction, TransferShape
from pega_tune.profiles.policy.terms import ProfileState, Runtime
from pega_tune.profiles.store.records import BlockRecord
from pega_tune.profiles.store.store import Store
from tests.helpers.sweeps import MIB, HookedEngine, capabilities, finished, sim_engine

LIMITS = find_preset("standard").limits
LAYOUTS = ("shuffled", "host-ordered", "strided")
MINE = TransferShape(100, 100 * 20_000, Direction.D2H)
ALL = capabilities(backends=tuple(Backend), memory_bytes=1 << 36)


class CountingEngine(HookedEngine):
    """A simulated H200 that keeps the blocks it was given."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks: list[TransferBlock] = []

    def transfer(self, block: TransferBlock) -> Iterator[Measurement]:
        self.blocks.append(block)
        return super().transfer(block)


class FailingEngine(HookedEngine):
    """A simulated H200 on which everything moves wrong bytes."""

    def transfer(self, block: TransferBlock) -> Iterator[Measurement]:
        return (Measurement(n, Phase.VERIFY, Status.MISMATCH) for n in range(len(block.candidates)))


def _site(direction: Direction = Direction.BOTH, layout: str = "shuffled") -> Site:
    return Site(TransferShape(4096, 16 * MIB, direction), NamedLayout.parse(layout))


def _searched(site: Site, seed: int = 0) -> SearchedBlock:
    return SearchedBlock(site, sim_engine().capabilities(), LIMITS, seed)


def _times(record: BlockRecord, runtime: Runtime) -> dict[AnyPlan, float]:
    return {c.plan: median(transfer_samples(c)) for c in record.cells if usable(c) and allowed(runtime, c.plan)}


@pytest.mark.parametrize("direction", list(Direction))
@pytest.mark.parametrize("layout", LAYOUTS)
def test_what_is_left_holds_a_plan_as_good_as_the_best_of_all(direction: Direction, layout: str) -> None:
    engine, site = CountingEngine(), _site(direction, layout)
    record = _searched(site).measure(engine, {})
    whole = every_candidate(site.described, sim_engine().capabilities())
    block = TransferBlock(site.key, site.shape, whole, LIMITS, 1, layout=site.layout)
    every = block_record(Measured(block, tuple(engine.transfer(block)), engine.conditions()), None)
    for runtime in Runtime:
        times, found = _times(every, runtime), _times(record, runtime)
        best = min(found, key=found.__getitem__)
        assert times[best] <= 1.03 * min(times.values())
    tried = sum(len(probe.candidates) for probe in engine.blocks[:-1])
    assert tried < 0.6 * len(whole)


def test_the_block_that_is_stored_is_like_any_other_one() -> None:
    engine, site = CountingEngine(), _site()
    record = _searched(site, seed=3).measure(engine, {})
    last = engine.blocks[-1]
    assert (record.key, record.shape, record.seed) == (site.key, site.described, block_seed(3, site.key))
    assert [cell.name for cell in record.cells] == [candidate.name for candidate in last.candidates]
    assert [c.kind for c in record.cells].count("ceiling") == 1
    assert STATIC_KERNEL in {cell.name for cell in record.cells}
    assert len(record.cells) <= COMPARED + 3  # with the ceiling and the two plans that every runtime can run
    assert all(cell.verified for cell in record.cells)
    assert len({probe.key for probe in engine.blocks}) == len(engine.blocks)


def test_every_kind_of_backend_that_nothing_beats_in_all_measures_is_compared() -> None:
    record = _searched(_site(layout="host-ordered")).measure(sim_engine(), {})
    keys = " ".join(cell.plan.key for cell in record.cells)
    assert all(backend in keys for backend in ("staged", "batch", "kernel", "direct"))


def test_equal_ones_measure_the_same() -> None:
    one, other = (_searched(_site()).measure(sim_engine(), {}) for _ in range(2))
    assert one == other


def test_a_device_on_which_everything_fails_still_gives_a_block() -> None:
    record = _searched(_site()).measure(FailingEngine(), {})
    assert {cell.status for cell in record.cells} == {"mismatch"}
    assert {cell.kind for cell in record.cells} == {"ceiling", "static", "plan"}


def test_sweeps_search_at_the_users_shapes_and_where_every_axis_is_looked_at() -> None:
    plain = plan_sweep(SweepRequest("standard", shapes=(MINE,)), ALL)
    adaptive = plan_sweep(SweepRequest("standard", shapes=(MINE,), adaptive=True), ALL)
    assert [task.key for task in adaptive.blocks] == [task.key for task in plain.blocks]
    searched = {task.key for task in adaptive.blocks if isinstance(task, SearchedBlock)}
    full = {Site(shape).key for shape in full_shapes(find_preset("standard"), UNLIMITED)}
    laid_out = {f"{key}/{layout}" for key in full for layout in LAYOUTS}
    assert full | {Site(MINE).key} <= searched <= full | {Site(MINE).key} | laid_out
    assert adaptive.estimate_s < 1.05 * plain.estimate_s


def test_what_comes_beside_decode_takes_from_a_searched_block() -> None:
    tasks = plan_sweep(SweepRequest("standard", adaptive=True), ALL).blocks
    searched = {task.key for task in tasks if isinstance(task, SearchedBlock)}
    surveys = [task for task in tasks if isinstance(task, PlannedServing) and not task.process]
    large = {task.source for task in surveys if task.preset.processes}  # of the small ones, few plans matter
    assert large
    assert large <= searched


def test_a_search_and_an_exhaustive_sweep_do_not_go_together() -> None:
    with pytest.raises(UsageError, match="exhaustive"):
        SweepRequest(exhaustive=True, adaptive=True)


def test_the_request_is_stored() -> None:
    request = SweepRequest(adaptive=True)
    assert SweepRequest.from_json(request.to_json()) == request
    older = SweepRequest().to_json().replace('"adaptive":false,', "")
    assert SweepRequest.from_json(older) == SweepRequest()


def test_an_adaptive_sweep_ends_with_a_profile(store: Store) -> None:
    result = finished(list(run_sweep(SweepRequest(adaptive=True, decode="none"), sim_engine(), store)))
    assert (result.state, result.reasons) == (ProfileState.PUBLISHED, ())
    blocks = {block.key: block for block in store.blocks(result.sweep_id)}
    assert len(blocks["idle/both/16384x67108864"].cells) <= COMPARED + 3


def test_its_probes_are_of_its_own_shape_and_layout() -> None:
    engine, site = CountingEngine(), _site(Direction.H2D, "strided")
    _searched(site).measure(engine, {})
    assert {(probe.shape, probe.layout) for probe in engine.blocks} == {(site.shape, site.layout)}
    assert replace(site.shape, host_runs=1, pitch=8192) == site.described
