"""The reader: the right profile, from any readable database, with nothing written."""

import json
import os
import sqlite3
import subprocess
import sys
import tempfile
import zlib
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from pega_tune.errors import DataError
from pega_tune.profiles.policy.compiled import digest
from pega_tune.profiles.policy.reader import find_profile
from pega_tune.profiles.policy.terms import ProfileState, Tier
from tests.unit.profiles.policy.database import POLICY, Row, create, insert
from tests.unit.profiles.policy.examples import CREATED, facts

HERE = facts()
OTHER_BOARD = facts("GPU-2")
OTHER_HOST = facts("GPU-3", sm_count=114)
ROOT = Path(__file__).parents[4]
NOBODY = 65534


@pytest.fixture
def path(tmp_path):
    return tmp_path / "odd ?#% name.db"


def found_id(path, device=HERE, **options):
    profile = find_profile(path, device, **options).profile
    return profile and profile.profile_id


@pytest.mark.parametrize("journal", ["wal", "delete"])
def test_a_profile_is_read_whole(path, journal):
    create(path, Row("a"), journal=journal)
    found = find_profile(path, HERE)
    assert (found.tier, found.warnings) == (Tier.BOARD, ())
    profile = found.profile
    assert (profile.profile_id, profile.state, profile.kernel_digest) == ("a", ProfileState.PUBLISHED, "kernels")
    assert (profile.device, profile.created_at, profile.policy) == (HERE, CREATED, POLICY)


def test_the_closest_tier_wins_over_the_newest(path):
    later = CREATED + timedelta(days=1)
    create(path, Row("family", OTHER_HOST, created_at=later))
    assert found_id(path) == "family"
    insert(path, Row("class", OTHER_BOARD))
    assert found_id(path) == "class"
    insert(path, Row("board", created_at=CREATED - timedelta(days=1)))
    assert find_profile(path, HERE).tier is Tier.BOARD
    assert found_id(path) == "board"


def test_within_a_tier_the_newest_wins(path):
    create(path, Row("b"), Row("c", created_at=CREATED + timedelta(seconds=1)), Row("a"))
    assert found_id(path) == "c"


def test_a_time_without_zone_is_utc(path):
    create(path, Row("a", created_at="2026-11-30 12:00:00.000000"))
    assert find_profile(path, HERE).profile.created_at == CREATED


def test_a_family_match_is_flagged(path):
    create(path, Row("a", OTHER_HOST))
    found = find_profile(path, HERE)
    assert found.tier is Tier.FAMILY
    assert "same silicon" in found.warnings[0]


def test_drafts_are_ignored_unless_asked_for(path):
    create(path, Row("old"), Row("new", state="draft", created_at=CREATED + timedelta(days=1)))
    assert found_id(path) == "old"
    found = find_profile(path, HERE, allow_drafts=True)
    assert found.profile.profile_id == "new"
    assert found.warnings == ("the profile is a draft, not published",)


def test_simulated_profiles_answer_for_simulated_devices_alone(path):
    simulated = facts("sim:h200")
    create(path, Row("sim", simulated))
    assert found_id(path, HERE) is None
    assert found_id(path, simulated) == "sim"
    assert found_id(path, facts("sim:rtx5090")) is None
    insert(path, Row("real"))
    assert found_id(path, HERE) == "real"
    assert found_id(path, simulated) == "sim"


def test_a_simulated_profile_that_poses_as_real_is_not_used(path):
    create(path, Row("sim", facts("sim:h200")))
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE profile SET simulated = 0, board_uuid = ?, class_id = ?", (HERE.uuid, HERE.class_id))
    assert found_id(path) is None


def test_a_damaged_profile_is_skipped_for_the_next_tier(path):
    create(path, Row("class", OTHER_BOARD), Row("board", digest="0" * 64))
    found = find_profile(path, HERE)
    assert (found.profile.profile_id, found.tier) == ("class", Tier.CLASS)
    assert found.warnings == ("profile board was skipped: its tables are damaged: the digest differs",)


@pytest.mark.parametrize("blob", ["text", None, b"", zlib.compress(b'{"format":2}')])
def test_what_cannot_be_decoded_is_skipped(path, blob):
    create(path, Row("a", digest=digest(blob) if isinstance(blob, bytes) else None))
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE profile SET compiled = ?", (blob,))
    found = find_profile(path, HERE)
    assert found.profile is None
    assert "profile a was skipped" in found.warnings[0]


@pytest.mark.parametrize(
    "broken", [{"facts_json": "{"}, {"facts_json": "[]"}, {"facts_json": "{}"}, {"created_at": "yesterday"}]
)
def test_a_malformed_row_is_skipped(path, broken):
    create(path, replace(Row("bad"), **broken), Row("good", OTHER_BOARD))
    found = find_profile(path, HERE)
    assert found.profile.profile_id == "good"
    assert "profile bad was skipped" in found.warnings[0]


