"""Emitted files answer exactly as `Auto`, in every language."""

import random
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from functools import cache
from pathlib import Path

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from pega_tune.kernels.shape import MAX_BYTES, Direction
from pega_tune.profiles.bundle.files import read_bundle
from pega_tune.profiles.emit.languages import emit
from pega_tune.profiles.policy.sources import PACKAGED
from pega_tune.profiles.policy.stored import StoredProfile
from pega_tune.profiles.policy.table import CompiledPolicy, Table
from pega_tune.profiles.policy.terms import Colocation, Hint, Objective, Runtime
from tests.helpers.emitted import (
    REFUSED,
    Asked,
    by_auto,
    by_program,
    by_python,
    compiled,
    loaded,
    near_edges,
    profiles_in_order,
)
from tests.unit.profiles.policy.examples import policies, profile, tables

RANDOM_QUESTIONS = 10_000
ASKED_OF_EACH = 20
COMPILED = ("c", "rust")


@cache
def measured() -> StoredProfile:
    """The profile of a real device."""
    (path,) = PACKAGED.glob("*.json")
    return read_bundle(path).stored


def words(rng: random.Random, profiles: int) -> dict[str, object]:
    return {
        "profile": rng.randrange(profiles),
        "direction": rng.choice(list(Direction)),
        "objective": rng.choice(list(Objective)),
        "colocation": rng.choice([None, *Colocation]),
        "runtime": rng.choice(list(Runtime)),
        "budget": rng.choice([0.0, 0.1, rng.uniform(0, 2)]),
        "period_s": rng.choice([0.05, 10 ** rng.uniform(-5, 1)]),
        "step_s": rng.choice([None, 10 ** rng.uniform(-4, -1)]),
    }


