"""Which setting is advised, and what it is said to cost."""

from dataclasses import replace

import pytest

from pega_tune.autotune.kv.traffic import CountedShape
from pega_tune.autotune.settings.advice import Advice, Known, advise
from pega_tune.autotune.settings.engines import ENGINES
from pega_tune.autotune.settings.full import decided, full
from pega_tune.autotune.settings.mix import Mix
from pega_tune.autotune.settings.wording import document_of, text_of
from pega_tune.autotune.sweep.learning import Learner
from pega_tune.autotune.sweep.observations import observe
from pega_tune.errors import DataError
from pega_tune.kernels.plan import PlanPair, Variant, direct, kernel
from pega_tune.kernels.shape import Direction, TransferShape
from pega_tune.profiles.policy.stored import StoredProfile
from pega_tune.profiles.policy.table import Option, Predicted
from pega_tune.profiles.policy.terms import Colocation, Hint
from tests.helpers.bundles import SIMULATED, bundle, table
from tests.helpers.recordings import load
from tests.helpers.timed_plans import counted

SLOW, FAST, WIDEST = (kernel(Variant.WARP, grid, 1024) for grid in (1, 8, 32))
QUOTA = "SGLANG_HICACHE_BLOCK_QUOTA"


def profile(*options: Option, **changes: object) -> StoredProfile:
    """One whose table holds these options everywhere."""
    cells = ((tuple(options)),) * 2
    return bundle(table(cells=cells, **changes)).stored


def advised(stored: StoredProfile, *traffic: CountedShape, engine: str = "sglang") -> Advice:
    return advise(ENGINES[engine], Known(stored, (), traffic))


OPTIONS = (
    Option(WIDEST, Predicted(0.99e-3)),
    Option(FAST, Predicted(1e-3)),
    Option(SLOW, Predicted(3e-3)),
)


def test_of_settings_that_differ_by_noise_the_one_with_fewest_threads_is_advised():
    assert advised(profile(*OPTIONS, margin=0.02), counted(1000, 4096)).setting.values == {QUOTA: 8}
    assert advised(profile(*OPTIONS, margin=0.0), counted(1000, 4096)).setting.values == {QUOTA: 32}


def test_the_cost_is_that_of_all_transfers_against_the_fastest_plans():
    options = (Option(direct(), Predicted(0.5e-3)), *OPTIONS)
    found = advised(profile(*options), counted(1000, 4096, count=3), counted(500, 4096))
    assert found.cost.time_s == pytest.approx(4 * 1e-3)
    assert found.cost.ratio == pytest.approx(2.0)
    assert found.stall is None


def test_frequent_transfers_decide():
    """Below 1 MiB a range is moved best by few CTAs, from there on by many."""
    small = (Option(FAST, Predicted(1e-3)), Option(SLOW, Predicted(0.5e-3)))
    large = (Option(FAST, Predicted(1e-3)), Option(SLOW, Predicted(4e-3)))
    stored = bundle(table(cells=(small, large))).stored
    for often, quota in (((100, 1), 1), ((1, 100), 8)):
        traffic = (counted(100, 4096, count=often[0]), counted(16, 2 << 20, count=often[1]))
        assert advised(stored, *traffic).setting.values == {QUOTA: quota}


def test_the_stall_is_told_where_it_is_known():
    options = (Option(FAST, Predicted(1e-3, 5e-4, 1e-3, 2e-3)), Option(SLOW, Predicted(3e-3, 2e-4, 1e-3, 4e-3)))
    idle = table(cells=(OPTIONS, OPTIONS))
    beside = table(cells=(options, options), colocation=Colocation.TIME_SLICED, step_s=7e-3)
    found = advised(bundle(idle, beside).stored, counted(1000, 4096))
    assert (found.stall.colocation, found.stall.stall_s, found.stall.full_s, found.stall.share) == (
        Colocation.TIME_SLICED,
        5e-4,
        5e-4,
        1.0,
    )


def test_what_was_measured_without_decode_says_nothing_of_stalls_however_ranges_lie():
    """The idle table of a hint answers beside decode where no more is known there, as for whoever looks up."""
    options = (Option(FAST, Predicted(1e-3, 5e-4, 1e-3, 2e-3)), Option(SLOW, Predicted(3e-3, 2e-4, 1e-3, 4e-3)))
    traffic = CountedShape(replace(counted(1000, 4096).shape, host_runs=1))
    idle = (table(cells=(OPTIONS, OPTIONS)), table(cells=(OPTIONS, OPTIONS), hint=Hint.HOST_ORDERED))
    for cells, stall_s in ((options, 5e-4), (OPTIONS, None)):
        beside = table(cells=(cells, cells), colocation=Colocation.TIME_SLICED, step_s=7e-3)
        found = advised(bundle(*idle, beside).stored, traffic)
        assert (found.stall and found.stall.full_s) == stall_s
        (decision,) = decided(bundle(*idle, beside).stored, Mix.of([traffic]), Colocation.TIME_SLICED)
        assert (decision.hint is Hint.HOST_ORDERED) == (stall_s is None)