def test_a_missing_database_has_no_profile(path):
    found = find_profile(path, HERE)
    assert (found.profile, found.tier) == (None, Tier.RULE)
    assert not path.exists()
    assert find_profile(path.parent / "absent" / "p.db", HERE).profile is None


@pytest.mark.parametrize("content", [b"", None])
def test_an_empty_database_has_no_profile(path, content):
    if content is None:
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("VACUUM")
    else:
        path.write_bytes(content)
    assert find_profile(path, HERE).profile is None


def test_nothing_is_written(path):
    create(path, Row("a"))
    before = (sorted(path.parent.iterdir()), path.read_bytes(), path.stat().st_mtime_ns)
    assert before[0] == [path]  # no -wal is left: opened the usual way, SQLite would create it
    assert found_id(path) == "a"
    assert (sorted(path.parent.iterdir()), path.read_bytes(), path.stat().st_mtime_ns) == before


def test_what_a_live_writer_has_committed_is_seen(path):
    create(path)
    with closing(sqlite3.connect(path)) as writer:
        writer.execute("SELECT * FROM profile").fetchall()
        insert(path, Row("a"))
        assert path.with_name(path.name + "-wal").stat().st_size > 0
        assert found_id(path) == "a"
        writer.execute("BEGIN IMMEDIATE")
        writer.execute("DELETE FROM profile")
        assert found_id(path) == "a"


READ = f"""
import os, sys
sys.path.insert(0, {str(ROOT)!r})
from pathlib import Path
from pega_tune.profiles.policy.compiled import digest
from pega_tune.profiles.policy.reader import find_profile
from tests.unit.profiles.policy.examples import facts
if os.geteuid() == 0:
    os.setuid({NOBODY})  # root may write everywhere
assert not os.access(Path(sys.argv[1]).parent, os.W_OK)
print(find_profile(Path(sys.argv[1]), facts()).profile.profile_id)
"""


@pytest.mark.parametrize("journal", ["wal", "delete"])
def test_a_read_only_directory_is_enough(journal):
    with tempfile.TemporaryDirectory() as folder:
        path = create(Path(folder) / "p.db", Row("a"), journal=journal)
        path.chmod(0o444)
        os.chmod(folder, 0o555)
        try:
            done = subprocess.run([sys.executable, "-c", READ, path], capture_output=True, text=True, check=False)
        finally:
            os.chmod(folder, 0o755)
        assert (done.stdout, done.stderr) == ("a\n", "")


DENIED = f"""
import os, sys
sys.path.insert(0, {str(ROOT)!r})
from pathlib import Path
from pega_tune.profiles.policy.errors import ProfileDatabaseError
from pega_tune.profiles.policy.reader import find_profile
from tests.unit.profiles.policy.examples import facts
if os.geteuid() == 0:
    os.setuid({NOBODY})  # root may enter everywhere
try:
    find_profile(Path(sys.argv[1]), facts())
except ProfileDatabaseError as error:
    print(error.hint)
"""


def refusal(path):
    return refusal_at(path, path)


def refusal_at(path, named):
    with pytest.raises(DataError) as caught:
        find_profile(path, HERE)
    assert caught.value.hint
    assert str(named) in caught.value.message
    return caught.value


def test_a_directory_is_refused(tmp_path):
    assert "is a directory" in refusal(tmp_path).message


def test_a_special_file_is_refused_and_not_waited_for(path):
    os.mkfifo(path)
    assert "is a special file" in refusal(path).message


def test_a_file_below_a_file_cannot_be_read(path):
    path.write_bytes(b"")
    assert "cannot be read" in refusal(path / "p.db").message


@pytest.mark.parametrize("content", [b"x" * 4096, b"SQLite", b'{"json": true}'])
def test_what_is_not_sqlite_is_refused(path, content):
    path.write_bytes(content)
    assert "is not an SQLite database" in refusal(path).message


def test_a_database_of_someone_else_is_refused(path):
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE other (x)")
    assert "is not a pega-tune database" in refusal(path).message


def test_a_damaged_database_is_refused(path):
    create(path, Row("a"), journal="delete")
    content = bytearray(path.read_bytes())
    content[100:4096] = bytes(4096 - 100)  # the root page of the schema
    path.write_bytes(content)
    error = refusal(path)
    assert "the database is damaged" in error.message
    assert "pega-tune db check" in error.hint


def test_many_broken_rows_of_a_broken_database_are_one_error(path):
    wide = {"facts_json": json.dumps(HERE.to_json()) + " " * 20_000}
    create(path, *(replace(Row(f"p{number}"), **wide) for number in range(9)), journal="delete")
    content = bytearray(path.read_bytes())
    for page in range(4096 * 4, len(content), 4096):
        content[page : page + 4] = bytes(4)  # where the rest of a row is
    path.write_bytes(content)
    error = refusal(path)
    assert "the database is damaged" in error.message
    assert "\n" not in error.message


