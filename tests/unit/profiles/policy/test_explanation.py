"""`Auto.explain`: the decision, its rivals, and what it rests on."""

import json
from dataclasses import FrozenInstanceError, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pega_tune.errors import UsageError
from pega_tune.kernels.shape import Direction
from pega_tune.profiles.policy.auto import Auto
from pega_tune.profiles.policy.table import Bounds, Option, Predicted
from pega_tune.profiles.policy.terms import Colocation, Evidence, Hint, Objective, Tier
from tests.unit.profiles.policy.examples import (
    BATCH,
    DIRECT,
    NARROW,
    STAGED,
    UNTIL_NOW_S,
    WIDE,
    cells_of,
    copy_plans,
    now,
    one_way,
    option,
    profile,
)

MIB = 1 << 20
SHAPE = (1024, 4 * MIB, "h2d")


def auto(*tables) -> Auto:
    return Auto(profile(*tables), Tier.CLASS, ("the driver differs",), clock=now)


def reasons(*options: Option, step_s: float | None = 4e-3, **terms) -> dict[object, str]:
    table = one_way(*options, step_s=step_s)
    explained = auto(table).explain(*SHAPE, colocation="idle", **terms)
    assert [each.chosen for each in explained.considered].count(True) == 1
    return {each.plan: each.reason for each in explained.considered if not each.chosen}


def test_an_explanation_holds_all_that_the_decision_rests_on():
    table = one_way(
        option(WIDE, 1e-3, 3e-3),
        option(DIRECT, 40e-3, 0.1e-3),
        hint=Hint.HOST_ORDERED,
        sources=("h2d 16", "h2d 64"),
        evidence=(0, 1, 1),
    )
    answerer = auto(one_way(), table)
    explained = answerer.explain(*SHAPE, colocation="idle", objective="strict", host_runs=1)
    assert explained.decision is answerer.decide(*SHAPE, colocation="idle", objective="strict", host_runs=1)
    assert (explained.shape.merged_ranges, explained.shape.total_bytes, explained.shape.host_runs) == (1024, 4 * MIB, 1)
    assert [(each.plan, each.chosen) for each in explained.considered] == [(WIDE, False), (DIRECT, True)]
    assert explained.considered[0].predicted == Predicted(1e-3, 3e-3, 6e-3, 1e-3)
    assert (explained.cell.ranges, explained.cell.sizes) == (Bounds(1, None), Bounds(4096, MIB - 1))
    assert (explained.hint, explained.tier, explained.profile) == (Hint.HOST_ORDERED, Tier.CLASS, "abc123")
    assert (explained.age_s, explained.blocks) == (UNTIL_NOW_S, ("h2d 64",))
    assert explained.warnings == ("the driver differs",)
    assert "host-ordered" in explained.decision.why
    with pytest.raises(FrozenInstanceError):
        explained.blocks = ()


def test_its_json_has_the_keys_of_the_decision_and_more():
    explained = auto(one_way(option(WIDE, 1e-3), option(DIRECT, 2e-3))).explain(*SHAPE, colocation="idle")
    answer, decision = explained.to_json(), explained.decision.to_json()
    assert json.loads(json.dumps(answer, allow_nan=False)) == answer
    assert {**answer, **decision} == answer
    assert answer["cell"] == {"ranges": {"low": 1, "high": None}, "sizes": {"low": 4096, "high": MIB - 1}}
    assert [each["chosen"] for each in answer["considered"]] == [True, False]
    assert answer["blocks"] == []


def test_outside_what_was_measured_the_shape_is_named():
    explained = auto(one_way()).explain(16385, 1 << 30, "h2d", colocation="idle")
    assert "16385 ranges of 65532 bytes (1073741824 in all) lie outside what was measured" in explained.warnings[-1]
    assert explained.warnings[:-1] == explained.decision.warnings[:-1]


def test_one_range_of_one_byte_is_told_as_one():
    explained = auto(one_way(range_edges=(1, 2), cells=(one_way().cells * 2))).explain(1, 1, "h2d", colocation="idle")
    assert "1 range of 1 byte (1 in all) lies outside" in explained.warnings[-1]
    assert "cell of 1 range of 1 to 4095 bytes" in explained.decision.why


