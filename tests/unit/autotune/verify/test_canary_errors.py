"""How often the canary errs on a recorded H200: few runs here, more with `python -m tests.bench.canary errors`."""

from collections import Counter
from itertools import permutations
from pathlib import Path
from random import Random

import pytest

from pega_tune.autotune.verify.changes import State
from pega_tune.autotune.verify.verification import Verdict
from tests.helpers.canary_world import SWEEPS, Case, canary, chosen_kinds, pairs, replayed

RUNS = 20
STANDARD = [path for path in SWEEPS if path.name.startswith("standard")]


def _verdicts(case: Case, seed: int) -> Counter[Verdict]:
    random = Random(seed)
    return Counter(canary(random, case).verdict for _ in range(RUNS))


def test_processes_that_differ_as_recorded_ones_do_are_no_drift() -> None:
    found = _verdicts(Case(), 1)
    assert found[Verdict.DRIFTED] == 0
    assert found[Verdict.HOLDS] >= RUNS - 1


def test_a_little_more_spread_is_no_drift_either() -> None:
    found = _verdicts(Case(spare=0.02), 2)
    assert found[Verdict.DRIFTED] <= 1
    assert found[Verdict.HOLDS] >= RUNS - 3


@pytest.mark.parametrize("kind", ["kernel/warp", "direct", "staged/warp"])
def test_a_kind_of_plan_that_has_changed_is_found_through_it(kind: str) -> None:
    assert kind in chosen_kinds()
    found = _verdicts(Case(scaled=kind), 3)
    assert found[Verdict.DRIFTED] >= RUNS - 1
    assert found[Verdict.HOLDS] == 0


def test_a_profile_of_one_process_is_judged_as_well() -> None:
    found = _verdicts(Case(stored=1), 4)
    assert found[Verdict.DRIFTED] == 0
    assert found[Verdict.HOLDS] >= RUNS - 2


def test_a_fresh_process_settles_what_the_first_one_leaves_open() -> None:
    short = _verdicts(Case(spare=0.04, budget_s=8.0), 5)
    long = _verdicts(Case(spare=0.04, budget_s=25.0), 5)
    assert long[Verdict.HOLDS] > short[Verdict.HOLDS]


@pytest.mark.parametrize(("stored", "now"), list(permutations(STANDARD, 2)))
def test_two_boards_of_a_class_agree(stored: Path, now: Path) -> None:
    comparison = replayed(stored, now)
    assert set(comparison.states().values()) == {State.HOLDS}
    assert len(comparison.states()) >= 8


def test_the_recordings_have_processes_to_draw_from() -> None:
    assert [len(pair) > 10 for pair in pairs()] == [True] * 3
