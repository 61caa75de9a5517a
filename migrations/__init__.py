"""Alembic migrations: frozen snapshots that import no code of the project."""
