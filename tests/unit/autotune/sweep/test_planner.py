import pytest

from pega_tune.autotune.engine import TransferBlock
from pega_tune.autotune.layouts import NamedLayout
from pega_tune.autotune.sweep.confirm_tasks import BLOCK_S, CANONICAL_BLOCK_S, plan_confirmation
from pega_tune.autotune.sweep.events import ROOM
from pega_tune.autotune.sweep.keys import block_key, block_seed, confirms, final_key, is_final, survey_key
from pega_tune.autotune.sweep.planner import PlannedBlock, plan_sweep
from pega_tune.autotune.sweep.plans import legs_of
from pega_tune.autotune.sweep.presets import PRESETS, Preset, find_preset
from pega_tune.autotune.sweep.request import SweepRequest
from pega_tune.autotune.sweep.serving_tasks import PlannedServing
from pega_tune.errors import DeviceError
from pega_tune.kernels.plan import Backend
from pega_tune.kernels.shape import Direction, TransferShape
from pega_tune.profiles.policy.terms import Colocation
from tests.helpers.sweeps import MIB, capabilities

MINE = TransferShape(100, 100 * 20_000, Direction.D2H)
CANONICAL = TransferShape(16_384, 64 * MIB, Direction.H2D)
BOTH = "both/16384x67108864"
ALL = (Backend.DIRECT, Backend.BATCH, Backend.PITCHED, Backend.KERNEL, Backend.STAGED)
LAYOUTS = ("", "/host-ordered", "/strided")
SMALL = ("both/256x4194304", "both/1024x16777216")


def _transfers(request: SweepRequest) -> list[TransferBlock]:
    return [b.block for b in plan_sweep(request, capabilities()).blocks if isinstance(b, PlannedBlock)]


def _serving(request: SweepRequest) -> list[PlannedServing]:
    return [b for b in plan_sweep(request, capabilities()).blocks if isinstance(b, PlannedServing)]


@pytest.mark.parametrize("preset", PRESETS, ids=lambda preset: preset.name)
def test_the_estimate_leaves_room_in_the_budget(preset: Preset) -> None:
    plan = plan_sweep(SweepRequest(preset.name), capabilities(backends=ALL))
    assert plan.budget_s == preset.budget_s
    assert plan.estimate_s < 0.96 * plan.budget_s


def test_what_is_asked_for_beyond_a_preset_gets_its_time() -> None:
    every = tuple(Colocation)[1:]
    plan = plan_sweep(SweepRequest("standard", colocations=every), capabilities(backends=ALL))
    assert plan.estimate_s > find_preset("standard").budget_s
    assert plan.budget_s == pytest.approx(ROOM * plan.estimate_s)


def test_the_same_request_plans_the_same_blocks() -> None:
    request = SweepRequest(seed=7, shapes=(MINE,))
    assert plan_sweep(request, capabilities()) == plan_sweep(request, capabilities())


def test_a_seed_changes_seeds_alone() -> None:
    one, two = (_transfers(SweepRequest(seed=seed)) for seed in (1, 2))
    assert [b.key for b in one] == [b.key for b in two]
    assert [b.candidates for b in one] == [b.candidates for b in two]
    assert not {b.seed for b in one} & {b.seed for b in two}


def test_seeds_fit_into_31_bits_and_differ() -> None:
    seeds = {block_seed(0, f"key {i}") for i in range(100)}
    assert len(seeds) == 100
    assert all(0 <= seed < 2**31 for seed in seeds)


def test_users_shapes_come_first_then_the_full_ones() -> None:
    blocks = _transfers(SweepRequest(shapes=(MINE, CANONICAL)))
    assert [b.shape for b in blocks[:2]] == [MINE, CANONICAL]
    assert {b.shape.direction for b in blocks[2:4]} == {Direction.D2H, Direction.BOTH}
    assert len({b.key for b in blocks}) == len(blocks) == len({b.shape for b in blocks})
    widths = [len(b.candidates) for b in blocks]
    assert min(widths[1:4]) > max(widths[:1] + widths[4:])


def test_finished_blocks_are_left_out() -> None:
    plan = plan_sweep(SweepRequest(), capabilities())
    first = plan.blocks[0].key
    rest = plan.without([first])
    assert rest.blocks == plan.blocks[1:]
    assert rest.estimate_s < plan.estimate_s


@pytest.mark.parametrize("stored", ["confirm/h2d/1", f"time-sliced/{BOTH}/process-3"])
def test_what_goes_on_in_a_fresh_process_counts_its_start(stored: str) -> None:
    plan = plan_sweep(SweepRequest("standard"), capabilities())
    keys = [task.key for task in plan.blocks]
    place = keys.index(stored)
    begun, going_on = plan.blocks[place : place + 2]
    (rest, *_) = plan.without(keys[: place + 1]).blocks
    assert rest.key == going_on.key
    assert rest.process == begun.process > 0
    assert rest.estimate_s > going_on.estimate_s + 1


