"""Sweeps of the whole plan space."""

import pytest

from pega_tune.autotune.engine import TransferBlock
from pega_tune.autotune.search.candidates import every_candidate
from pega_tune.autotune.sweep.events import SweepStarted
from pega_tune.autotune.sweep.exhaustive import CAVEAT
from pega_tune.autotune.sweep.planner import PlannedBlock, plan_sweep
from pega_tune.autotune.sweep.request import SweepRequest
from pega_tune.autotune.sweep.run import Resumption, Surroundings, resume_sweep, run_sweep
from pega_tune.errors import UsageError
from pega_tune.kernels.plan import Backend
from pega_tune.kernels.shape import Direction, TransferShape
from pega_tune.profiles.policy.terms import Colocation, ProfileState
from pega_tune.profiles.store.store import Store
from tests.helpers.sweeps import HookedEngine, ManualClock, capabilities, finished, sim_engine

ALL = capabilities(backends=tuple(Backend), memory_bytes=1 << 36)
MINE = (TransferShape(3, 30_000, Direction.H2D), TransferShape(5, 50_000, Direction.BOTH))


def _blocks(request: SweepRequest) -> list[TransferBlock]:
    planned = plan_sweep(request, ALL).blocks
    assert all(isinstance(task, PlannedBlock) for task in planned)
    return [task.block for task in planned if isinstance(task, PlannedBlock)]


def test_a_thorough_one_compares_all_layouts_in_all_directions_and_leaves_time() -> None:
    plan = plan_sweep(SweepRequest("thorough", exhaustive=True), ALL)
    assert plan.estimate_s < 0.85 * plan.budget_s
    blocks = _blocks(SweepRequest("thorough", exhaustive=True))
    for direction in Direction:
        here = [block for block in blocks if block.shape.direction is direction]
        assert 12 <= len(here) <= 20
        assert {str(block.layout.kind) for block in here} == {"shuffled", "host-ordered", "strided", "runs"}


def test_every_candidate_is_in_every_block() -> None:
    for block in _blocks(SweepRequest("thorough", exhaustive=True)):
        assert block.candidates == every_candidate(block.layout.described(block.shape), ALL)


def test_a_smaller_preset_takes_the_most_important_ones() -> None:
    quick, standard, thorough = (
        [block.key for block in _blocks(SweepRequest(preset, exhaustive=True))]
        for preset in ("quick", "standard", "thorough")
    )
    assert 0 < len(quick) < len(standard) <= len(thorough)
    assert quick == standard[: len(quick)] == thorough[: len(quick)]


def test_a_budget_changes_no_block() -> None:
    request = SweepRequest("quick", exhaustive=True)
    assert _blocks(request) == _blocks(SweepRequest("quick", exhaustive=True, budget_s=1.0))


def test_shapes_of_the_user_take_the_place_of_the_others() -> None:
    request = SweepRequest(shapes=MINE, exhaustive=True)
    assert [block.shape for block in _blocks(request)] == list(MINE)


@pytest.mark.parametrize(
    "words", [{"decode": "builtin"}, {"colocations": (Colocation.TIME_SLICED,)}], ids=["decode", "colocation"]
)
def test_decode_is_refused(words: dict[str, object]) -> None:
    with pytest.raises(UsageError, match="exhaustive"):
        SweepRequest(exhaustive=True, **words)  # type: ignore[arg-type]


def test_the_request_is_stored_and_one_from_before_it_can_be_read() -> None:
    request = SweepRequest(exhaustive=True, shapes=MINE)
    assert SweepRequest.from_json(request.to_json()) == request
    older = SweepRequest().to_json().replace('"exhaustive":false,', "")
    assert SweepRequest.from_json(older) == SweepRequest()


def test_its_profile_is_a_draft_that_says_why(store: Store) -> None:
    request = SweepRequest(shapes=tuple(TransferShape(2, 20_000, d) for d in Direction), exhaustive=True)
    events = list(run_sweep(request, sim_engine(), store))
    (started,) = [event for event in events if isinstance(event, SweepStarted)]
    assert started.estimate_s > 0
    assert finished(events).state is ProfileState.DRAFT
    assert finished(events).reasons == (CAVEAT,)
    assert finished(events).cells > 50


def test_one_that_ran_out_of_time_is_resumed(store: Store) -> None:
    clock = ManualClock()

    def tick(_begun: int, _block: object) -> None:
        clock.elapsed_s += 5.0

    request = SweepRequest(shapes=MINE, exhaustive=True, budget_s=6.0)
    engine = HookedEngine(tick)
    first = finished(list(run_sweep(request, engine, store, Surroundings(clock))))
    assert (first.state, len(engine.keys)) == (ProfileState.PARTIAL, 1)
    again = HookedEngine()
    finished(list(resume_sweep(Resumption(first.sweep_id, 1e9), again, store, Surroundings(clock))))
    assert len(engine.keys + again.keys) == len({*engine.keys, *again.keys}) == len(MINE)
