import pytest

from pega_tune.autotune.engine import TransferBlock
from pega_tune.autotune.layouts import NamedLayout
from pega_tune.autotune.sweep.keys import block_key, block_seed, final_key, is_final, survey_key
from pega_tune.autotune.sweep.planner import PlannedBlock, plan_sweep
from pega_tune.autotune.sweep.presets import PRESETS, Preset
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


def _transfers(request: SweepRequest) -> list[TransferBlock]:
    return [b.block for b in plan_sweep(request, capabilities()).blocks if isinstance(b, PlannedBlock)]


def _serving(request: SweepRequest) -> list[PlannedServing]:
    return [b for b in plan_sweep(request, capabilities()).blocks if isinstance(b, PlannedServing)]


@pytest.mark.parametrize("preset", PRESETS, ids=lambda preset: preset.name)
def test_the_estimate_leaves_room_in_the_budget(preset: Preset) -> None:
    plan = plan_sweep(SweepRequest(preset.name), capabilities(backends=ALL))
    assert plan.budget_s == preset.budget_s
    assert plan.estimate_s < 0.85 * plan.budget_s


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


def test_quick_looks_beside_decode_once_and_last() -> None:
    blocks = plan_sweep(SweepRequest(), capabilities()).blocks
    assert [b.key for b in blocks if isinstance(b, PlannedServing)] == [blocks[-1].key] == [f"time-sliced/{BOTH}"]


@pytest.mark.parametrize("preset", ["standard", "thorough"])
def test_surveys_come_after_their_sources_and_before_their_finals(preset: str) -> None:
    blocks = plan_sweep(SweepRequest(preset), capabilities()).blocks
    keys = [block.key for block in blocks]
    assert len(set(keys)) == len(keys)
    for block in blocks:
        if isinstance(block, PlannedServing):
            assert keys.index(block.source) < keys.index(block.key)
    surveys = [f"{where}/{BOTH}{layout}" for where in ("time-sliced", "same-context") for layout in LAYOUTS]
    finals = [f"{survey}/process-{n}" for n in range(1, 6) for survey in surveys]
    assert [b.key for b in _serving(SweepRequest(preset))] == surveys + finals
    assert keys[-len(surveys + finals) :] == surveys + finals


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
    assert beside == [*idle, f"idle/{BOTH}/host-ordered", f"idle/{BOTH}/strided"]


def test_colocations_are_those_asked_for() -> None:
    request = SweepRequest(colocations=(Colocation.MPS, Colocation.SAME_CONTEXT))
    assert [b.key for b in _serving(request)] == [f"mps/{BOTH}", f"same-context/{BOTH}"]
    assert _serving(SweepRequest(decode="none")) == []


def test_the_estimate_counts_each_start_of_decode_and_of_a_process_once() -> None:
    starts = [block.start_s for block in _serving(SweepRequest("standard"))]
    one_round = 2 * len(LAYOUTS)
    assert [n for n, start_s in enumerate(starts) if start_s] == list(range(0, len(starts), len(LAYOUTS)))
    assert starts[one_round] > starts[0] > starts[len(LAYOUTS)]  # a process, another one's decode, a thread's


def test_what_was_measured_beside_decode_is_left_out_too() -> None:
    plan = plan_sweep(SweepRequest("standard"), capabilities())
    finished = [block.key for block in plan.blocks[: -len(LAYOUTS)]]
    assert [block.key for block in plan.without(finished).blocks] == [
        f"same-context/{BOTH}{layout}/process-5" for layout in LAYOUTS
    ]
