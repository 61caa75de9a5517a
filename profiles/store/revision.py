"""Which revision a database is at, and what to say when it is another than ours. Needs no Alembic."""

import re

from sqlalchemy import Connection, inspect, text

from pega_tune.profiles.policy.schema import SCHEMA_REVISION
from pega_tune.profiles.store.errors import DatabaseDamagedError, DatabaseRefusedError

VERSION_TABLE = "alembic_version"
_OURS = re.compile(r"\d{4}")


def read_revision(connection: Connection, label: str) -> str | None:
    """The revision of the database; None if it holds nothing at all. `label` is what messages call it.

    Raises:
        DatabaseRefusedError: it belongs to another program.
        DatabaseDamagedError: it has tables and no single revision.
    """
    tables = set(inspect(connection).get_table_names())
    if VERSION_TABLE not in tables:
        if tables:
            raise DatabaseRefusedError(f"{label} belongs to another program", "name another database with --db")
        return None
    revisions = connection.execute(text("SELECT version_num FROM alembic_version")).scalars().all()
    if len(revisions) == 1:
        return str(revisions[0])
    if not revisions and tables == {VERSION_TABLE}:
        return None
    raise DatabaseDamagedError(f"{label} has {len(revisions)} revisions instead of one", "restore a backup of it")


def wrong_revision(label: str, revision: str) -> DatabaseRefusedError:
    """The refusal of a database at `revision`, which is not `SCHEMA_REVISION`."""
    if _OURS.fullmatch(revision) and revision < SCHEMA_REVISION:
        return DatabaseRefusedError(
            f"{label} has the older revision {revision}, this version needs {SCHEMA_REVISION}",
            "run `pega-tune db upgrade`, which keeps a backup",
        )
    return DatabaseRefusedError(
        f"{label} was written by a newer pega-tune: revision {revision}, this version knows {SCHEMA_REVISION}",
        "update pega-tune, or name another database with --db",
    )
