"""`LiveAuto`: follows a real database, and never loses what it has."""

import os
import queue
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from pega_tune import LiveAuto
from pega_tune.errors import DataError, DeviceError, UsageError
from pega_tune.profiles.policy.auto import Auto
from pega_tune.profiles.policy.checks import DRIFTED, HOLDS, Check
from pega_tune.profiles.policy.live import Surroundings
from pega_tune.profiles.policy.table import CompiledPolicy
from pega_tune.profiles.policy.terms import Tier
from tests.unit.profiles.policy.database import Row, create, insert
from tests.unit.profiles.policy.examples import DIRECT, NARROW, facts, one_way, option

EARLY, LATE = (datetime(2026, 11, day, tzinfo=UTC) for day in (1, 2))
LIMIT_S = 60.0
DIRECT_POLICY = CompiledPolicy((one_way(option(DIRECT, 1e-3)),))


class Pulse:
    """An alarm that rings when the test says so."""

    def __init__(self) -> None:
        self._rings: queue.SimpleQueue[bool] = queue.SimpleQueue()
        self._sleeping: queue.SimpleQueue[float] = queue.SimpleQueue()

    def wait(self, timeout: float) -> bool:
        self._sleeping.put(timeout)
        return self._rings.get(timeout=LIMIT_S)

    def set(self) -> None:
        self._rings.put(True)

    def next_sleep_s(self) -> float:
        """Waits for the thread to sleep; for how long it means to."""
        return self._sleeping.get(timeout=LIMIT_S)

    def ring(self) -> None:
        """Ends the sleep as if the time was over."""
        self._rings.put(False)


def live(path: Path, tmp_path: Path, **options: object) -> LiveAuto:
    """One that looks only when it is told to."""
    around = Surroundings(packaged=tmp_path)
    return LiveAuto(facts(), path, interval_s=threading.TIMEOUT_MAX, around=around, **options)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return create(tmp_path / "p.db", Row("old", created_at=EARLY))


def plan_of(answerer: LiveAuto | Auto):
    return answerer.decide(64, 64 << 12, "h2d").plan


def test_it_answers_as_auto_does(path, tmp_path):
    with live(path, tmp_path) as answerer:
        one = Auto.for_device(facts(), path, packaged=tmp_path)
        asked = (64, 64 << 12, "h2d")
        assert answerer.decide(*asked, objective="strict") == one.decide(*asked, objective="strict")
        assert answerer.explain(*asked, colocation="idle") == one.explain(*asked, colocation="idle")
        many = ([1, 64], [4096, 64 << 12], "h2d")
        assert [each.plan for each in answerer.decide_many(*many)] == [each.plan for each in one.decide_many(*many)]
        assert (answerer.state.profile, answerer.state.tier, answerer.state.trouble) == ("old", Tier.BOARD, "")
        assert answerer.warnings == one.warnings == ()


def test_a_newer_profile_replaces_the_old_one_as_a_whole(path, tmp_path):
    with live(path, tmp_path) as answerer:
        before = answerer.auto
        insert(path, Row("new", created_at=LATE, policy=DIRECT_POLICY))
        answerer.check()
        assert (plan_of(before), plan_of(answerer)) == (NARROW, DIRECT)
        assert before.profile.profile_id == "old"
        assert answerer.state.profile == "new"


def test_a_profile_that_is_older_or_fits_less_changes_nothing(path, tmp_path):
    with live(path, tmp_path) as answerer:
        before = answerer.auto
        insert(path, Row("older", created_at=datetime(2026, 10, 1, tzinfo=UTC)), Row("kin", facts("GPU-2")))
        insert(path, Row("draft", created_at=LATE, state="draft"))
        answerer.check()
        assert answerer.auto is before


def judge(path: Path, profile_id: str, verdict: str) -> None:
    """Stores what `pega-tune verify` found on the device."""
    row = (profile_id, "canary", verdict, Check(facts().uuid, facts().staleness, verdict).to_json())
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("INSERT INTO evidence (profile_id, kind, verdict, detail) VALUES (?, ?, ?, ?)", row)


def test_a_new_verdict_on_the_profile_at_hand_is_taken(path, tmp_path):
    with live(path, tmp_path) as answerer:
        answerer.check()
        before = answerer.auto
        judge(path, "old", DRIFTED)
        answerer.check()
        assert "it has drifted" in answerer.warnings[0]
        assert answerer.warnings == Auto.for_device(facts(), path, packaged=tmp_path).warnings
        assert (before.warnings, answerer.state.profile) == ((), "old")
        judge(path, "old", HOLDS)
        answerer.check()
        assert answerer.warnings == ()


def test_a_verdict_on_a_profile_that_does_not_answer_changes_nothing(path, tmp_path):
    insert(path, Row("older", created_at=datetime(2026, 10, 1, tzinfo=UTC)))
    with live(path, tmp_path) as answerer:
        before = answerer.auto
        judge(path, "older", DRIFTED)
        answerer.check()
        assert answerer.auto is before