def test_the_rule_considers_nothing():
    explained = Auto.rule_only().explain(16384, 64 * MIB)
    assert (explained.considered, explained.cell, explained.blocks, explained.age_s) == ((), None, (), None)
    assert explained.to_json()["tier"] == "rule"


def test_a_senseless_question_is_refused():
    with pytest.raises(UsageError, match="host runs"):
        auto(one_way()).explain(*SHAPE, host_runs=0)


FAST, SLOW, TIE = option(WIDE, 1e-3, 3e-3), option(DIRECT, 40e-3, 0.1e-3), option(STAGED, 40e-3, 0.1e-3)


@pytest.mark.parametrize(
    ("options", "terms", "plan", "reason"),
    [
        ((FAST, SLOW), {"objective": "throughput"}, DIRECT, "takes 40 times as long as the fastest"),
        ((FAST, option(DIRECT, 1.5e-3)), {"objective": "throughput"}, DIRECT, "takes 50.0% longer than the fastest"),
        ((option(WIDE, 1e-3), option(DIRECT, 1.01e-3)), {}, WIDE, "is as fast, within the noise, but holds more"),
        ((FAST, SLOW), {"objective": "strict"}, WIDE, "stalls decode longer (3.00 ms)"),
        ((SLOW, TIE), {"objective": "strict"}, STAGED, "stalls decode as long, but holds more threads"),
        ((FAST, SLOW), {"objective": "tail-bounded"}, WIDE, "is not known to stall at most 0.1 of a decode step"),
        ((FAST, SLOW), {"objective": "tail-bounded", "budget": 1.0}, DIRECT, "completes later (p99 40.0 ms)"),
        ((SLOW, TIE), {"objective": "tail-bounded"}, STAGED, "completes at the same time, but holds more threads"),
        ((FAST, SLOW), {"objective": "tail-bounded", "budget": 0.0}, WIDE, "and stalls decode longer (3.00 ms)"),
        ((FAST, SLOW), {"objective": "balanced"}, WIDE, "is not known to cost at most 1% of mean ITL"),
        ((SLOW, option(NARROW, 1e-3)), {"objective": "strict"}, NARROW, "is not known to be easy on decode"),
        ((option(WIDE, 1e-3), option(DIRECT, 2e-3)), {"objective": "strict"}, WIDE, "holds more threads"),
        ((FAST, SLOW), {"period_s": 0.02}, DIRECT, "does not complete within the period of 20.0 ms"),
        ((FAST, SLOW), {"period_s": 1e-4}, DIRECT, "within the period of 100 us and completes later (p99 40.0 ms)"),
    ],
)
def test_a_rival_is_passed_over_for_a_reason(options, terms, plan, reason):
    assert reason in reasons(*options, **terms)[plan]


@given(cells_of(copy_plans), st.sampled_from(Objective), st.floats(1e-5, 1.0), st.floats(0.0, 2.0))
@settings(max_examples=200)
def test_every_option_has_a_reason_in_one_line(options, objective, period_s, budget):
    table = one_way(*options, step_s=4e-3, colocation=Colocation.MPS)
    explained = auto(table).explain(*SHAPE, colocation="mps", objective=objective, period_s=period_s, budget=budget)
    assert len(explained.considered) == len(options)
    chosen = [each for each in explained.considered if each.chosen]
    assert [each.plan for each in chosen] == [explained.decision.plan] * len(chosen)
    assert chosen
    for each in explained.considered:
        assert each.reason
        assert not {"\n", "inf", "nan"} & {*each.reason.split(), *each.reason}


def test_a_fit_is_told_from_a_measurement():
    fitted = replace(option(BATCH, 1e-3, 1e-4), fitted=True)
    explained = auto(one_way(fitted, FAST, option(DIRECT, 2e-3))).explain(*SHAPE, colocation="idle")
    assert [each.evidence for each in explained.considered] == [Evidence.FITTED, Evidence.MEASURED, Evidence.NONE]
    assert explained.decision.direction is Direction.H2D
