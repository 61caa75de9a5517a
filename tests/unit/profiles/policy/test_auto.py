"""`Auto`: from a device or a profile to decisions."""

import json
import re
from dataclasses import FrozenInstanceError, replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pega_tune.autotune.cli import units
from pega_tune.errors import DataError, DeviceError, UsageError
from pega_tune.kernels.plan import PlanPair
from pega_tune.kernels.shape import Direction
from pega_tune.profiles.policy.auto import Auto
from pega_tune.profiles.policy.choose import Demand, choose
from pega_tune.profiles.policy.decision import Expected, Meaning
from pega_tune.profiles.policy.errors import QuestionError
from pega_tune.profiles.policy.explain import format_duration
from pega_tune.profiles.policy.live import LiveAuto, Surroundings
from pega_tune.profiles.policy.terms import Colocation, Evidence, Hint, Objective, Runtime, Tier
from tests.unit.profiles.policy.database import Row, create
from tests.unit.profiles.policy.examples import (
    DIRECT,
    NARROW,
    STAGED,
    UNTIL_NOW_S,
    WIDE,
    facts,
    now,
    one_way,
    option,
    profile,
)

KIB, MIB = 1 << 10, 1 << 20
IDLE = one_way(option(WIDE, 1e-3), option(NARROW, 1.5e-3), option(DIRECT, 40e-3))
BUSY = one_way(
    option(WIDE, 1e-3, 3e-3),
    option(STAGED, 2e-3, 0.2e-3),
    option(DIRECT, 40e-3, 0.1e-3),
    colocation=Colocation.TIME_SLICED,
    step_s=4e-3,
)
PAIRS = one_way(option(PlanPair(STAGED, NARROW), 3e-3), direction=Direction.BOTH)


def auto(*tables, **changes):
    return Auto(profile(*tables, **changes), Tier.BOARD, clock=now)


def decide(tables, **asked):
    return auto(*tables).decide(1024, 4 * MIB, "h2d", **asked)


def test_a_decision_says_all_that_is_fixed():
    decision = decide([IDLE, BUSY], objective="tail-bounded")
    answer = decision.to_json()
    assert json.loads(json.dumps(answer, allow_nan=False)) == answer
    assert answer["plan"] == STAGED.to_json()
    assert answer["predicted"] == {"time_s": 2e-3, "stall_s": 0.2e-3, "completion_p99_s": 2e-3}
    assert answer["predicted_for"] == {"merged_ranges": 1, "average_range_bytes": 65_536}
    assert answer["predicted_as"] == {
        "time_s": "median beside decode",
        "stall_s": "p95 of bursts",
        "completion_p99_s": "p99 beside decode",
    }
    del answer["plan"], answer["predicted"], answer["predicted_for"], answer["predicted_as"], answer["why"]
    assert answer == {
        "budget_met": True,
        "tier": "board",
        "profile": "abc123",
        "evidence": "measured",
        "simulated": False,
        "objective": "tail-bounded",
        "colocation": "time-sliced",
        "runtime": "full",
        "hint": "none",
        "direction": "h2d",
        "warnings": [],
        "age_s": UNTIL_NOW_S,
    }


def test_why_names_the_cell_and_the_alternatives():
    why = decide([IDLE], objective="throughput").why
    assert "cell of 1 and more ranges of 4096 to 1048575 bytes" in why
    assert all(plan.key in why for plan in (WIDE, NARROW, DIRECT))
    assert "\n" not in why


def test_time_sliced_is_the_default_where_it_was_measured():
    decision = decide([IDLE, BUSY])
    assert (decision.colocation, decision.warnings) == (Colocation.TIME_SLICED, ())
    assert decision.evidence is Evidence.MEASURED


@pytest.mark.parametrize(("asked", "named"), [(None, "time-sliced"), ("mps", "mps")])
def test_idle_answers_with_a_warning_for_what_was_not_measured(asked, named):
    decision = decide([IDLE], colocation=asked)
    assert decision.colocation is Colocation.IDLE
    assert len(decision.warnings) == 1
    assert decision.warnings[0].startswith(f"{named} was not measured")