def test_a_users_shape_that_does_not_fit_is_refused() -> None:
    with pytest.raises(DeviceError, match="d2h 100 x 20000 B"):
        plan_sweep(SweepRequest(shapes=(MINE,), max_device_bytes=MIB), capabilities())


def test_a_budget_replaces_the_presets() -> None:
    assert plan_sweep(SweepRequest(budget_s=7.0), capabilities()).budget_s == 7.0


def test_keys_name_colocation_direction_counts_and_an_unusual_layout() -> None:
    host_ordered = NamedLayout.parse("host-ordered")
    assert block_key(CANONICAL, Colocation.IDLE) == "idle/h2d/16384x67108864"
    survey = block_key(CANONICAL, Colocation.MPS, host_ordered)
    assert survey == "mps/h2d/16384x67108864/host-ordered"
    final = final_key(survey, 2)
    assert final == f"{survey}/process-2"
    assert (survey_key(final), survey_key(survey)) == (survey, survey)
    assert (is_final(final), is_final(survey)) == (True, False)


def test_quick_looks_beside_decode_once_and_then_confirms() -> None:
    keys = [block.key for block in plan_sweep(SweepRequest(), capabilities()).blocks]
    again = [f"confirm/{direction}/{number}" for direction in ("h2d", "d2h", "both") for number in (1, 2, 3)]
    assert keys[-10:] == [f"time-sliced/{BOTH}", *again]
    assert [block.key for block in _serving(SweepRequest())] == keys[-10:-9]


def test_no_more_shapes_are_measured_again_than_there_are() -> None:
    request = SweepRequest(shapes=(MINE,))
    learner = plan_sweep(request, capabilities()).learner
    few = [TransferShape(n, n << 16, Direction.H2D) for n in range(1, 6)]
    few += [TransferShape(1, 1 << 16, Direction.D2H), TransferShape(1, 1 << 10, Direction.BOTH)]
    few += [NamedLayout.parse("strided").described(TransferShape(n, n << 16)) for n in (1, 2)]
    planned = list(plan_confirmation(few, PRESETS[0].confirm, 7, learner))
    keys = ["confirm/h2d/1", "confirm/h2d/2", "confirm/h2d/3", "confirm/d2h/1", "confirm/both/strided/1"]
    assert [one.key for one in planned] == keys
    assert [one.start_s > 0 for one in planned] == [True, False, False, False, False]
    assert [one.estimate_s - one.start_s for one in planned] == pytest.approx([*(BLOCK_S,) * 4, CANONICAL_BLOCK_S])
    assert len({one.process for one in planned}) == 1


@pytest.mark.parametrize("preset", ["standard", "thorough"])
def test_surveys_come_after_their_sources_and_before_their_finals(preset: str) -> None:
    blocks = plan_sweep(SweepRequest(preset), capabilities()).blocks
    keys = [block.key for block in blocks]
    assert len(set(keys)) == len(keys)
    for block in blocks:
        if isinstance(block, PlannedServing):
            assert keys.index(block.source) < keys.index(block.key)
    where = ("time-sliced", "same-context")
    canonical = [f"{BOTH}{layout}" for layout in LAYOUTS]
    surveys = [f"{colocation}/{shape}" for colocation in where for shape in (*canonical, *SMALL)]
    in_finals = [f"{colocation}/{shape}" for colocation in where for shape in canonical]
    finals = [f"{survey}/process-{n}" for n in range(1, 6) for survey in in_finals]
    assert [b.key for b in _serving(SweepRequest(preset))] == surveys + finals
    first_pass = [key for key in keys if not confirms(key)]
    assert first_pass == keys[: len(first_pass)]
    assert first_pass[-len(surveys + finals) :] == surveys + finals


def test_small_shapes_are_surveyed_wherever_the_large_one_is_and_have_an_idle_block() -> None:
    asked = SweepRequest("standard", colocations=(Colocation.MPS, Colocation.SAME_CONTEXT))
    small = [task for task in _serving(asked) if task.key.endswith(SMALL)]
    assert [task.key for task in small] == [f"{where}/{shape}" for where in ("mps", "same-context") for shape in SMALL]
    large = next(task for task in _serving(asked) if task.key.endswith(BOTH))
    for task in small:
        assert 2 < task.preset.candidates < large.preset.candidates
        assert task.estimate_s - task.start_s < large.estimate_s - large.start_s
    keys = [task.key for task in plan_sweep(asked, capabilities()).blocks]
    alone = [task.key for task in plan_sweep(SweepRequest("standard", decode="none"), capabilities()).blocks]
    assert {f"idle/{shape}" for shape in SMALL} <= set(keys)
    assert f"idle/{SMALL[0]}" in alone  # a point of the lattice, the other is not
    assert f"idle/{SMALL[1]}" not in alone


