from dataclasses import replace

import pytest

from pega_tune.autotune.bench.serving import BenchResult, chosen, measure, name_of, undisturbed_step_s
from pega_tune.autotune.bench.serving_groups import MPS_SHARES, SLEEPS_S, Group
from pega_tune.autotune.bench.serving_plan import MAX_BEST, BenchBlock, plan_serving_bench, survivors
from pega_tune.autotune.bench.serving_request import ServingBenchRequest
from pega_tune.autotune.engine import CandidateKind
from pega_tune.autotune.layouts import NamedLayout
from pega_tune.autotune.serving import DecodeSpec, MpsShare, Pacing
from pega_tune.autotune.static_rules import STATIC_RULES
from pega_tune.errors import UsageError
from pega_tune.kernels.plan import Backend, PlanPair, Variant, direct, kernel
from pega_tune.kernels.shape import Direction
from pega_tune.profiles.policy.terms import Colocation, Objective
from pega_tune.profiles.store.records import BlockFlag
from tests.helpers.sweeps import capabilities, sim_engine

BESIDE = (Colocation.TIME_SLICED, Colocation.SAME_CONTEXT)
FEW = ServingBenchRequest(ranges=256, colocations=BESIDE[:1], rounds=1, decode=DecodeSpec(model="small"))
WARP_1, WARP_64 = (PlanPair(leg, leg) for leg in (kernel(Variant.WARP, grid, 1024) for grid in (1, 64)))
COPIES = PlanPair(direct(), direct())


def _planned(request: ServingBenchRequest, *best: PlanPair) -> tuple[BenchBlock, ...]:
    return plan_serving_bench(request, capabilities(backends=tuple(Backend)), best)


def _result(request: ServingBenchRequest, *best: PlanPair, faults: tuple[str, ...] = ()) -> BenchResult:
    (planned,) = _planned(request, *best)
    return measure(planned, sim_engine(*faults))


@pytest.mark.parametrize(
    "wrong",
    [
        {"rounds": 0},
        {"rounds": 10_001},
        {"seed": -1},
        {"seed": 2**31},
        {"colocations": (Colocation.IDLE,)},
        {"colocations": ()},
        {"groups": ()},
        {"groups": (Group.RULES, Group.MPS_SHARES)},  # and mps is not among the colocations
        {"ranges": 0},
        {"ranges": 4, "layout": NamedLayout.parse("runs:9")},
    ],
    ids=str,
)
def test_nonsense_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        ServingBenchRequest(**wrong)  # type: ignore[arg-type]


def test_each_colocation_has_a_block_of_rules_and_best_plans() -> None:
    blocks = _planned(ServingBenchRequest(), WARP_1, WARP_64)
    assert [planned.block.colocation for planned in blocks] == list(BESIDE)
    for planned in blocks:
        static = [entry.name for entry in planned.entries if entry.kind is CandidateKind.STATIC]
        assert static == [rule.name for rule in STATIC_RULES]
        assert [entry.plan for entry in planned.entries[len(static) :]] == [WARP_1, WARP_64]
        assert (planned.label, planned.block.shape.direction) == ("", Direction.BOTH)


def test_entries_that_launch_the_same_are_measured_once() -> None:
    (planned,) = _planned(replace(FEW, groups=(Group.RULES, Group.BEST)), COPIES)
    names = {candidate.name for candidate in planned.block.candidates}
    assert names == {entry.candidate for entry in planned.entries}
    assert len(names) < len(planned.entries)
    by_name = {entry.name: entry for entry in planned.entries}
    assert by_name[COPIES.key].candidate == "pegaflow-direct"


def test_groups_that_differ_in_plans_alone_share_a_baseline() -> None:
    together = (Group.GRIDS, Group.CHUNKS, Group.ENQUEUE_ONLY, Group.PRIORITIES, Group.PARTITIONS, Group.HYBRID)
    (planned,) = _planned(replace(FEW, groups=together))
    assert planned.label == ""
    assert len({entry.name for entry in planned.entries}) == len(planned.entries) > 20