ORDERED = one_way(option(STAGED, 0.4e-3), option(DIRECT, 40e-3), hint=Hint.HOST_ORDERED)
UNSERVED = one_way(option(WIDE, 1e-3), option(DIRECT, 40e-3), colocation=Colocation.TIME_SLICED, step_s=4e-3)


@pytest.mark.parametrize("objective", Objective)
def test_ranges_that_lie_as_was_measured_without_decode_alone_are_answered_from_that_and_nothing_is_promised(objective):
    decision = decide([IDLE, ORDERED, UNSERVED], host_runs=1, objective=objective)
    tail = objective in (Objective.TAIL_BOUNDED, Objective.STRICT)
    assert decision.plan == (DIRECT if tail else STAGED)
    assert (decision.colocation, decision.hint) == (Colocation.IDLE, Hint.HOST_ORDERED)
    assert (decision.evidence, decision.budget_met) == (Evidence.NONE, False)
    (warning,) = decision.warnings
    assert warning.startswith("time-sliced was not measured with ranges that lie so (host-ordered): what was")
    explained = auto(IDLE, ORDERED, UNSERVED).explain(1024, 4 * MIB, "h2d", host_runs=1, objective=objective)
    assert (explained.decision, explained.warnings) == (decision, decision.warnings)


@pytest.mark.parametrize(
    ("asked", "tables"),
    [
        ({"host_runs": 1}, [IDLE, ORDERED, BUSY]),  # what was measured beside decode comes first
        ({}, [IDLE, ORDERED, UNSERVED]),
        ({"host_runs": 1, "merged_ranges": 16385, "total_bytes": 64 * MIB}, [IDLE, ORDERED, UNSERVED]),
        ({"host_runs": 1}, [IDLE, ORDERED, replace(ORDERED, colocation=Colocation.TIME_SLICED), UNSERVED]),
    ],
)
def test_else_the_tables_of_the_colocation_answer(asked, tables):
    shape = {"merged_ranges": 1024, "total_bytes": 4 * MIB}
    assert auto(*tables).decide(**(shape | {"direction": "h2d"} | asked)).colocation is Colocation.TIME_SLICED


def test_idle_that_was_asked_for_is_no_warning():
    assert decide([IDLE, BUSY], colocation="idle").warnings == ()


def test_a_tail_objective_without_evidence_says_so():
    decision = decide([IDLE], objective="strict")
    assert (decision.plan, decision.budget_met, decision.evidence) == (DIRECT, False, Evidence.NONE)


def test_the_step_of_the_profile_is_the_budgets_unless_given():
    assert decide([BUSY], objective="tail-bounded").plan == STAGED
    assert decide([BUSY], objective="tail-bounded", step_s=40e-3).plan == WIDE


@pytest.mark.parametrize("asked", [{"direction": "d2h"}, {"runtime": "pegaflow"}])
def test_without_a_table_the_rule_answers(asked):
    decision = auto(IDLE).decide(1024, 4 * MIB, **({"direction": "h2d"} | asked))
    assert (decision.tier, decision.profile, decision.age_s) == (Tier.RULE, None, None)
    assert "the profile has no table" in decision.warnings[0]


