"""Finds the profile for a device in an SQLite database, with the standard library alone, and writes nothing at all."""

import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from stat import S_ISDIR, S_ISREG
from typing import TypeVar

from pega_tune.kernels.facts import DeviceFacts
from pega_tune.profiles.policy.compiled import decode, digest
from pega_tune.profiles.policy.errors import PolicyFormatError, ProfileDatabaseError
from pega_tune.profiles.policy.matching import TIERS, Fit, fit
from pega_tune.profiles.policy.schema import SCHEMA_REVISION
from pega_tune.profiles.policy.stored import Found, StoredProfile
from pega_tune.profiles.policy.terms import ProfileState, Tier

BUSY_TIMEOUT_S = 5.0
NOTHING = Found(None, Tier.RULE)

T = TypeVar("T")

# The blob is not among these columns: SQLite would read all of it for every candidate row.
_CANDIDATES = """
    SELECT profile_id, state, simulated, facts, created_at FROM profile
    WHERE simulated = :simulated AND (board_uuid = :uuid OR class_id = :class_id OR family_id = :family_id)
"""
_BLOB = "SELECT compiled, digest, kernel_digest FROM profile WHERE profile_id = ?"


def find_profile(
    path: Path, device: DeviceFacts, *, allow_drafts: bool = False, busy_timeout_s: float = BUSY_TIMEOUT_S
) -> Found:
    """The best profile for a device: by tier, and within a tier the newest. A missing database has none.

    A damaged profile is skipped, and a warning names it.

    Args:
        path: the database file.
        device: facts of the device to run on.
        allow_drafts: use profiles that are not published, too.
        busy_timeout_s: how long to wait for a writer, in seconds; only databases without WAL have readers wait.

    Raises:
        ProfileDatabaseError: a directory, not an SQLite database, not ours, of another schema, or unreadable.
    """
    return _read(path, lambda connection: _find(path, connection, device, allow_drafts), busy_timeout_s) or NOTHING


def check_database(path: Path) -> None:
    """Refuses what `find_profile` would refuse, where there is no device to ask it about."""
    _read(path, lambda connection: _is_current(path, connection), BUSY_TIMEOUT_S)


def _read(path: Path, ask: Callable[[sqlite3.Connection], T], busy_timeout_s: float) -> T | None:
    """Asks the database in one read transaction; None if there is none."""
    before = _stamp(path)
    if before is None:
        return None
    if before.lock_free:
        try:
            with _reading(path, "immutable=1") as connection:
                answer = ask(connection)
        except ProfileDatabaseError:
            if _stamp(path) == before:
                raise
        else:
            if _stamp(path) == before:
                return answer
        # The file changed under the read, so that a writer is there now, and its -wal and -shm with it.
    with _reading(path, "mode=ro", busy_timeout_s) as connection:
        return ask(connection)


@dataclass(frozen=True, slots=True)
class _Stamp:
    """What tells that a database file was written meanwhile, and whether it can be read without locks."""

    lock_free: bool
    modified_ns: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class _Candidate:
    profile_id: str
    state: ProfileState
    device: DeviceFacts
    created_at: datetime
    fit: Fit


def _stamp(path: Path) -> _Stamp | None:
    """The state of the file; None if there is none.

    Opening a WAL database that nobody has open makes SQLite create the files -wal and -shm, or fail where it cannot.
    Where there is no -wal, the database file is complete and is read as it lies (`immutable`).
    """
    try:
        status = path.stat()
        if not S_ISREG(status.st_mode):
            kind = "a directory" if S_ISDIR(status.st_mode) else "a special file"
            raise ProfileDatabaseError(f"{path} is {kind}, not a database", "name a file")
        with path.open("rb") as file:
            uses_wal = file.read(20)[18:] == b"\x02\x02"  # https://www.sqlite.org/fileformat.html, offsets 18 and 19
        has_wal = path.with_name(path.name + "-wal").exists()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _unreadable(path, error.strerror or str(error)) from None
    return _Stamp(uses_wal and not has_wal, status.st_mtime_ns, status.st_size)