def test_sleeps_directions_and_decode_priority_have_blocks_of_their_own() -> None:
    request = replace(FEW, groups=(Group.SLEEP, Group.DIRECTIONS, Group.DECODE_PRIORITY))
    blocks = {planned.label: planned.block for planned in _planned(request)}
    assert list(blocks) == [
        "", *(f"sleep {us} us" for us in (25, 50, 100)), "h2d alone", "d2h alone", "decode priority -5"
    ]  # fmt: skip
    assert [b.pacing.sleep_s for b in blocks.values()][: 1 + len(SLEEPS_S)] == [0.0, *SLEEPS_S]
    assert (blocks["h2d alone"].shape.direction, blocks["d2h alone"].shape.direction) == (Direction.H2D, Direction.D2H)
    assert blocks["decode priority -5"].decode == replace(FEW.decode, stream_priority=-5)
    assert len({block.key for block in blocks.values()}) == len(blocks)


@pytest.mark.parametrize("group", [Group.SLEEP, Group.DIRECTIONS, Group.DECODE_PRIORITY, Group.MPS_SHARES])
def test_what_has_blocks_of_its_own_is_measured_without_the_difference_too(group: Group) -> None:
    request = replace(FEW, colocations=(Colocation.MPS,), groups=(group,))
    main, *apart = _planned(request)
    assert (main.label, main.block.mps, main.block.decode) == ("", request.mps, request.decode)
    assert (main.block.pacing, main.block.shape.direction) == (request.pacing, Direction.BOTH)
    assert apart
    for planned in apart:
        legs = [leg.load if isinstance(leg, PlanPair) else leg for leg in (e.plan for e in planned.entries)]
        assert legs == [e.plan.load for e in main.entries if isinstance(e.plan, PlanPair)]


def test_without_stream_priorities_that_of_decode_cannot_be_compared() -> None:
    request = replace(FEW, groups=(Group.DECODE_PRIORITY,))
    with pytest.raises(UsageError, match="nothing of decode-priority fits this device"):
        plan_serving_bench(request, replace(capabilities(), priorities=()))


def test_rounds_are_as_asked_or_enough_for_a_tail() -> None:
    for rounds, expected in ((None, (10, 20)), (3, (3, 3))):
        (planned,) = _planned(replace(FEW, rounds=rounds, groups=(Group.CHUNKS,)))
        limits = planned.block.limits
        assert (limits.min_rounds, limits.max_rounds) == expected
        assert planned.steps == (1 + len(planned.block.candidates)) * limits.min_rounds


def test_survivors_are_few_different_plans_without_the_ceiling() -> None:
    found = survivors(replace(FEW, ranges=16_384, layout=NamedLayout.parse("strided")), sim_engine())
    assert 1 < len(found) == len(set(found)) <= MAX_BEST
    backends = {leg.backend for plan in found if isinstance(plan, PlanPair) for leg in (plan.load, plan.save)}
    assert {Backend.PITCHED, Backend.KERNEL, Backend.STAGED} <= backends


def test_rows_are_the_entries_in_their_order_and_tell_with_whom_they_were_measured() -> None:
    request = replace(FEW, groups=(Group.RULES, Group.BEST))
    result = _result(request, COPIES, WARP_1)
    assert [row.name for row in result.rows] == [entry.name for entry in result.planned.entries]
    rows = {row.name: row for row in result.rows}
    assert (rows[COPIES.key].same_as, rows["pegaflow-direct"].same_as) == ("pegaflow-direct", None)
    assert rows[COPIES.key].summary == rows["pegaflow-direct"].summary
    assert {row.status for row in result.rows} == {"ok"}
    assert result.period_s == 0.05
    assert undisturbed_step_s(result) == pytest.approx(rows[WARP_1.key].summary.baseline.p50.value)  # type: ignore[union-attr]