@pytest.mark.parametrize("objective", Objective)
@pytest.mark.parametrize(("ranges", "total_bytes"), [(16385, 64 * MIB), (16384, 1 << 40), (1024, 256 * MIB)])
def test_outside_what_was_measured_the_nearest_plan_answers_and_promises_nothing(ranges, total_bytes, objective):
    decision = auto(BUSY).decide(ranges, total_bytes, "h2d", objective=objective)
    answer = decision.to_json()
    assert decision.plan in [each.plan for each in BUSY.look_up(ranges, total_bytes // ranges)]
    assert answer["predicted"] == {"time_s": None, "stall_s": None, "completion_p99_s": None}
    assert (answer["predicted_for"], answer["budget_met"], answer["evidence"]) == (None, False, "none")
    assert (answer["tier"], answer["profile"]) == ("board", "abc123")
    assert not re.search(r"\d ?(ns|us|ms|s)\b", decision.why)
    measured = "1 to 16384 ranges of 1024 to 2097152 bytes (4096 to 67108864 in all)"
    assert measured in decision.warnings[-1]


def test_inside_what_was_measured_nobody_is_warned():
    assert auto(BUSY).decide(16384, 64 * MIB, "h2d").warnings == ()


def test_what_is_known_of_the_ranges_is_no_matter_where_no_table_depends_on_it():
    for answerer in (auto(BUSY), Auto.rule_only()):
        plain = answerer.decide(1024, 4 * MIB, "h2d")
        assert answerer.decide(1024, 4 * MIB, "h2d", host_runs=1, alignment=16, pitch=8192) == plain
        assert plain.hint is Hint.NONE


@given(st.floats(1e-9, 59.0))
def test_durations_read_as_on_the_command_line(seconds):
    assert format_duration(seconds) == units.format_duration(seconds)


def test_times_in_why_have_the_unit_that_suits():
    why = auto(one_way(option(WIDE, 25.2e-6), option(DIRECT, 1.5))).decide(1024, 4 * MIB, "h2d").why
    assert "(median 25.2 us)" in why
    assert "(median 1.50 s)" in why


@pytest.mark.parametrize(
    ("expected", "evidence", "meaning"),
    [
        (Expected(), Evidence.NONE, Meaning(None, None, None)),
        (Expected(1.0), Evidence.NONE, Meaning("median without decode", None, None)),
        (Expected(1.0, None, 2.0), Evidence.NONE, Meaning("median beside decode", None, "p99 beside decode")),
        (
            Expected(1.0, 0.1, 2.0),
            Evidence.FITTED,
            Meaning("median without decode", "p95 of bursts, fitted", "p99 beside decode, fitted"),
        ),
    ],
)
def test_a_prediction_says_what_its_numbers_are(expected, evidence, meaning):
    assert expected.meaning(evidence) == meaning


def test_a_pair_answers_for_both():
    assert auto(PAIRS).decide(1024, 4 * MIB).to_json()["plan"] == PlanPair(STAGED, NARROW).to_json()


@given(
    st.integers(1, 1 << 20),
    st.integers(1 << 20, 1 << 40),
    st.sampled_from(Objective),
    st.floats(1e-4, 1.0),
)
def test_a_decision_is_the_choice_of_its_cell(ranges, total_bytes, objective, period_s):
    decision = auto(BUSY).decide(ranges, total_bytes, "h2d", objective=objective, period_s=period_s)
    options = BUSY.look_up(ranges, total_bytes // ranges)
    choice = choose(options, Demand(objective, period_s=period_s, step_s=BUSY.step_s), BUSY.margin)
    covered = BUSY.covers(ranges, total_bytes // ranges)
    assert (decision.plan, decision.budget_met) == (choice.option.plan, covered and choice.budget_met)


def test_words_and_members_are_the_same_question():
    by_word = decide([IDLE], objective="throughput", colocation="idle", runtime="full")
    by_member = decide([IDLE], objective=Objective.THROUGHPUT, colocation=Colocation.IDLE, runtime=Runtime.FULL)
    assert by_word == by_member


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"direction": "up"}, "direction is one of h2d, d2h, both, not 'up'"),
        ({"objective": "fast"}, "objective is one of throughput, balanced, tail-bounded, strict, not 'fast'"),
        ({"colocation": "near"}, "colocation is one of idle, same-context, time-sliced, mps, not 'near'"),
        ({"runtime": "java"}, "runtime is one of pegaflow, kernel-options, full, not 'java'"),
        ({"budget": -1.0}, "budget"),
        ({"period_s": 0.0}, "period"),
        ({"host_runs": 0}, "host runs"),
        ({"host_runs": 1025}, "host runs"),
        ({"alignment": 3}, "alignment is one of 1, 2, 4, 8, 16, not 3"),
        ({"alignment": 32}, "alignment"),
        ({"pitch": 4095}, "pitch is at least the size of a range, 4096 bytes, not 4095"),
        ({"merged_ranges": 0}, "at least 1 range"),
        ({"total_bytes": -1}, "bytes"),
        ({"total_bytes": 1023}, "at least as many bytes"),
        ({"merged_ranges": 1.5}, "merged_ranges is a whole number, not 1.5"),
        ({"merged_ranges": 1024.0}, "merged_ranges is a whole number, not 1024.0"),
        ({"merged_ranges": True}, "merged_ranges is a whole number, not True"),
        ({"merged_ranges": "1024"}, "merged_ranges is a whole number, not '1024'"),
        ({"merged_ranges": None}, "merged_ranges is a whole number, not None"),
        ({"merged_ranges": 1, "total_bytes": True}, "total_bytes is a whole number, not True"),
        ({"total_bytes": 4.0 * MIB}, "total_bytes is a whole number, not 4194304.0"),
        ({"total_bytes": float("nan")}, "total_bytes is a whole number, not nan"),
        ({"host_runs": True}, "host_runs is a whole number, not True"),
        ({"host_runs": 1.0}, "host_runs is a whole number, not 1.0"),
        ({"pitch": 4096.0}, "pitch is a whole number, not 4096.0"),
        ({"pitch": False}, "pitch is a whole number, not False"),
        ({"alignment": True}, "alignment is a whole number, not True"),
        ({"alignment": 16.0}, "alignment is a whole number, not 16.0"),
    ],
)
@pytest.mark.parametrize("answerer", [Auto.rule_only(), auto(IDLE)])
def test_a_senseless_question_is_refused(answerer, wrong, words):
    for known in ({}, {"host_runs": 1, "alignment": 16, "pitch": 4096}):  # nor does what was answered let it pass
        answerer.decide(1024, 4 * MIB, **known)
    for ones in ((1, 4 * MIB), (1, 1)):
        answerer.decide(*ones)
    with pytest.raises(UsageError) as caught:
        answerer.decide(**({"merged_ranges": 1024, "total_bytes": 4 * MIB} | wrong))
    assert words in caught.value.message