def test_a_broken_row_of_a_database_that_is_broken_elsewhere_is_an_error(path):
    create(path, Row("bad", facts_json="{"), Row("good", OTHER_BOARD), journal="delete")
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE elsewhere (content BLOB)")
        connection.execute("INSERT INTO elsewhere VALUES (zeroblob(20000))")
    assert found_id(path) == "good"
    content = bytearray(path.read_bytes())
    content[-4096 * 4 :] = b"\xab" * 4096 * 4
    path.write_bytes(content)
    assert "the database is damaged" in refusal(path).message


def test_many_broken_rows_of_a_sound_database_are_one_warning(path):
    create(path, *(Row(f"p{number}", facts_json="{") for number in range(9)))
    (warning,) = find_profile(path, HERE).warnings
    assert warning.startswith("9 profiles were skipped")
    assert "profile p0" in warning


def test_text_that_is_no_utf8_spoils_its_row_alone(path):
    create(path, Row("bad"), Row("good", OTHER_BOARD))
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE profile SET facts = CAST(x'ff7b' AS TEXT) WHERE profile_id = 'bad'")
    found = find_profile(path, HERE)
    assert found.profile.profile_id == "good"
    assert len(found.warnings) == 1


def test_a_dangling_link_is_an_error(path):
    path.symlink_to("nowhere.db")
    assert "is a link to nothing" in refusal(path).message
    folder = path.with_name("folder")
    folder.symlink_to("nowhere")
    assert "is a link to nothing" in refusal_at(folder / "p.db", folder).message


def test_a_loop_of_links_is_an_error(path):
    path.symlink_to(path.name)
    error = refusal(path)
    assert "cannot be read" in error.message
    assert "permissions" not in error.hint


def test_a_directory_on_the_way_that_may_not_be_entered_is_about_permissions(tmp_path):
    folder = tmp_path / "closed"
    folder.mkdir()
    folder.chmod(0)
    done = subprocess.run([sys.executable, "-c", DENIED, folder / "p.db"], capture_output=True, text=True, check=False)
    folder.chmod(0o755)
    assert done.stdout == "check its permissions\n", done.stderr


@pytest.mark.parametrize(("revision", "advice"), [("0002", "newer"), ("0000", "pega-tune db upgrade")])
def test_another_schema_is_refused_with_what_to_do(path, revision, advice):
    create(path, Row("a"), revision=revision)
    error = refusal(path)
    assert revision in error.message
    assert advice in error.hint


def test_a_locked_database_is_reported(path):
    create(path, journal="delete")
    with closing(sqlite3.connect(path)) as writer:
        writer.execute("BEGIN EXCLUSIVE")
        with pytest.raises(DataError, match="locked"):
            find_profile(path, HERE, busy_timeout_s=0.01)


def test_a_profile_of_the_future_comes_after_all_of_its_tier(path):
    later = datetime.now(UTC) + timedelta(days=400)
    create(path, Row("future", created_at=later), Row("class", OTHER_BOARD))
    found = find_profile(path, HERE)
    assert found.profile.profile_id == "future"
    assert found.warnings == (f"it is dated {later.date()}, which is in the future",)
    insert(path, Row("sound", created_at=CREATED - timedelta(days=400)))
    found = find_profile(path, HERE)
    assert (found.profile.profile_id, found.warnings) == ("sound", ())


def test_a_clock_that_is_hours_ahead_is_no_future(path):
    soon = datetime.now(UTC) + timedelta(hours=12)
    create(path, Row("old"), Row("soon", created_at=soon))
    found = find_profile(path, HERE)
    assert (found.profile.profile_id, found.warnings) == ("soon", ())


@pytest.mark.parametrize("allow_drafts", [False, True])
def test_a_retired_profile_answers_nobody(path, allow_drafts):
    later = CREATED + timedelta(hours=1)
    create(path, Row("a"), Row("b", state="retired", created_at=later, reasons='["retired: too hot"]'))
    assert found_id(path, allow_drafts=allow_drafts) == "a"
    assert found_id(path, OTHER_BOARD, allow_drafts=allow_drafts) == "a"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("DELETE FROM profile WHERE profile_id = 'a'")
    found = find_profile(path, HERE, allow_drafts=allow_drafts)
    assert found.profile is None
    again = f"run pega-tune sweep --device {HERE.uuid} again"
    assert found.unused == f"profile b is retired and is not used (retired: too hot): {again}"
    # Whoever asks is to measure the device that is here, not the one that was measured.
    other = find_profile(path, OTHER_BOARD, allow_drafts=allow_drafts)
    assert other.unused.endswith(f"run pega-tune sweep --device {OTHER_BOARD.uuid} again")


def test_what_cannot_be_verified_here_is_to_be_measured(path):
    create(path, Row("a"))
    newer = replace(HERE, staleness=replace(HERE.staleness, driver="999.1"))
    (elsewhere,) = find_profile(path, newer).warnings
    advice = f"run pega-tune sweep --device {HERE.uuid}, as its measurements are not here to compare with"
    assert elsewhere.endswith(advice)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("INSERT INTO block (sweep_id) VALUES ('sweep1')")
    (here,) = find_profile(path, newer).warnings
    assert here.endswith(f"run pega-tune verify --device {HERE.uuid}")
