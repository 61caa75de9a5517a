"""The tables, as PostgreSQL would make them."""

import pytest
from sqlalchemy import Table
from sqlalchemy.dialects import postgresql
from sqlalchemy.schema import CreateTable

from pega_tune.profiles.store.models import Base


def made(name: str) -> str:
    return str(CreateTable(Base.metadata.tables[name]).compile(dialect=postgresql.dialect()))


@pytest.mark.parametrize(
    ("table", "column", "kind"),
    [
        ("block", "total_bytes", "BIGINT"),
        ("block", "pitch", "BIGINT"),
        ("block", "seed", "BIGINT"),
        ("block", "sm_clock_hz", "BIGINT"),
        ("block", "seconds", "DOUBLE PRECISION"),
        ("block", "block_id", "SERIAL"),
        ("measurement", "samples", "BYTEA"),
        ("profile", "facts", "TEXT"),
    ],
)
def test_types_are_wide_enough(table: str, column: str, kind: str) -> None:
    assert f"{column} {kind}" in made(table)


@pytest.mark.parametrize("table", Base.metadata.sorted_tables, ids=lambda table: table.name)
def test_all_constraints_are_named(table: Table) -> None:
    statement = made(table.name)
    clauses = sum(statement.count(word) for word in ("PRIMARY KEY", "FOREIGN KEY", "UNIQUE", "CHECK"))
    assert statement.count("CONSTRAINT ") == clauses > 0
