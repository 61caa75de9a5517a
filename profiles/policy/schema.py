"""The database schema that this version reads and writes, as one constant."""

SCHEMA_REVISION = "0001"
"""Alembic's head revision. Revisions are four digits and count up, so that older and newer can be told apart."""
