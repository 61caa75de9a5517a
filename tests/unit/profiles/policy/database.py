"""A database as a store would write it, by hand: the columns that the reader relies on are a contract."""

import json
import sqlite3
from contextlib import closing
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from pega_tune.kernels.facts import DeviceFacts
from pega_tune.profiles.policy.compiled import digest, encode
from pega_tune.profiles.policy.schema import SCHEMA_REVISION
from pega_tune.profiles.policy.table import CompiledPolicy
from tests.unit.profiles.policy.examples import CREATED, facts, one_way

POLICY = CompiledPolicy((one_way(),))


@dataclass(frozen=True)
class Row:
    """One published profile; `compiled` is damaged where its digest is given."""

    profile_id: str
    device: DeviceFacts = field(default_factory=facts)
    state: str = "published"
    created_at: datetime | str = CREATED
    policy: CompiledPolicy = POLICY
    digest: str | None = None
    facts_json: str | None = None
    reasons: str = "[]"
    sweep_id: str = "sweep1"

    def columns(self) -> dict[str, object]:
        blob = encode(self.policy)
        created_at = self.created_at
        return {
            "profile_id": self.profile_id,
            "state": self.state,
            "simulated": self.device.simulated,
            "board_uuid": self.device.uuid,
            "class_id": self.device.class_id,
            "family_id": self.device.family_id,
            "facts": self.facts_json or json.dumps(self.device.to_json()),
            "created_at": created_at if isinstance(created_at, str) else created_at.isoformat(),
            "compiled": blob,
            "digest": self.digest or digest(blob),
            "kernel_digest": "kernels",
            "reasons": self.reasons,
            "sweep_id": self.sweep_id,
        }


def create(path: Path, *rows: Row, revision: str = SCHEMA_REVISION, journal: str = "wal") -> Path:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA journal_mode = {journal}")
        connection.execute("CREATE TABLE alembic_version (version_num TEXT NOT NULL)")
        connection.execute("INSERT INTO alembic_version VALUES (?)", (revision,))
        connection.execute(
            "CREATE TABLE profile (profile_id TEXT PRIMARY KEY, state TEXT, simulated INTEGER, "
            "board_uuid TEXT, class_id TEXT, family_id TEXT, facts TEXT, created_at TEXT, "
            "compiled BLOB, digest TEXT, kernel_digest TEXT, reasons TEXT, sweep_id TEXT)"
        )
        connection.execute("CREATE TABLE sweep (sweep_id TEXT PRIMARY KEY, state TEXT)")
        connection.execute("CREATE TABLE block (block_id INTEGER PRIMARY KEY, sweep_id TEXT)")
        connection.execute(
            "CREATE TABLE evidence (evidence_id INTEGER PRIMARY KEY, profile_id TEXT, cell_id INTEGER, kind TEXT, "
            "verdict TEXT, detail TEXT)"
        )
        connection.execute("INSERT INTO sweep VALUES ('sweep1', 'interrupted'), ('sweep2', 'finished')")
        connection.commit()
    insert(path, *rows)
    return path


def insert(path: Path, *rows: Row) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        for row in rows:
            columns = row.columns()
            marks = ", ".join(f":{name}" for name in columns)
            connection.execute(f"INSERT INTO profile ({', '.join(columns)}) VALUES ({marks})", columns)