def _find(path: Path, connection: sqlite3.Connection, device: DeviceFacts, allow_drafts: bool) -> Found:
    warnings: list[str] = []
    if not _is_current(path, connection):
        return NOTHING
    candidates = _candidates(connection, device, allow_drafts, warnings)
    # Sorting is stable: the newest first, and then by tier.
    candidates.sort(key=lambda candidate: candidate.created_at, reverse=True)
    candidates.sort(key=lambda candidate: TIERS.index(candidate.fit.tier))
    for candidate in candidates:
        try:
            profile = _load(connection, candidate)
        except PolicyFormatError as error:
            warnings.append(f"profile {candidate.profile_id} was skipped: {error.message}")
            continue
        return Found(profile, candidate.fit.tier, (*candidate.fit.warnings, *_state_warning(profile), *warnings))
    return Found(None, Tier.RULE, tuple(warnings))


@contextmanager
def _reading(path: Path, mode: str, busy_timeout_s: float = 0.0) -> Iterator[sqlite3.Connection]:
    """One read transaction; errors of SQLite leave as ours."""
    uri = f"{path.absolute().as_uri()}?{mode}"
    try:
        with closing(sqlite3.connect(uri, uri=True, timeout=busy_timeout_s, isolation_level=None)) as connection:
            connection.execute("BEGIN")
            yield connection
    except sqlite3.Error as error:
        raise _unreadable(path, str(error)) from None


def _is_current(path: Path, connection: sqlite3.Connection) -> bool:
    """Whether the schema is the one we know; False if the database is empty."""
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if not tables:
        return False
    if not {"alembic_version", "profile"} <= tables:
        raise ProfileDatabaseError(f"{path} is not a pega-tune database", "name another file")
    revisions = [str(revision) for (revision,) in connection.execute("SELECT version_num FROM alembic_version")]
    if revisions == [SCHEMA_REVISION]:
        return True
    found = ", ".join(revisions) or "none"
    older = all(revision < SCHEMA_REVISION for revision in revisions)
    hint = "run pega-tune db upgrade" if older else "it was written by a newer pega-tune: install that version"
    raise ProfileDatabaseError(f"{path} has schema {found}, this version reads {SCHEMA_REVISION}", hint)


def _candidates(
    connection: sqlite3.Connection, device: DeviceFacts, allow_drafts: bool, warnings: list[str]
) -> list[_Candidate]:
    keys = {
        "simulated": device.simulated,
        "uuid": device.uuid,
        "class_id": device.class_id,
        "family_id": device.family_id,
    }
    candidates = []
    for profile_id, state, _, facts, created_at in connection.execute(_CANDIDATES, keys):
        if state != ProfileState.PUBLISHED and not allow_drafts:
            continue
        try:
            known = DeviceFacts.from_json(json.loads(facts))
            matched = fit(known, device)
            created = datetime.fromisoformat(created_at)
            created = created if created.tzinfo else created.replace(tzinfo=UTC)
            if matched is not None:
                candidates.append(_Candidate(profile_id, ProfileState(state), known, created, matched))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            warnings.append(f"profile {profile_id} was skipped: its row is malformed ({error})")
    return candidates


def _load(connection: sqlite3.Connection, candidate: _Candidate) -> StoredProfile:
    blob, wanted, kernel_digest = connection.execute(_BLOB, (candidate.profile_id,)).fetchone()
    if not isinstance(blob, bytes) or digest(blob) != wanted:
        raise PolicyFormatError("its tables are damaged: the digest differs")
    return StoredProfile(
        profile_id=candidate.profile_id,
        device=candidate.device,
        state=candidate.state,
        created_at=candidate.created_at,
        kernel_digest=kernel_digest or "",
        policy=decode(blob),
    )


def _state_warning(profile: StoredProfile) -> tuple[str, ...]:
    return () if profile.state is ProfileState.PUBLISHED else (f"the profile is a {profile.state}, not published",)


def _unreadable(path: Path, reason: str) -> ProfileDatabaseError:
    if "file is not a database" in reason:
        return ProfileDatabaseError(f"{path} is not an SQLite database", "name another file")
    return ProfileDatabaseError(f"{path} cannot be read: {reason}", "check its permissions; restore it from a backup")