def test_a_retired_profile_gives_way_to_the_next(path, tmp_path):
    insert(path, Row("new", created_at=LATE))
    with live(path, tmp_path) as answerer, closing(sqlite3.connect(path)) as writer:
        with writer:
            writer.execute("UPDATE profile SET state = 'retired' WHERE profile_id = 'new'")
        answerer.check()
        assert answerer.state.profile == "old"


def test_drafts_count_where_they_are_allowed(path, tmp_path):
    with live(path, tmp_path, allow_drafts=True) as answerer:
        insert(path, Row("draft", created_at=LATE, state="draft"))
        answerer.check()
        assert answerer.state.profile == "draft"
        assert "draft" in answerer.warnings[0]


def test_a_profile_is_found_in_a_database_that_appears_later(tmp_path):
    path = tmp_path / "later.db"
    with live(path, tmp_path) as answerer:
        answerer.check()
        assert (answerer.state.tier, answerer.state.trouble) == (Tier.RULE, "")
        create(path, Row("first"))
        answerer.check()
        assert (answerer.state.tier, answerer.warnings) == (Tier.BOARD, ())


def test_what_a_writer_with_an_open_log_commits_is_seen(path, tmp_path):
    with live(path, tmp_path) as answerer, closing(sqlite3.connect(path)) as writer:
        answerer.check()
        with writer:
            writer.execute("UPDATE profile SET profile_id = 'renamed'")
        answerer.check()
        assert answerer.state.profile == "renamed"


def test_a_database_that_does_not_change_is_not_opened(path, tmp_path):
    with live(path, tmp_path) as answerer:
        for _ in range(2):
            answerer.check()
        opened = []
        sys.addaudithook(lambda event, arguments: opened.append(arguments) if event == "sqlite3.connect" else None)
        answerer.check()
        assert opened == []
        insert(path, Row("new", created_at=LATE))
        before = len(opened)
        answerer.check()
        assert len(opened) > before
        assert answerer.state.profile == "new"


def lose(path: Path) -> None:
    path.unlink()


def damage(path: Path) -> None:
    path.write_bytes(b"no database" * 100)


def replace_by_an_empty_one(path: Path) -> None:
    path.unlink()
    create(path)


def replace_by_one_of_others(path: Path) -> None:
    path.unlink()
    create(path, Row("other", facts("GPU-9", pci="10de:1")))


def replace_by_a_newer_schema(path: Path) -> None:
    path.unlink()
    create(path, Row("other"), revision="9999")


