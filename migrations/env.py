"""Alembic's entry point. The caller opens the connection and its transaction, and configures no logging."""

from alembic import context

# The caller's transaction spans all migrations, so a process killed on the way leaves the database as it was.
context.configure(connection=context.config.attributes["connection"], target_metadata=None)
context.run_migrations()