def layout(rng: random.Random, ranges: int, total_bytes: int) -> dict[str, int | None]:
    runs = [None, None, 1, ranges, max(1, ranges // rng.choice([15, 16, 17])), ranges + 1]
    pitch = [None, None, total_bytes // ranges, total_bytes, max(1, total_bytes // ranges - 1)]
    return {"host_runs": rng.choice(runs), "alignment": rng.choice([None, 1, 16, 3]), "pitch": rng.choice(pitch)}


def random_questions(rng: random.Random, profiles: int, count: int = RANDOM_QUESTIONS) -> list[Asked]:
    """Shapes log-uniform, from those that no table knows to the largest that there are; some of them senseless."""
    asked: list[Asked] = []
    while len(asked) < count:
        question = words(rng, profiles)
        for _ in range(ASKED_OF_EACH):
            octaves = rng.choice([16, 30])
            ranges = int(2 ** rng.uniform(0, octaves))
            total_bytes = min(int(ranges * 2 ** rng.uniform(0, octaves)), MAX_BYTES + 1) - rng.randrange(2)
            known = layout(rng, ranges, total_bytes) if total_bytes >= ranges and rng.random() < 0.4 else {}
            asked.append(Asked(**question, ranges=ranges, total_bytes=total_bytes, **known))
    return asked[:count]


def edge_questions(rng: random.Random, profiles: list[StoredProfile]) -> list[Asked]:
    """Every edge -1, 0 and +1 of every table, asked in ways that change from one to the next."""
    asked = []
    for at, each in enumerate(profiles):
        shapes = near_edges(each)
        for start in range(0, len(shapes), 50):
            question = words(rng, 1) | {"profile": at}
            asked += [Asked(**question, ranges=n, total_bytes=total) for n, total in shapes[start : start + 50]]
    return asked


def edges_of_tables(profile: StoredProfile, terms: dict[str, object]) -> list[Asked]:
    """Every edge -1, 0 and +1 of every table, asked of that table, with what its hint supposes."""
    asked = []
    for table in profile.policy.tables:
        question = terms | {"direction": table.direction, "colocation": table.colocation, "runtime": table.runtime}
        asked += edges_with_hint(profile, table, table.hint, question)
    return asked


def edges_with_hint(profile: StoredProfile, table: Table, hint: Hint, question: dict[str, object]) -> Iterator[Asked]:
    alone = StoredProfile("alone", profile.device, profile.state, profile.created_at, "", CompiledPolicy((table,)))
    for n, total in near_edges(alone):
        runs = {Hint.HOST_ORDERED: 1, Hint.HOST_RUNS: max(1, n // 16)}.get(hint)
        yield Asked(**question, ranges=n, total_bytes=total, host_runs=runs, pitch=total if hint == "strided" else None)


@st.composite
def lending(draw: st.DrawFn) -> StoredProfile:
    """Measured beside decode whatever the ranges, which some answers know the cost of, and idle with some hints."""
    hints = draw(st.sets(st.sampled_from([hint for hint in Hint if hint is not Hint.NONE]), min_size=1))
    own = draw(st.sets(st.sampled_from(sorted(hints))))
    keys = [(Colocation.IDLE, Hint.NONE), (Colocation.TIME_SLICED, Hint.NONE)]
    keys += [(Colocation.IDLE, hint) for hint in hints] + [(Colocation.TIME_SLICED, hint) for hint in own]
    within = st.sampled_from([(1, MAX_BYTES), (2, 1 << 30), (512, 1 << 40)])
    names = ("measured_ranges", "measured_sizes", "measured_bytes")
    found = [
        replace(draw(tables(Direction.H2D, where, Runtime.FULL, hint)), **{name: draw(within) for name in names})
        for where, hint in keys
    ]
    return replace(profile(*found), profile_id="lending")


def lent_questions(lender: StoredProfile, seed: int) -> list[Asked]:
    """With every hint, the edges of its table without decode and those of the one that it may stand in for."""
    rng, asked = random.Random(seed), []
    for table in lender.policy.tables:
        for hint in Hint:
            question = words(rng, 1) | {"direction": "h2d", "colocation": None, "runtime": "full"}
            asked += edges_with_hint(lender, table, hint, question)
    return asked


@cache
def questions() -> tuple[list[Asked], list[str]]:
    """Those about the real profile, and what `Auto` answers."""
    rng = random.Random(6)
    asked = random_questions(rng, 1)
    for objective in Objective:
        terms = words(rng, 1) | {"objective": objective}
        at_edges = edges_of_tables(measured(), terms)
        asked += at_edges if objective == Objective.BALANCED else at_edges[:: rng.choice([5, 7])]
    return asked, by_auto([measured()], asked)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("emitted")


def test_the_questions_are_worth_asking():
    asked, answers = questions()
    assert len(asked) > RANDOM_QUESTIONS
    assert len(set(answers)) > 1000
    assert REFUSED in answers


def test_python_answers_as_auto_about_a_real_profile():
    asked, answers = questions()
    module = loaded(emit("python", [measured()]))
    assert by_python(module, asked) == answers
    assert list(module.failures()) == []


@pytest.mark.parametrize("language", COMPILED)
def test_compiled_files_answer_as_auto_about_a_real_profile(folder, language):
    asked, answers = questions()
    program = compiled(folder / language, language, [measured()])
    assert by_program(program, asked) == answers


@st.composite
def several(draw: st.DrawFn) -> list[StoredProfile]:
    """Up to four profiles of one device, the newest first."""
    found = [profile() for _ in range(draw(st.integers(1, 4)))]
    return profiles_in_order(
        StoredProfile(f"p{at}", each.device, each.state, each.created_at - timedelta(hours=at), "", draw(policies()))
        for at, each in enumerate(found)
    )


def hand_made(profiles: list[StoredProfile], seed: int) -> list[Asked]:
    rng = random.Random(seed)
    asked = edge_questions(rng, profiles) + random_questions(rng, len(profiles), 400)
    for at, each in enumerate(profiles):
        asked += edges_of_tables(each, words(rng, 1) | {"profile": at})
    return asked


@given(lending(), st.integers(0, 1 << 30))
@settings(max_examples=10)
def test_python_answers_as_auto_where_idle_tables_are_lent(lender, seed):
    asked = lent_questions(lender, seed)
    module = loaded(emit("python", [lender]))
    assert by_python(module, asked) == by_auto([lender], asked)
    assert list(module.failures()) == []


@pytest.mark.parametrize("language", COMPILED)
def test_compiled_files_answer_as_auto_where_idle_tables_are_lent(folder, language):
    @given(lending(), st.integers(0, 1 << 30))
    @settings(max_examples=3, phases=[Phase.generate])
    def check(lender, seed):
        asked = lent_questions(lender, seed)
        program = compiled(folder / f"lent-{language}", language, [lender])
        assert by_program(program, asked) == by_auto([lender], asked)

    check()


@given(several(), st.integers(0, 1 << 30))
@settings(max_examples=10)
def test_python_answers_as_auto_whatever_the_profiles(profiles, seed):
    asked = hand_made(profiles, seed)
    module = loaded(emit("python", profiles))
    assert by_python(module, asked) == by_auto(profiles, asked)
    assert list(module.failures()) == []


@pytest.mark.parametrize("language", COMPILED)
def test_compiled_files_answer_as_auto_whatever_the_profiles(folder, language):
    @given(several(), st.integers(0, 1 << 30))
    @settings(max_examples=4, phases=[Phase.generate])  # shrinking would compile hundreds of files
    def check(profiles, seed):
        asked = hand_made(profiles, seed)
        program = compiled(folder / f"small-{language}", language, profiles)
        assert by_program(program, asked) == by_auto(profiles, asked)

    check()