def test_objectives_choose_among_all_rows_whoever_ships_them() -> None:
    result = _result(replace(FEW, groups=(Group.RULES, Group.BEST), ranges=16_384), WARP_1, WARP_64)
    seen = {row.plan: row.summary for row in result.rows if row.same_as is None and row.summary is not None}
    in_time = {plan: one for plan, one in seen.items() if one.completion.p99_s.value < 0.05}
    choice = chosen(result, Objective.STRICT)
    assert choice is not None
    assert choice.option.plan in in_time
    assert name_of(result, choice.option.plan) in {row.name for row in result.rows if row.same_as is None}
    assert choice.option.predicted.stall_s == min(max(0.0, one.stall.p95_s) for one in in_time.values())
    alone = chosen(_result(replace(FEW, groups=(Group.RULES,))), Objective.STRICT)
    assert alone is not None
    assert alone.option.plan in [row.plan for row in result.rows]


def test_strict_takes_the_least_stall_and_throughput_the_least_time() -> None:
    result = _result(replace(FEW, groups=(Group.BEST,), ranges=16_384), WARP_1, WARP_64)
    rows = [(row, row.summary) for row in result.rows if row.summary is not None]
    strict, fast = chosen(result, Objective.STRICT), chosen(result, Objective.THROUGHPUT)
    assert strict is not None
    assert fast is not None
    assert strict.option.plan == min(rows, key=lambda row: row[1].stall.p95_s)[0].plan
    least_s = min(summary.completion.p50_s for _, summary in rows)
    assert fast.option.predicted.time_s <= least_s * 1.02


def test_what_does_not_complete_within_the_period_is_not_chosen() -> None:
    request = replace(FEW, groups=(Group.BEST,), ranges=16_384)  # one memcpy per range takes 80 ms
    for pacing in (Pacing(0.05), Pacing(None)):
        choice = chosen(_result(replace(request, pacing=pacing), COPIES, WARP_64), Objective.STRICT)
        assert choice is not None
        assert choice.option.plan == WARP_64
    alone = chosen(_result(request, COPIES), Objective.STRICT)
    assert alone is not None
    assert not alone.budget_met


def test_with_a_period_of_its_own_for_each_the_longest_is_told() -> None:
    request = replace(FEW, groups=(Group.BEST,), ranges=16_384, pacing=Pacing(None))
    fast, both = _result(request, WARP_64), _result(request, COPIES, WARP_64)
    assert fast.period_s is not None
    assert both.period_s is not None
    assert fast.period_s < 0.05
    assert both.period_s > 0.08


def test_failures_have_a_row_without_a_summary_and_are_never_chosen() -> None:
    result = _result(replace(FEW, groups=(Group.BEST,)), WARP_1, WARP_64, faults=("mismatch",))
    (failed,) = [row for row in result.rows if row.summary is None]
    assert (failed.status, bool(failed.detail)) == ("mismatch", True)
    choice = chosen(result, Objective.THROUGHPUT)
    assert choice is not None
    assert choice.option.plan != failed.plan


def test_what_was_wrong_with_the_device_is_told() -> None:
    assert _result(replace(FEW, groups=(Group.CHUNKS,)), faults=("throttled",)).flags == (BlockFlag.THROTTLED,)


def test_equal_seeds_give_equal_rows() -> None:
    one, again, other = (_result(replace(FEW, seed=seed), WARP_1) for seed in (1, 1, 2))
    assert one.rows == again.rows != other.rows


def test_nothing_to_compare_is_refused() -> None:
    request = ServingBenchRequest(groups=(Group.DMA_CHUNKS,))
    with pytest.raises(UsageError, match="fits this device and ranges that are shuffled"):
        plan_serving_bench(request, capabilities())


def test_everything_can_be_compared_where_there_is_no_mps() -> None:
    blocks = _planned(replace(FEW, groups=tuple(Group)))
    assert {planned.block.mps for planned in blocks} == {MpsShare()}


def test_shares_are_compared_under_mps_alone() -> None:
    request = ServingBenchRequest(groups=(Group.MPS_SHARES,), colocations=(Colocation.MPS, Colocation.TIME_SLICED))
    blocks = plan_serving_bench(request, capabilities())
    assert {planned.block.colocation for planned in blocks} == {Colocation.MPS}
    assert tuple(planned.block.mps for planned in blocks) == (MpsShare(), *MPS_SHARES)
    assert [planned.label for planned in blocks] == ["", *(str(share) for share in MPS_SHARES)]
    assert str(MpsShare(25)) == "25 % of threads"
