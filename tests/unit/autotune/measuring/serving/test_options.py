from dataclasses import replace

import pytest

from pega_tune.autotune.measuring.serving.options import option_of
from pega_tune.autotune.measuring.serving.summary import ServingSummary, summarise
from tests.helpers.serving_records import SHAPE, WARP_1, Cost, survey_record


def _summary(cost: Cost) -> ServingSummary:
    (cell,) = survey_record({WARP_1: cost}).cells
    summary = summarise(cell, SHAPE.moved_bytes)
    assert summary is not None
    return summary


def test_an_option_has_the_stall_of_which_few_bursts_have_more() -> None:
    summary = _summary(Cost(1e-3, 3e-3))
    uneven = replace(summary, stall=replace(summary.stall, p50_s=1.0, p95_s=2.0, max_s=3.0))
    assert option_of(WARP_1, uneven).predicted.stall_s == 2.0
    predicted = option_of(WARP_1, summary).predicted
    assert predicted.stall_s == pytest.approx(1e-3)
    assert predicted.extra_s == summary.extra_s
    assert predicted.completion_p99_s == summary.completion.p99_s.value


def test_its_time_is_the_median_completion_unless_another_one_is_known() -> None:
    summary = _summary(Cost(1e-3, 3e-3))
    assert option_of(WARP_1, summary).predicted.time_s == pytest.approx(3e-3)
    assert option_of(WARP_1, summary, 2e-3).predicted.time_s == 2e-3


def test_less_than_nothing_is_nothing() -> None:
    predicted = option_of(WARP_1, _summary(Cost(-1e-5))).predicted
    assert (predicted.stall_s, predicted.extra_s) == (0.0, 0.0)