def test_one_transfer_is_told_as_one_and_a_stall_that_is_known_in_part_as_such():
    options = (Option(FAST, Predicted(1e-3, 5e-4, 1e-3, 2e-3)), Option(SLOW, Predicted(3e-3, 2e-4, 1e-3, 4e-3)))
    beside = table(cells=(options, options), colocation=Colocation.TIME_SLICED, step_s=7e-3)
    stored = bundle(table(cells=(OPTIONS, OPTIONS)), beside).stored
    known = Known(stored, (), (counted(1000, 4096),))
    found = advise(ENGINES["sglang"], known)
    assert found.stall is not None
    half = replace(found, stall=replace(found.stall, share=0.5))
    text = text_of(ENGINES["sglang"], half, known).replace("\n# ", " ")
    assert "For 1 transfer of 1 shape: " in text
    assert (
        "a burst stalls decode (time-sliced) by 500 us, with what Auto answers by 500 us. This is known of 50%" in text
    )


def test_what_nobody_measured_cannot_be_advised():
    with pytest.raises(DataError, match="does not tell how long settings of vllm take"):
        advised(profile(*OPTIONS), counted(1000, 4096), engine="vllm")
    with pytest.raises(DataError, match="tells no times of some"):
        advised(profile(*OPTIONS), counted(1000, 4096, Direction.D2H))


def test_bytes_outside_what_was_measured_are_told():
    found = advised(profile(*OPTIONS), counted(1000, 4096), counted(1, 2 << 30))
    assert found.outside == pytest.approx((2 << 30) / ((2 << 30) + 1000 * 4096))


RECORDED = load()
LEARNT = Learner().learn(RECORDED.blocks)
MEASURED = StoredProfile("abc", RECORDED.sweep.device, bundle().state, RECORDED.sweep.started_at, "", LEARNT.policy)
TRAFFIC = [counted(n, size, d) for d in Direction for n, size in ((16384, 4096), (256, 65536), (64, 8192))]


@pytest.mark.parametrize("name", ENGINES)
def test_no_setting_beats_all_plans_by_more_than_noise_where_they_were_measured(name):
    known = Known(MEASURED, RECORDED.blocks, TRAFFIC)
    found = advise(ENGINES[name], known)
    margin = max(t.margin for t in MEASURED.policy.tables)
    assert found.cost.ratio > 1 - 2 * margin
    if found.default_cost is not None:
        assert found.cost.time_s <= found.default_cost.time_s * (1 + margin)
    assert (found.basis, found.outside) == ("the measured cells of the sweep", 0.0)
    assert document_of(ENGINES[name], found, known)["predicted"]["time_ratio"] == found.cost.ratio


def test_what_is_known_of_the_ranges_makes_full_faster_and_settings_none():
    shape = TransferShape(16384, 64 << 20, Direction.BOTH)
    ordered = replace(shape, host_runs=1)
    observations = observe(RECORDED.blocks)
    here, there = (full(MEASURED, observations, Mix.of([CountedShape(each)])) for each in (shape, ordered))
    assert there.times_s[0] < here.times_s[0]
    costs = [
        advise(ENGINES["sglang"], Known(MEASURED, RECORDED.blocks, [CountedShape(each)])).cost
        for each in (shape, ordered)
    ]
    assert costs[0].time_s == costs[1].time_s
    assert costs[1].ratio > costs[0].ratio


def test_where_only_other_shapes_were_measured_in_that_layout_full_is_as_without_it():
    shape = TransferShape(64, 64 << 14, Direction.BOTH)
    traffic = ((CountedShape(each),) for each in (shape, replace(shape, host_runs=1)))
    here, there = (full(MEASURED, observe(RECORDED.blocks), Mix.of(each)) for each in traffic)
    assert (here.plans, here.times_s) == (there.plans, there.times_s)


def test_a_load_and_a_save_in_two_ways_are_said_to_be_a_guess():
    pair = (Option(PlanPair(FAST, FAST), Predicted(1e-3)),)
    stored = bundle(table(cells=(pair, pair), direction=Direction.BOTH)).stored
    known = Known(stored, (), [counted(1000, 4096, Direction.BOTH)])
    found = advise(ENGINES["sglang"], known)
    assert found.guessed == 0
    text = text_of(ENGINES["sglang"], replace(found, guessed=0.25), known)
    assert "25% of the transfers load in one way and save in another" in " ".join(text.replace("#", "").split())


def test_the_text_is_comments_and_what_to_paste_and_says_simulated_first():
    stored = bundle(table(cells=(OPTIONS, OPTIONS)), device=SIMULATED).stored
    known = Known(stored, (), [counted(1000, 4096)])
    found = advise(ENGINES["sglang"], known)
    lines = text_of(ENGINES["sglang"], found, known).splitlines()
    assert lines[0] == "# SIMULATED: these values are of no real device."
    assert [line for line in lines if not line.startswith("# ")] == [f"export {QUOTA}=8"]
    assert max(map(len, lines)) <= 120
    assert document_of(ENGINES["sglang"], found, known)["simulated"] is True
