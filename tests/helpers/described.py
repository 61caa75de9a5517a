"""A schema in a form that can be compared."""

from typing import Any

from sqlalchemy import Inspector


def described(inspector: Inspector) -> dict[str, dict[str, list[Any]]]:
    """Columns, constraints and indexes of every table, in an order of their own."""

    def ordered(parts: list[Any]) -> list[Any]:
        return sorted(({key: str(value) for key, value in part.items()} for part in parts), key=lambda p: p["name"])

    tables = [table for table in inspector.get_table_names() if table != "alembic_version"]
    return {
        table: {
            "columns": ordered(inspector.get_columns(table)),
            "primary key": ordered([inspector.get_pk_constraint(table)]),
            "foreign keys": ordered(inspector.get_foreign_keys(table)),
            "unique": ordered(inspector.get_unique_constraints(table)),
            "checks": ordered(inspector.get_check_constraints(table)),
            "indexes": ordered(inspector.get_indexes(table)),
        }
        for table in tables
    }
