"""Finds the profile for a device in an SQLite database, with the standard library alone, and writes nothing at all."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from stat import S_ISDIR, S_ISREG
from typing import TypeVar

from pega_tune.kernels.facts import DeviceFacts
from pega_tune.profiles.policy.admissible import usable_policy
from pega_tune.profiles.policy.candidates import Candidate, find_candidates, why_unused
from pega_tune.profiles.policy.errors import PolicyFormatError, ProfileDatabaseError
from pega_tune.profiles.policy.schema import SCHEMA_REVISION
from pega_tune.profiles.policy.stored import Found, Standing, StoredProfile
from pega_tune.profiles.policy.terms import ProfileState, Tier

BUSY_TIMEOUT_S = 5.0
NOTHING = Found(None, Tier.RULE)
MALFORMED = "database disk image is malformed"  # SQLite's words
_TRY_AGAIN = "try again when whoever writes to it has finished"

T = TypeVar("T")

_BLOB = "SELECT compiled, digest, kernel_digest FROM profile WHERE profile_id = ?"


def find_profile(
    path: Path, device: DeviceFacts, *, allow_drafts: bool = False, busy_timeout_s: float = BUSY_TIMEOUT_S
) -> Found:
    """The best profile for a device: by tier, and within a tier the newest. A missing database has none.

    A damaged profile is skipped, and a warning names it; one from the future comes after all others of its tier.

    Args:
        path: the database file.
        device: facts of the device to run on.
        allow_drafts: use profiles that are not published, too.
        busy_timeout_s: how long to wait for a writer, in seconds; only databases without WAL have readers wait.

    Raises:
        ProfileDatabaseError: a directory, not an SQLite database, not ours, of another schema, or unreadable.
    """
    return _read(path, lambda connection: _find(path, connection, device, allow_drafts), busy_timeout_s) or NOTHING


def best_standing(
    path: Path, device: DeviceFacts, *, allow_drafts: bool = False, busy_timeout_s: float = BUSY_TIMEOUT_S
) -> Standing | None:
    """Of the profile that `find_profile` tries first; reads no tables. None if none fits; else as `find_profile`."""

    def first(connection: sqlite3.Connection) -> Standing | None:
        if not _is_current(path, connection):
            return None
        candidates = find_candidates(connection, device, [])
        return next((c.standing for c in candidates if c.usable(allow_drafts=allow_drafts)), None)

    return _read(path, first, busy_timeout_s)


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
        if link := next((p for p in (path, *path.parents) if p.is_symlink() and not p.exists()), None):
            raise ProfileDatabaseError(f"{link} is a link to nothing", "mend the link, or name another file") from None
        return None
    except OSError as error:
        raise _unreadable(path, error) from None
    return _Stamp(uses_wal and not has_wal, status.st_mtime_ns, status.st_size)


def _find(path: Path, connection: sqlite3.Connection, device: DeviceFacts, allow_drafts: bool) -> Found:
    warnings: list[str] = []
    if not _is_current(path, connection):
        return NOTHING
    candidates = find_candidates(connection, device, warnings)
    usable = [c for c in candidates if c.usable(allow_drafts=allow_drafts)]
    for candidate in usable:
        try:
            profile = _load(connection, candidate, device)
        except PolicyFormatError as error:
            warnings.append(f"profile {candidate.profile_id} was skipped: {error.message}")
            continue
        told = candidate.standing.warnings
        warned = (*told, *_state_warning(profile), *_summary(warnings))
        found = Found(profile, candidate.fit.tier, warned, standing=candidate.standing)
        break
    else:
        others = [c for c in candidates if c not in usable]
        found = Found(None, Tier.RULE, _summary(warnings), why_unused(connection, others[0], device) if others else "")
    if warnings:
        _require_sound(connection)
    return found


def _summary(skipped: list[str]) -> tuple[str, ...]:
    """The warnings in one line at most."""
    if len(skipped) < 2:
        return tuple(skipped)
    return (f"{len(skipped)} profiles were skipped (look at them with `pega-tune db check`); the first: {skipped[0]}",)


def _require_sound(connection: sqlite3.Connection) -> None:
    """A profile that cannot be read may be the one broken row of a sound database, or a sign of a broken database.

    Raises:
        sqlite3.DatabaseError: the latter.
    """
    findings = [row[0] for row in connection.execute("PRAGMA quick_check(1)")]
    if findings != ["ok"]:
        raise sqlite3.DatabaseError(f"{MALFORMED}: {' '.join(str(findings[0]).split())}")


@contextmanager
def _reading(path: Path, mode: str, busy_timeout_s: float = 0.0) -> Iterator[sqlite3.Connection]:
    """One read transaction; errors of SQLite leave as ours."""
    uri = f"{path.absolute().as_uri()}?{mode}"
    try:
        with closing(sqlite3.connect(uri, uri=True, timeout=busy_timeout_s, isolation_level=None)) as connection:
            connection.text_factory = _text
            connection.execute("BEGIN")
            yield connection
    except sqlite3.Error as error:
        raise _unreadable(path, error) from None


def _text(content: bytes) -> str:
    # What is no UTF-8 spoils its row, and not the whole answer.
    return content.decode("utf-8", "replace")


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


def _load(connection: sqlite3.Connection, candidate: Candidate, device: DeviceFacts) -> StoredProfile:
    blob, digested, kernel_digest = connection.execute(_BLOB, (candidate.profile_id,)).fetchone()
    return StoredProfile(
        profile_id=candidate.profile_id,
        device=candidate.device,
        state=candidate.state,
        created_at=candidate.created_at,
        kernel_digest=kernel_digest or "",
        policy=usable_policy(blob, digested, device),
    )


def _state_warning(profile: StoredProfile) -> tuple[str, ...]:
    return () if profile.state is ProfileState.PUBLISHED else (f"the profile is a {profile.state}, not published",)


def _unreadable(path: Path, error: OSError | sqlite3.Error) -> ProfileDatabaseError:
    reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
    if "file is not a database" in reason:
        return ProfileDatabaseError(f"{path} is not an SQLite database", "name another file")
    if "malformed" in reason:  # of the file, and of its schema
        return ProfileDatabaseError(
            f"the database is damaged: {path}: {reason}",
            "look at it with `pega-tune db check`; restore it from a backup",
        )
    denied = isinstance(error, PermissionError) or "unable to open" in reason or "permission" in reason.lower()
    hint = "check its permissions" if denied else _TRY_AGAIN if "locked" in reason else "name another file"
    return ProfileDatabaseError(f"{path} cannot be read: {reason}", hint)