def test_counts_of_other_libraries_are_whole_numbers_too():
    answerer = auto(IDLE)
    by_numpy = answerer.decide(np.int64(1024), np.uint32(4 * MIB), "h2d", host_runs=np.int8(64), pitch=np.int32(4096))
    assert by_numpy == answerer.decide(1024, 4 * MIB, "h2d", host_runs=64, pitch=4096)


def test_the_rule_knows_no_times():
    decision = Auto.rule_only().decide(16384, 64 * MIB, "h2d")
    answer = decision.to_json()
    assert answer["predicted"] == {"time_s": None, "stall_s": None, "completion_p99_s": None}
    assert (answer["tier"], answer["profile"], answer["evidence"]) == ("rule", None, "none")
    assert answer["plan"]["backend"] == "kernel"
    assert "kernel/warp grid=2 threads=1024" in answer["why"]


def test_auto_is_immutable():
    with pytest.raises(FrozenInstanceError):
        Auto.rule_only().tier = Tier.BOARD


def test_a_simulated_profile_is_marked():
    assert auto(IDLE, device=facts("sim:h200")).decide(1024, 4 * MIB, "h2d").simulated
    assert not decide([IDLE]).simulated


def test_a_profile_of_tomorrow_has_no_negative_age():
    early = Auto(profile(IDLE), Tier.BOARD, clock=lambda: 0.0)
    assert early.decide(1024, 4 * MIB, "h2d").age_s == 0.0


def test_a_profile_at_hand_answers():
    decision = Auto.from_profile(profile(IDLE), Tier.CLASS).decide(1024, 4 * MIB, "h2d")
    assert (decision.tier, decision.profile) == (Tier.CLASS, "abc123")


@pytest.mark.parametrize("as_url", [False, True])
def test_the_profile_of_a_device_is_looked_up(tmp_path, as_url):
    path = create(tmp_path / "p.db", Row("a"))
    answerer = Auto.for_device(facts("GPU-2"), f"sqlite:///{path}" if as_url else path)
    decision = answerer.decide(1024, 4 * MIB, "h2d")
    assert (decision.tier, decision.profile) == (Tier.CLASS, "a")


def test_the_database_of_the_environment_is_the_default(tmp_path, monkeypatch):
    monkeypatch.setenv("PEGA_TUNE_DB", str(create(tmp_path / "p.db", Row("a"))))
    assert Auto.for_device(facts()).tier is Tier.BOARD


