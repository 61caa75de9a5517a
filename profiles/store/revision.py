"""Which revision a database is at, and what to say when it is another than ours. Needs no Alembic."""

import re

from sqlalchemy import Connection, inspect, text

from pega_tune.profiles.policy.schema import SCHEMA_REVISION
from pega_tune.profiles.store.errors import DatabaseDamagedError, DatabaseRefusedError

VERSION_TABLE = "alembic_version"
_VERSIONS = text("SELECT version_num FROM alembic_version")
_REVISION = re.compile(r"\d{4}")
# Many programs have the table above, and a `profile` too; damage may have taken one of these from us.
_LANDMARKS = frozenset({"sweep", "measurement", "profile"})
_ENOUGH_LANDMARKS = 2


def read_revision(connection: Connection, label: str) -> str | None:
    """The revision of the database; None if it holds nothing at all. `label` is what messages call it.

    Raises:
        DatabaseRefusedError: it belongs to another program.
        DatabaseDamagedError: it has tables and no single revision.
    """
    tables = set(inspect(connection).get_table_names())
    if not tables:
        return None
    foreign = VERSION_TABLE not in tables or len(_LANDMARKS & tables) < _ENOUGH_LANDMARKS
    if foreign and tables != {VERSION_TABLE}:
        raise _foreign(label)
    revisions = connection.execute(_VERSIONS).scalars().all()
    if foreign:
        if revisions:
            raise _foreign(label)
        return None
    if len(revisions) == 1:
        return str(revisions[0])
    raise DatabaseDamagedError(f"{label} has {len(revisions)} revisions instead of one", "restore a backup of it")


def require_revision(connection: Connection, label: str) -> None:
    """Refuses a database that another process has upgraded since it was opened.

    Raises:
        DatabaseRefusedError: as said.
    """
    revisions = connection.execute(_VERSIONS).scalars().all()
    if revisions != [SCHEMA_REVISION]:
        raise wrong_revision(label, ", ".join(map(str, revisions)) or "none")


def wrong_revision(label: str, revision: str) -> DatabaseRefusedError:
    """The refusal of a database at `revision`, which is not `SCHEMA_REVISION`."""
    if _REVISION.fullmatch(revision) and revision < SCHEMA_REVISION:
        return DatabaseRefusedError(
            f"{label} has the older revision {revision}, this version needs {SCHEMA_REVISION}",
            "run `pega-tune db upgrade`, which keeps a backup",
        )
    return DatabaseRefusedError(
        f"{label} was written by a newer pega-tune: revision {revision}, this version knows {SCHEMA_REVISION}",
        "update pega-tune, or name another database with --db",
    )


def _foreign(label: str) -> DatabaseRefusedError:
    return DatabaseRefusedError(f"{label} belongs to another program", "name another database with --db")