def withdraw(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE profile SET state = 'draft', reasons = '[\"drifted\"]'")


def damage_all_profiles(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE profile SET profile_id = 'other', digest = 'wrong'")


@pytest.mark.parametrize(
    ("happens", "words"),
    [
        (lose, "is gone"),
        (damage, "is not an SQLite database"),
        (replace_by_an_empty_one, "no profile fits"),
        (replace_by_one_of_others, "no profile fits"),
        (replace_by_a_newer_schema, "has schema 9999"),
        (withdraw, "is a draft and is not used (drifted)"),
        (damage_all_profiles, "was skipped"),
    ],
)
def test_the_last_good_profile_goes_on_answering_and_that_is_told(path, tmp_path, happens, words):
    with live(path, tmp_path) as answerer:
        happens(path)
        for _ in range(3):  # it stays so
            answerer.check()
            assert words in answerer.state.trouble
            assert answerer.state.profile == "old"
            decision = answerer.decide(64, 64 << 12, "h2d", colocation="idle")
            assert (decision.plan, decision.profile) == (NARROW, "old")
            assert decision.warnings == (answerer.state.trouble,)
        path.unlink(missing_ok=True)
        create(path, Row("back", policy=DIRECT_POLICY))
        answerer.check()
        assert (answerer.state.trouble, answerer.warnings, plan_of(answerer)) == ("", (), DIRECT)


def test_the_same_profile_back_ends_the_trouble(path, tmp_path):
    with live(path, tmp_path) as answerer:
        aside = path.rename(tmp_path / "aside.db")
        answerer.check()
        assert answerer.state.trouble
        aside.rename(path)
        answerer.check()
        assert (answerer.state.trouble, answerer.warnings, answerer.state.profile) == ("", (), "old")


def test_a_locked_database_is_waited_for_by_nobody_and_read_when_it_is_free(tmp_path):
    path = create(tmp_path / "p.db", Row("old", created_at=EARLY), journal="delete")
    with live(path, tmp_path) as answerer:
        for _ in range(2):
            answerer.check()
        insert(path, Row("new", created_at=LATE))
        with closing(sqlite3.connect(path, isolation_level=None)) as writer:
            writer.execute("BEGIN EXCLUSIVE")
            answerer.check()
            assert "locked" in answerer.state.trouble
            assert answerer.state.profile == "old"
            writer.execute("ROLLBACK")
        answerer.check()
        assert (answerer.state.profile, answerer.state.trouble) == ("new", "")


def test_a_damaged_newest_profile_leaves_the_one_before_and_is_named(path, tmp_path):
    with live(path, tmp_path) as answerer:
        insert(path, Row("bad", created_at=LATE, digest="wrong"))
        answerer.check()
        assert answerer.state.profile == "old"
        assert "profile bad was skipped" in answerer.warnings[0]


def test_the_thread_looks_after_every_interval_and_ends(path, tmp_path):
    pulse = Pulse()
    around = Surroundings(packaged=tmp_path, alarm=lambda: pulse)
    answerer = LiveAuto(facts(), path, interval_s=7.5, around=around)
    assert pulse.next_sleep_s() == 7.5
    assert answerer.state.watching
    insert(path, Row("new", created_at=LATE, policy=DIRECT_POLICY))
    pulse.ring()
    pulse.next_sleep_s()  # the look is over
    assert plan_of(answerer) == DIRECT
    answerer.close()
    assert not answerer.state.watching
    assert plan_of(answerer) == DIRECT
    answerer.close()


def test_one_that_nobody_uses_is_let_go(path, tmp_path):
    pulse, others = Pulse(), set(threading.enumerate())
    answerer = LiveAuto(facts(), path, around=Surroundings(packaged=tmp_path, alarm=lambda: pulse))
    (thread,) = set(threading.enumerate()) - others
    pulse.next_sleep_s()
    del answerer
    pulse.ring()
    thread.join(LIMIT_S)
    assert not thread.is_alive()


def test_all_decisions_come_from_one_of_the_profiles_while_they_change(path, tmp_path):
    plans = {"old": NARROW}
    with live(path, tmp_path) as answerer:
        seen, failed, done = set(), [], threading.Event()

        def ask() -> None:
            while not done.is_set():
                decision = answerer.decide(64, 64 << 12, "h2d")
                seen.add(decision.profile)
                if decision.plan != plans[decision.profile]:
                    failed.append(decision)

        thread = threading.Thread(target=ask)
        thread.start()
        for index in range(20):
            name = f"p{index:02}"
            plans[name] = DIRECT if index % 2 else NARROW
            policy = DIRECT_POLICY if index % 2 else CompiledPolicy((one_way(),))
            insert(path, Row(name, created_at=datetime(2026, 12, 1, index, tzinfo=UTC), policy=policy))
            answerer.check()
        done.set()
        thread.join(LIMIT_S)
        assert failed == []
        assert seen <= set(plans)
        assert answerer.state.profile == "p19"


def test_a_forked_child_answers_and_follows_nothing(path, tmp_path):
    program = f"""
import os, sys
sys.path.insert(0, {str(Path(__file__).parents[4])!r})
from pathlib import Path
from pega_tune import LiveAuto
from tests.unit.profiles.policy.examples import facts
live = LiveAuto(facts(), {str(path)!r}, interval_s=0.001)
child = os.fork()
if child == 0:
    live.close()
    live.check()
    answer = live.decide(64, 64 << 12, "h2d").profile
    os._exit(0 if answer == "old" and not live.state.watching else 1)
_, status = os.waitpid(child, 0)
assert live.state.watching
live.close()
sys.exit(os.waitstatus_to_exitcode(status))
"""
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", program], timeout=LIMIT_S, check=False
    )
    assert done.returncode == 0


def no_device():
    raise DeviceError("no GPU is there")


@pytest.mark.parametrize("probe", [no_device, tuple])
def test_without_a_device_the_rule_answers_and_nothing_is_followed(path, probe):
    with LiveAuto(db=path, around=Surroundings(probe=probe)) as answerer:
        answerer.check()
        assert (answerer.state.tier, answerer.state.watching) == (Tier.RULE, False)
        assert answerer.warnings[0].startswith("the rule answers")


def test_the_first_of_several_devices_is_followed_and_named(path, tmp_path):
    around = Surroundings(probe=lambda: (facts(), facts("GPU-2")), packaged=tmp_path)
    with LiveAuto(db=path, around=around) as answerer:
        insert(path, Row("new", created_at=LATE))
        answerer.check()
        assert answerer.state.profile == "new"
        assert "the first of 2 devices" in answerer.warnings[0]


def test_a_relative_path_is_that_of_the_start(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with live(Path(path.name), tmp_path) as answerer:
        os.chdir("/")
        answerer.check()
        assert answerer.state.trouble == ""


@pytest.mark.parametrize("interval_s", [0, -1.0, float("nan"), float("inf")])
def test_a_senseless_interval_is_refused(path, interval_s):
    with pytest.raises(UsageError):
        LiveAuto(facts(), path, interval_s=interval_s)


def test_what_cannot_be_a_database_is_refused_at_once(tmp_path):
    with pytest.raises(DataError):
        LiveAuto(facts(), tmp_path)
    with pytest.raises(UsageError):
        LiveAuto("sim:h200", tmp_path / "p.db")
