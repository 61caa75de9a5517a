"""Whether a database is whole: its pages, its references, and the tables and columns that this version expects."""

from sqlalchemy import Connection, inspect, text

from pega_tune.profiles.store.models import Base

_QUICK_BYTES = 64 << 20  # reading that much takes a fraction of a second


def first_flaw(connection: Connection) -> str:
    """The first flaw of a database of this version's revision, one line; empty if a quick look finds none.

    Pages of a large SQLite file are not looked at: reading them all would take longer than a sweep should wait.
    """
    flaws = missing_parts(connection)
    if not flaws and connection.dialect.name == "sqlite" and _pages_bytes(connection) <= _QUICK_BYTES:
        flaws = damaged_pages(connection, "quick_check(1)")
    return flaws[0] if flaws else ""


def missing_parts(connection: Connection) -> tuple[str, ...]:
    """Tables and columns that this version expects and the database lacks, one line each."""
    there = {name: columns for (_, name), columns in inspect(connection).get_multi_columns().items()}
    flaws: list[str] = []
    for table in Base.metadata.sorted_tables:
        if table.name not in there:
            flaws.append(f"the table {table.name} is missing")
            continue
        columns = {column["name"] for column in there[table.name]}
        flaws += [f"the column {column} is missing" for column in table.columns if column.name not in columns]
    return tuple(flaws)


def damaged_pages(connection: Connection, pragma: str = "integrity_check") -> tuple[str, ...]:
    """What SQLite's own check complains about, one line each; a server has no such check."""
    if connection.dialect.name != "sqlite":
        return ()
    found = connection.execute(text(f"PRAGMA {pragma}")).scalars().all()
    return tuple(" ".join(str(line).split()) for line in found if line != "ok")


def dangling_references(connection: Connection) -> tuple[str, ...]:
    """References to rows that do not exist, one line each; a server does not let them come about."""
    if connection.dialect.name != "sqlite":
        return ()
    violations = connection.execute(text("PRAGMA foreign_key_check")).all()
    return tuple(f"{table} row {row} refers to a missing {parent}" for table, row, parent, _ in violations)


def _pages_bytes(connection: Connection) -> int:
    pages, page_bytes = (
        connection.execute(text(f"PRAGMA {name}")).scalar_one() for name in ("page_count", "page_size")
    )
    return int(pages) * int(page_bytes)
