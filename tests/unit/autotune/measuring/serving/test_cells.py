"""From segments to records, and from records to what is printed."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import norm

from pega_tune.autotune.engine import Status
from pega_tune.autotune.measuring.serving.bursts import observe, pooled
from pega_tune.autotune.measuring.serving.cells import collect_segments, segment_flags, used_period_s
from pega_tune.autotune.measuring.serving.summary import ServingSummary, bursts_of, mixture_of, summarise
from pega_tune.autotune.serving import BASELINE, Segment, failed_segment
from pega_tune.profiles.store.records import BlockFlag, CellRecord, Metric
from tests.helpers.serving import SHAPE, MadeUpDecode, constant, serving_block

PERIOD_S, BURSTS = 0.0483, 20
QUIET = MadeUpDecode(extra_s=constant(0.0))
LOUD = MadeUpDecode(extra_s=constant(1e-3))
SLOW = MadeUpDecode(completion_s=constant(0.06))  # slower than the period


def _segments(decode: MadeUpDecode, candidate: int, rounds: int = 6) -> list[Segment]:
    return [decode.segment(candidate, PERIOD_S, BURSTS, seed) for seed in range(rounds)]


BASELINES = _segments(QUIET, BASELINE)


def _series(cell: CellRecord) -> dict[Metric, tuple[float, ...]]:
    return {record.metric: record.samples for record in cell.measurements}


def _summary(decode: MadeUpDecode, rounds: int = 6) -> ServingSummary:
    cell, _ = collect_segments(serving_block(), [*BASELINES, *_segments(decode, 0, rounds)])
    summary = summarise(cell, SHAPE.moved_bytes)
    assert summary is not None
    return summary


def test_a_cell_has_a_series_for_steps_bursts_and_segments() -> None:
    timed = [replace(segment, host_cpu_s=BURSTS * 1e-4) for segment in _segments(LOUD, 0)]
    cell, other = collect_segments(serving_block(), [*BASELINES, *timed, *_segments(QUIET, 1)])
    assert [record.metric for record in cell.measurements] == [
        Metric.STEP,
        Metric.STEP_END,
        Metric.BASELINE_STEP,
        Metric.STALL,
        Metric.EXTRA,
        Metric.COMPLETION,
        Metric.BURST_PERIOD,
        Metric.HOST_CPU,
    ]
    series = _series(cell)
    assert {len(series[m]) for m in (Metric.STALL, Metric.EXTRA, Metric.COMPLETION, Metric.BURST_PERIOD)} == {120}
    assert len(series[Metric.STEP]) == len(series[Metric.STEP_END]) > 1300
    assert series[Metric.HOST_CPU] == pytest.approx([1e-4] * 6)
    assert series[Metric.BASELINE_STEP] == _series(other)[Metric.BASELINE_STEP]
    assert series[Metric.BASELINE_STEP] == tuple(np.concatenate([b.steps_s for b in BASELINES]))
    assert (cell.name, cell.kind, cell.status, cell.verified, cell.detail) == ("a", "plan", "ok", False, "")


def test_stalls_are_told_against_the_median_step_of_the_baseline() -> None:
    hiccup = replace(BASELINES[0], step_ends=np.append(BASELINES[0].step_ends, BASELINES[0].step_ends[-1] + 10.0))
    cell, _ = collect_segments(serving_block(), [hiccup, *BASELINES[1:], *_segments(LOUD, 0)])
    assert np.median(_series(cell)[Metric.STALL]) == pytest.approx(1e-3, rel=0.02)


def test_few_bursts_are_told_by_the_status_of_a_series() -> None:
    few, many = collect_segments(serving_block(), [*BASELINES, *_segments(LOUD, 0, 4), *_segments(LOUD, 1)])
    statuses = {record.metric: record.status for record in few.measurements}
    assert statuses[Metric.STEP] == statuses[Metric.STALL] == statuses[Metric.COMPLETION] == "too-few"
    assert statuses[Metric.BASELINE_STEP] == "ok"
    assert {record.status for record in many.measurements} == {"ok"}
    assert few.status == "ok"


def test_outliers_and_what_a_segment_says_are_flags() -> None:
    odd = [replace(segment, flags=("serialised", "odd")) for segment in _segments(LOUD, 0, 1)]
    late = replace(BASELINES[0], step_ends=np.append(BASELINES[0].step_ends, BASELINES[0].step_ends[-1] + 10.0))
    cell, _ = collect_segments(serving_block(), [late, *odd])
    flags = {record.metric: record.flags for record in cell.measurements}
    assert flags[Metric.STEP] == ("odd", "serialised")
    assert flags[Metric.BASELINE_STEP] == ("outliers",)
    assert segment_flags([late, *odd]) == (BlockFlag.SERIALISED,)
    assert segment_flags([late]) == ()


def test_a_verified_segment_verifies_its_cell() -> None:
    first, *others = _segments(LOUD, 0)
    cell, _ = collect_segments(serving_block(), [*BASELINES, replace(first, verified=True), *others])
    assert cell.verified


def test_a_crash_keeps_what_was_measured_before_it() -> None:
    crash = failed_segment(0, Status.CRASHED, "killed by SIGSEGV")
    cell, _ = collect_segments(serving_block(), [*BASELINES, *_segments(LOUD, 0, 2), crash])
    assert (cell.status, cell.detail) == ("crashed", "killed by SIGSEGV")
    assert len(_series(cell)[Metric.STALL]) == 40


@pytest.mark.parametrize(
    ("taken", "why"),
    [
        (BASELINES, "never run"),
        (_segments(LOUD, 0), "no whole burst period was seen, beside a baseline"),
        (
            [*BASELINES, replace(_segments(LOUD, 0)[0], step_ends=np.array([0.0, 1.0]))],
            "no whole burst period was seen, beside a baseline",
        ),
    ],
)
def test_a_cell_without_samples_is_invalid(taken: Sequence[Segment], why: str) -> None:
    cell, _ = collect_segments(serving_block(), taken)
    assert (cell.status, cell.detail, cell.measurements) == ("invalid", why, ())
    assert summarise(cell, 1) is None
    assert bursts_of(cell) is None
    assert mixture_of(cell) is None


def test_what_is_printed_of_a_plan_that_disturbs() -> None:
    summary = _summary(LOUD)
    assert (summary.bursts, summary.missed) == (120, 0)
    assert summary.stall.p50_s == pytest.approx(1e-3, rel=0.02)
    assert summary.stall.max_s == pytest.approx(1e-3, rel=0.05)
    mean = summary.stall_mean_s
    assert mean.value == pytest.approx(1e-3, rel=0.02)
    assert mean.interval is not None
    stall_s = _series(collect_segments(serving_block(), [*BASELINES, *_segments(LOUD, 0)])[0])[Metric.STALL]
    half_s = norm.ppf(0.975) * np.std(stall_s) / 120**0.5
    assert (mean.value - mean.interval.low) / half_s == pytest.approx(1, abs=0.1)
    assert (mean.interval.high - mean.value) / half_s == pytest.approx(1, abs=0.1)
    # Half a step long, a burst disturbs one step or two, each by a quarter of a step.
    bursts = pooled(map(observe, _segments(LOUD, 0)))
    assert summary.extra_s == pytest.approx(1e-3 * bursts.disturbed.sum() / 120, rel=0.02)
    assert 1e-3 < summary.extra_s < 2e-3
    assert summary.itl_cost == pytest.approx(summary.extra_s / PERIOD_S)
    assert summary.delta.mean.value == pytest.approx(1 / (1 - summary.itl_cost) - 1, rel=0.03)
    # One step in ten is disturbed, so p99 is that of the slowest tenth of them.
    truth = (1.25 + LOUD.noise * norm.ppf(0.9)) / (1 + LOUD.noise * norm.ppf(0.99)) - 1
    assert summary.delta.p99.value == pytest.approx(truth, abs=0.002)
    assert summary.delta.max == pytest.approx(summary.step.max / summary.baseline.max - 1)
    interval = summary.delta.p99.interval
    assert interval is not None
    assert interval.low <= truth <= interval.high
    assert summary.completion.p50_s == summary.completion.max_s == pytest.approx(2e-3)
    assert summary.completion.p99_s.no_claim == "a p99 over bursts needs 368 of them, not 120"
    assert summary.bytes_per_s == pytest.approx(SHAPE.moved_bytes / PERIOD_S)
    assert summary.host_cpu_s is None


def test_a_plan_that_disturbs_nothing_has_no_increase() -> None:
    delta = _summary(QUIET).delta
    for figure in (delta.mean, delta.p99):
        assert figure.interval is not None
        assert figure.interval.low <= 0 <= figure.interval.high
        assert figure.interval.high < 0.005


def test_a_plan_slower_than_the_period_runs_as_often_as_it_can() -> None:
    summary = _summary(SLOW)
    assert summary.bytes_per_s == pytest.approx(SHAPE.moved_bytes / 0.06, rel=1e-6)
    segments = _segments(SLOW, 0)
    assert summary.missed == sum(segment.missed for segment in segments)
    assert summary.missed >= 6 * (BURSTS - 1)


def test_a_stored_cell_reads_as_a_fresh_one() -> None:
    segments = _segments(LOUD, 0)
    cell, _ = collect_segments(serving_block(), [*BASELINES, *segments])
    bursts, mixture = bursts_of(cell), mixture_of(cell)
    assert bursts is not None
    assert mixture is not None
    assert bursts.disturbed.sum() == len(mixture.disturbed_s)
    assert bursts.bursts == mixture.bursts == 120
    assert mixture.at(0.1).p99_s == pytest.approx(5e-3, rel=0.02)


def test_the_longest_period_of_a_candidate_is_that_of_the_block() -> None:
    periods = {BASELINE: 0.09, 0: 0.02, 1: 0.05}
    segments = [MadeUpDecode().segment(candidate, period_s, 3, seed=1) for candidate, period_s in periods.items()]
    assert used_period_s(segments) == 0.05
    assert used_period_s(segments[:1]) is None
    assert used_period_s([segments[1], failed_segment(1, Status.CRASHED, "")]) == 0.02
