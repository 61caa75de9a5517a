"""Sweeps with their measurements, and profiles with what they rest on."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    _create_devices()
    _create_sweep()
    _create_block()
    _create_cells()
    _create_profile()
    _create_grounds()


def downgrade() -> None:
    raise NotImplementedError(
        "there is no way back but a backup: `pega-tune db upgrade` keeps one of a file, `pega-tune db backup` makes one"
    )


def _create_devices() -> None:
    op.create_table(
        "device",
        sa.Column("class_id", sa.Text(), nullable=False),
        sa.Column("family_id", sa.Text(), nullable=False),
        sa.Column("simulated", sa.Integer(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("identity", sa.Text(), nullable=False),
        sa.CheckConstraint("simulated IN (0, 1)", name="ck_device_simulated"),
        sa.PrimaryKeyConstraint("class_id", name="pk_device"),
    )
    op.create_table(
        "board",
        sa.Column("uuid", sa.Text(), nullable=False),
        sa.Column("class_id", sa.Text(), nullable=False),
        sa.Column("host", sa.Text(), nullable=False),
        sa.Column("seen_at", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["class_id"], ["device.class_id"], name="fk_board_class_id_device"),
        sa.PrimaryKeyConstraint("uuid", name="pk_board"),
    )
    op.create_index("ix_board_class_id", "board", ["class_id"])


def _create_sweep() -> None:
    op.create_table(
        "sweep",
        sa.Column("sweep_id", sa.Text(), nullable=False),
        sa.Column("board_uuid", sa.Text(), nullable=False),
        sa.Column("class_id", sa.Text(), nullable=False),
        sa.Column("facts", sa.Text(), nullable=False),
        sa.Column("preset", sa.Text(), nullable=False),
        sa.Column("seed", sa.BigInteger(), nullable=False),
        sa.Column("request", sa.Text(), nullable=False),
        sa.Column("method_version", sa.Integer(), nullable=False),
        sa.Column("kernel_digest", sa.Text(), nullable=False),
        sa.Column("environment", sa.Text(), nullable=False),
        sa.Column("planned_blocks", sa.Integer(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("reasons", sa.Text(), nullable=False),
        sa.Column("started_at", sa.Text(), nullable=False),
        sa.Column("seconds", sa.Double(), nullable=False),
        sa.Column("pid", sa.Integer(), nullable=True),
        sa.Column("host", sa.Text(), nullable=True),
        sa.Column("process_token", sa.Text(), nullable=True),
        sa.Column("seen_at", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["board_uuid"], ["board.uuid"], name="fk_sweep_board_uuid_board"),
        sa.ForeignKeyConstraint(["class_id"], ["device.class_id"], name="fk_sweep_class_id_device"),
        sa.PrimaryKeyConstraint("sweep_id", name="pk_sweep"),
    )
    op.create_index("ix_sweep_board_uuid", "sweep", ["board_uuid"])
    op.create_index("ix_sweep_class_id", "sweep", ["class_id"])


def _create_block() -> None:
    op.create_table(
        "block",
        sa.Column("block_id", sa.Integer(), nullable=False),
        sa.Column("sweep_id", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("merged_ranges", sa.BigInteger(), nullable=False),
        sa.Column("total_bytes", sa.BigInteger(), nullable=False),
        sa.Column("direction", sa.Text(), nullable=False),
        sa.Column("host_runs", sa.BigInteger(), nullable=True),
        sa.Column("alignment", sa.Integer(), nullable=True),
        sa.Column("pitch", sa.BigInteger(), nullable=True),
        sa.Column("colocation", sa.Text(), nullable=False),
        sa.Column("period_s", sa.Double(), nullable=True),
        sa.Column("decode", sa.Text(), nullable=True),
        sa.Column("seed", sa.BigInteger(), nullable=False),
        sa.Column("seconds", sa.Double(), nullable=False),
        sa.Column("flags", sa.Text(), nullable=False),
        sa.Column("sm_clock_hz", sa.BigInteger(), nullable=True),
        sa.Column("link_generation", sa.Integer(), nullable=True),
        sa.Column("link_width", sa.Integer(), nullable=True),
        sa.Column("temperature_c", sa.Integer(), nullable=True),
        sa.Column("throttle_reasons", sa.Text(), nullable=False),
        sa.Column("telemetry_note", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["sweep_id"], ["sweep.sweep_id"], name="fk_block_sweep_id_sweep", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("block_id", name="pk_block"),
        sa.UniqueConstraint("sweep_id", "key", name="uq_block_sweep_id_key"),
    )


def _create_cells() -> None:
    op.create_table(
        "cell",
        sa.Column("cell_id", sa.Integer(), nullable=False),
        sa.Column("block_id", sa.Integer(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("plan_key", sa.Text(), nullable=False),
        sa.Column("plan", sa.Text(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("verified", sa.Integer(), nullable=False),
        sa.Column("detail", sa.Text(), nullable=False),
        sa.CheckConstraint("verified IN (0, 1)", name="ck_cell_verified"),
        sa.ForeignKeyConstraint(["block_id"], ["block.block_id"], name="fk_cell_block_id_block", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("cell_id", name="pk_cell"),
        sa.UniqueConstraint("block_id", "name", name="uq_cell_block_id_name"),
        sa.UniqueConstraint("block_id", "position", name="uq_cell_block_id_position"),
    )
    op.create_table(
        "measurement",
        sa.Column("measurement_id", sa.Integer(), nullable=False),
        sa.Column("cell_id", sa.Integer(), nullable=False),
        sa.Column("metric", sa.Text(), nullable=False),
        sa.Column("count", sa.Integer(), nullable=False),
        sa.Column("samples", sa.LargeBinary(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("flags", sa.Text(), nullable=False),
        sa.CheckConstraint("length(samples) = 8 * count", name="ck_measurement_count"),
        sa.ForeignKeyConstraint(["cell_id"], ["cell.cell_id"], name="fk_measurement_cell_id_cell", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("measurement_id", name="pk_measurement"),
        sa.UniqueConstraint("cell_id", "metric", name="uq_measurement_cell_id_metric"),
    )


def _create_profile() -> None:
    op.create_table(
        "profile",
        sa.Column("profile_id", sa.Text(), nullable=False),
        sa.Column("sweep_id", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("reasons", sa.Text(), nullable=False),
        sa.Column("simulated", sa.Integer(), nullable=False),
        sa.Column("board_uuid", sa.Text(), nullable=False),
        sa.Column("class_id", sa.Text(), nullable=False),
        sa.Column("family_id", sa.Text(), nullable=False),
        sa.Column("facts", sa.Text(), nullable=False),
        sa.Column("created_at", sa.Text(), nullable=False),
        sa.Column("compiled", sa.LargeBinary(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("kernel_digest", sa.Text(), nullable=False),
        sa.Column("method_version", sa.Integer(), nullable=False),
        sa.CheckConstraint("simulated IN (0, 1)", name="ck_profile_simulated"),
        sa.ForeignKeyConstraint(["board_uuid"], ["board.uuid"], name="fk_profile_board_uuid_board"),
        sa.ForeignKeyConstraint(["class_id"], ["device.class_id"], name="fk_profile_class_id_device"),
        sa.ForeignKeyConstraint(["sweep_id"], ["sweep.sweep_id"], name="fk_profile_sweep_id_sweep"),
        sa.PrimaryKeyConstraint("profile_id", name="pk_profile"),
    )
    for column in ("board_uuid", "class_id", "family_id", "sweep_id"):
        op.create_index(f"ix_profile_{column}", "profile", [column])


def _create_grounds() -> None:
    op.create_table(
        "fit",
        sa.Column("fit_id", sa.Integer(), nullable=False),
        sa.Column("profile_id", sa.Text(), nullable=False),
        sa.Column("family", sa.Text(), nullable=False),
        sa.Column("direction", sa.Text(), nullable=False),
        sa.Column("colocation", sa.Text(), nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("parameters", sa.Text(), nullable=False),
        sa.Column("residual", sa.Double(), nullable=True),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.CheckConstraint("(residual IS NULL) = (reason <> '')", name="ck_fit_residual"),
        sa.ForeignKeyConstraint(
            ["profile_id"], ["profile.profile_id"], name="fk_fit_profile_id_profile", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("fit_id", name="pk_fit"),
    )
    op.create_index("ix_fit_profile_id", "fit", ["profile_id"])
    op.create_table(
        "evidence",
        sa.Column("evidence_id", sa.Integer(), nullable=False),
        sa.Column("profile_id", sa.Text(), nullable=False),
        sa.Column("cell_id", sa.Integer(), nullable=True),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("recorded_at", sa.Text(), nullable=False),
        sa.Column("verdict", sa.Text(), nullable=False),
        sa.Column("detail", sa.Text(), nullable=False),
        sa.CheckConstraint("(kind = 'cell') = (cell_id IS NOT NULL)", name="ck_evidence_cell"),
        sa.ForeignKeyConstraint(["cell_id"], ["cell.cell_id"], name="fk_evidence_cell_id_cell"),
        sa.ForeignKeyConstraint(
            ["profile_id"], ["profile.profile_id"], name="fk_evidence_profile_id_profile", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("evidence_id", name="pk_evidence"),
        sa.UniqueConstraint("profile_id", "cell_id", name="uq_evidence_profile_id_cell_id"),
    )
    op.create_index("ix_evidence_cell_id", "evidence", ["cell_id"])