def test_a_device_without_a_profile_gets_the_rule_and_is_told(tmp_path):
    answerer = Auto.for_device(facts(), tmp_path / "absent.db", packaged=tmp_path)
    assert answerer.tier is Tier.RULE
    (warning,) = answerer.decide(1024, 4 * MIB).warnings
    assert "no profile fits GPU-1" in warning
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("wrong", ["absent", "a-file", "\0"])
@pytest.mark.parametrize("kind", [str, Path])
def test_a_folder_of_bundles_that_is_none_is_refused(tmp_path, wrong, kind):
    (tmp_path / "a-file").touch()
    folder = kind(f"{tmp_path}/{wrong}")
    with pytest.raises(QuestionError, match="no folder of bundled profiles") as caught:
        Auto.for_device(facts(), tmp_path / "absent.db", packaged=folder)
    assert caught.value.hint
    with pytest.raises(QuestionError, match="no folder of bundled profiles"):
        LiveAuto(facts(), tmp_path / "absent.db", around=Surroundings(packaged=folder))


def test_a_folder_of_bundles_is_a_path(tmp_path):
    with pytest.raises(QuestionError, match="a folder is told by a path, not by 5"):
        Auto.for_device(facts(), tmp_path / "absent.db", packaged=5)
    assert Auto.for_device(facts(), tmp_path / "absent.db", packaged=str(tmp_path)).tier is Tier.RULE


@pytest.mark.parametrize(
    ("row", "words"),
    [
        (Row("p", state="partial", reasons='["out of time"]'), "is partial and is not used (out of time): go on with"),
        (Row("d", state="draft", reasons='["throttled"]', sweep_id="sweep2"), "is a draft and is not used (throttled)"),
        (Row("x", state="draft", reasons="{", sweep_id="none"), "is a draft and is not used (its reasons"),
    ],
)
def test_a_profile_that_is_not_published_is_named_where_none_is(tmp_path, row, words):
    answerer = Auto.for_device(facts(), create(tmp_path / "p.db", row), packaged=tmp_path)
    (warning,) = answerer.decide(1024, 4 * MIB).warnings
    assert answerer.tier is Tier.RULE
    assert f"profile {row.profile_id} {words}" in warning
    assert ("sweep --resume sweep1 --budget" in warning) == (row.state == "partial")


@pytest.mark.parametrize("wrong", [{"facts": "sim:h200"}, {"facts": facts().to_json()}, {"facts": facts(), "db": 3}])
def test_arguments_of_a_wrong_type_are_refused_with_what_is_accepted(wrong):
    with pytest.raises(UsageError) as caught:
        Auto.for_device(**wrong)
    assert "DeviceFacts" in caught.value.message or "a path or a URL" in caught.value.message


def test_warnings_about_the_profile_are_in_every_decision(tmp_path):
    path = create(tmp_path / "p.db", Row("a", facts(driver="570.1")), Row("b", state="draft"))
    answerer = Auto.for_device(facts(), path)
    assert "driver" in answerer.decide(1024, 4 * MIB, "h2d").warnings[0]
    drafts = Auto.for_device(facts(), path, allow_drafts=True)
    assert drafts.profile is not None


def no_device():
    raise DeviceError("no GPU is there")


def test_without_a_gpu_the_rule_answers(tmp_path):
    for probe, reason in ((no_device, "no GPU is there"), (tuple, "no device is visible")):
        answerer = Auto.for_device(db=tmp_path / "p.db", probe=probe)
        assert answerer.tier is Tier.RULE
        assert reason in answerer.decide(1024, 4 * MIB).warnings[0]


def test_the_first_of_several_devices_is_taken_and_named(tmp_path):
    path = create(tmp_path / "p.db", Row("a"))
    one = Auto.for_device(db=path, probe=lambda: (facts(),))
    assert (one.tier, one.warnings) == (Tier.BOARD, ())
    two = Auto.for_device(db=path, probe=lambda: (facts(), facts("GPU-2")))
    assert two.tier is Tier.BOARD
    assert "first of 2 devices" in two.warnings[0]


def test_other_databases_are_refused_without_their_password():
    with pytest.raises(DataError) as caught:
        Auto.for_device(facts(), "postgresql://user:secret@host/db")
    assert "postgresql" in caught.value.message
    assert "secret" not in caught.value.message + caught.value.hint


def test_a_database_that_is_a_directory_is_an_error(tmp_path):
    for asked in ({"facts": facts()}, {"probe": no_device}):
        with pytest.raises(DataError, match="is a directory"):
            Auto.for_device(db=tmp_path, **asked)