def test_the_small_shapes_of_a_user_are_not_measured_twice() -> None:
    mine = TransferShape(256, 4 * MIB, Direction.BOTH)
    keys = [task.key for task in plan_sweep(SweepRequest("standard", shapes=(mine,)), capabilities()).blocks]
    assert keys[0] == f"idle/{SMALL[0]}"
    assert len(set(keys)) == len(keys)


def test_shapes_of_a_user_lie_as_they_say_and_take_the_place_of_the_presets_own() -> None:
    words = ("strided", "host-ordered", "runs:64", "shuffled")
    mine = tuple(NamedLayout.parse(word).described(TransferShape(16_384, 64 * MIB)) for word in words)
    request = SweepRequest("standard", shapes=mine)
    tasks = plan_sweep(request, capabilities(backends=ALL)).blocks
    assert [task.key for task in tasks[:4]] == [f"idle/{BOTH}/{word}" for word in words[:3]] + [f"idle/{BOTH}"]
    assert len({task.key for task in tasks}) == len(tasks)
    first = [task.block for task in tasks[:3] if isinstance(task, PlannedBlock)]
    assert [str(block.layout) for block in first] == list(words[:3])
    for block, backend in zip(first, (Backend.PITCHED, Backend.STAGED, Backend.STAGED), strict=True):
        assert backend in {leg.backend for candidate in block.candidates for leg in legs_of(candidate.plan)}


def test_a_survey_takes_from_the_idle_block_of_its_layout_and_finals_from_their_survey() -> None:
    for planned in _serving(SweepRequest("standard")):
        where, _, rest = planned.key.partition("/")
        expected = survey_key(planned.key) if is_final(planned.key) else f"idle/{rest}"
        assert (planned.source, str(planned.colocation)) == (expected, where)
        assert planned.process == int(planned.key.rpartition("process-")[2] if is_final(planned.key) else 0)


def test_layouts_are_measured_alone_only_for_what_comes_beside_decode() -> None:
    idle = [block.key for block in _transfers(SweepRequest("standard", colocations=(Colocation.IDLE,)))]
    assert not [key for key in idle if key.endswith(LAYOUTS[1:])]
    beside = [block.key for block in _transfers(SweepRequest("standard"))]
    assert beside == [*idle, f"idle/{SMALL[1]}", f"idle/{BOTH}/host-ordered", f"idle/{BOTH}/strided"]


@pytest.mark.parametrize(("preset", "layouts"), [("quick", set()), ("standard", {"host-ordered", "strided", "runs"})])
def test_other_layouts_are_measured_at_several_shapes_in_each_direction(preset: str, layouts: set[str]) -> None:
    request = SweepRequest(preset, decode="none")
    tasks = plan_sweep(request, capabilities(backends=ALL)).blocks
    laid_out = [t.block for t in tasks if isinstance(t, PlannedBlock) and len(t.key.split("/")) > 3]
    assert {block.layout.kind.value for block in laid_out} == layouts
    for kind in layouts:
        members = [block for block in laid_out if block.layout.kind == kind]
        assert {block.shape.direction for block in members} == set(Direction)
        assert len({block.shape.merged_ranges for block in members}) > 1
    for block in laid_out:
        plans = {leg for c in block.candidates for leg in legs_of(c.plan)}
        assert plans & {leg for leg in plans if leg.backend in (Backend.STAGED, Backend.PITCHED)}
        assert plans & {leg for leg in plans if leg.backend is Backend.KERNEL}


def test_no_block_of_a_layout_is_planned_twice() -> None:
    keys = [task.key for task in plan_sweep(SweepRequest("standard"), capabilities(backends=ALL)).blocks]
    assert len(set(keys)) == len(keys)
    assert f"idle/{BOTH}/strided" in keys
    assert "idle/h2d/16384x67108864/strided" in keys


def test_colocations_are_those_asked_for() -> None:
    request = SweepRequest(colocations=(Colocation.MPS, Colocation.SAME_CONTEXT))
    assert [b.key for b in _serving(request)] == [f"mps/{BOTH}", f"same-context/{BOTH}"]
    assert _serving(SweepRequest(decode="none")) == []


def test_the_estimate_counts_each_start_of_decode_and_of_a_process_once() -> None:
    tasks = _serving(SweepRequest("standard"))
    places = [(task.process, task.colocation) for task in tasks]
    first = [n for n, place in enumerate(places) if place not in places[:n]]
    assert [n for n, task in enumerate(tasks) if task.start_s] == first
    survey, thread, final = (tasks[n].start_s for n in first[:3])
    assert final > survey > thread  # a process, another one's decode, a thread's


def test_what_was_measured_beside_decode_is_left_out_too() -> None:
    plan = plan_sweep(SweepRequest("standard"), capabilities())
    confirming = [block.key for block in plan.blocks if confirms(block.key)]
    finished = [*(block.key for block in plan.blocks[: -len(LAYOUTS) - len(confirming)]), *confirming]
    assert [block.key for block in plan.without(finished).blocks] == [
        f"same-context/{BOTH}{layout}/process-5" for layout in LAYOUTS
    ]
