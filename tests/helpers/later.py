"""Migrations of a version that does not exist yet."""

import shutil
from pathlib import Path

from pega_tune.profiles.store.migrate import migrations_path

# SQLite changes a table by making another; where others refer to it, that is what could lose rows.
LATER = """
import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade():
    op.create_table("note", sa.Column("note_id", sa.Integer(), primary_key=True), sa.Column("text", sa.Text()))
    rebuilt = op.get_bind().dialect.name == "sqlite"
    with op.batch_alter_table("profile", recreate="always" if rebuilt else "never") as batch:
        batch.add_column(sa.Column("remark", sa.Text(), nullable=True))
    op.execute("UPDATE profile SET remark = state")
    with op.batch_alter_table("profile", recreate="always" if rebuilt else "never") as batch:
        batch.alter_column("remark", nullable=False, existing_type=sa.Text())
    {more}
"""


def later_scripts(folder: Path, more: str = "pass") -> Path:
    """The program's migrations with one more, which changes a table that others refer to."""
    scripts = folder / "100% later"
    shutil.copytree(migrations_path(), scripts, ignore=shutil.ignore_patterns("__pycache__"))
    (scripts / "versions" / "0002_later.py").write_text(LATER.format(more=more))
    return scripts
