"""The tables, for SQLite and PostgreSQL alike. Rows stay inside this package; `mapping` turns them into records.

Times are ISO 8601 text in UTC and structured values are canonical JSON text, since run-time readers use the standard
library alone. Whatever may pass 2^31 (bytes, hertz, seeds) is a BIGINT; samples are little-endian float64.
"""

from typing import Annotated, Any, ClassVar

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Double,
    ForeignKey,
    Integer,
    LargeBinary,
    MetaData,
    Text,
    UniqueConstraint,
)
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column, relationship

NAMING_CONVENTION = {
    "ck": "ck_%(table_name)s_%(constraint_name)s",
    "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "pk": "pk_%(table_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
}

Key = Annotated[int, mapped_column(Integer, primary_key=True)]
Big = Annotated[int, mapped_column(BigInteger)]


class Base(DeclarativeBase):
    """All tables."""

    metadata = MetaData(naming_convention=NAMING_CONVENTION)
    type_annotation_map: ClassVar[dict[type, Any]] = {
        str: Text(),
        int: Integer(),
        float: Double(),
        bytes: LargeBinary(),
    }


def _flag(column: str) -> CheckConstraint:
    return CheckConstraint(f"{column} IN (0, 1)", name=column)


class Device(Base):
    """A device class: everything of an identity that its hash covers."""

    __tablename__ = "device"
    __table_args__ = (_flag("simulated"),)

    class_id: Mapped[str] = mapped_column(primary_key=True)
    family_id: Mapped[str]
    simulated: Mapped[int]
    name: Mapped[str]
    identity: Mapped[str]


class Board(Base):
    """One device, and where it was last seen."""

    __tablename__ = "board"

    uuid: Mapped[str] = mapped_column(primary_key=True)
    class_id: Mapped[str] = mapped_column(ForeignKey("device.class_id"), index=True)
    host: Mapped[str]
    seen_at: Mapped[str]


class Sweep(Base):
    """One run of the tuner. `process_token` tells its process from another with the same id; see `host`."""

    __tablename__ = "sweep"

    sweep_id: Mapped[str] = mapped_column(primary_key=True)
    board_uuid: Mapped[str] = mapped_column(ForeignKey("board.uuid"), index=True)
    class_id: Mapped[str] = mapped_column(ForeignKey("device.class_id"), index=True)
    facts: Mapped[str]
    preset: Mapped[str]
    seed: Mapped[Big]
    request: Mapped[str]
    method_version: Mapped[int]
    kernel_digest: Mapped[str]
    environment: Mapped[str]
    planned_blocks: Mapped[int]
    state: Mapped[str]
    reasons: Mapped[str]
    started_at: Mapped[str]
    seconds: Mapped[float]
    pid: Mapped[int | None]
    host: Mapped[str | None]
    process_token: Mapped[str | None]
    seen_at: Mapped[str]


class Block(Base):
    """One shape in one process; of a serving block `period_s` and `decode` are set."""

    __tablename__ = "block"
    __table_args__ = (UniqueConstraint("sweep_id", "key"),)

    block_id: Mapped[Key]
    sweep_id: Mapped[str] = mapped_column(ForeignKey("sweep.sweep_id", ondelete="CASCADE"))
    key: Mapped[str]
    merged_ranges: Mapped[Big]
    total_bytes: Mapped[Big]
    direction: Mapped[str]
    host_runs: Mapped[Big | None]
    alignment: Mapped[int | None]
    pitch: Mapped[Big | None]
    colocation: Mapped[str]
    period_s: Mapped[float | None]
    decode: Mapped[str | None]
    seed: Mapped[Big]
    seconds: Mapped[float]
    flags: Mapped[str]
    sm_clock_hz: Mapped[Big | None]
    link_generation: Mapped[int | None]
    link_width: Mapped[int | None]
    temperature_c: Mapped[int | None]
    throttle_reasons: Mapped[str]
    telemetry_note: Mapped[str]

    cells: Mapped[list["Cell"]] = relationship(order_by="Cell.position", passive_deletes=True)


class Cell(Base):
    """One candidate of a block, in the order of the block."""

    __tablename__ = "cell"
    __table_args__ = (
        UniqueConstraint("block_id", "name"),
        UniqueConstraint("block_id", "position"),
        _flag("verified"),
    )

    cell_id: Mapped[Key]
    block_id: Mapped[int] = mapped_column(ForeignKey("block.block_id", ondelete="CASCADE"))
    position: Mapped[int]
    name: Mapped[str]
    kind: Mapped[str]
    plan_key: Mapped[str]
    plan: Mapped[str]
    status: Mapped[str]
    verified: Mapped[int]
    detail: Mapped[str]

    measurements: Mapped[list["Measurement"]] = relationship(
        order_by="Measurement.measurement_id", passive_deletes=True
    )


class Measurement(Base):
    """The samples of one metric of a cell: `count` little-endian float64, in the order taken."""

    __tablename__ = "measurement"
    __table_args__ = (
        UniqueConstraint("cell_id", "metric"),
        CheckConstraint("length(samples) = 8 * count", name="count"),
    )

    measurement_id: Mapped[Key]
    cell_id: Mapped[int] = mapped_column(ForeignKey("cell.cell_id", ondelete="CASCADE"))
    metric: Mapped[str]
    count: Mapped[int]
    samples: Mapped[bytes]
    status: Mapped[str]
    flags: Mapped[str]


class Profile(Base):
    """What a sweep learnt. Run-time readers read this table by its column names, with plain SQL."""

    __tablename__ = "profile"
    __table_args__ = (_flag("simulated"),)

    profile_id: Mapped[str] = mapped_column(primary_key=True)
    sweep_id: Mapped[str] = mapped_column(ForeignKey("sweep.sweep_id"), index=True)
    state: Mapped[str]
    reasons: Mapped[str]
    simulated: Mapped[int]
    board_uuid: Mapped[str] = mapped_column(ForeignKey("board.uuid"), index=True)
    class_id: Mapped[str] = mapped_column(ForeignKey("device.class_id"), index=True)
    family_id: Mapped[str] = mapped_column(index=True)
    facts: Mapped[str]
    created_at: Mapped[str]
    compiled: Mapped[bytes]
    digest: Mapped[str]
    kernel_digest: Mapped[str]
    method_version: Mapped[int]

    fits: Mapped[list["Fit"]] = relationship(order_by="Fit.fit_id", passive_deletes=True)


class Fit(Base):
    """A fitted curve: without one, `residual` is NULL and `reason` says why."""

    __tablename__ = "fit"
    __table_args__ = (CheckConstraint("(residual IS NULL) = (reason <> '')", name="residual"),)

    fit_id: Mapped[Key]
    profile_id: Mapped[str] = mapped_column(ForeignKey("profile.profile_id", ondelete="CASCADE"), index=True)
    family: Mapped[str]
    direction: Mapped[str]
    colocation: Mapped[str]
    model: Mapped[str]
    parameters: Mapped[str]
    residual: Mapped[float | None]
    reason: Mapped[str]


class Evidence(Base):
    """What a profile rests on: cells of its sweep, and what later checks of it found."""

    __tablename__ = "evidence"
    __table_args__ = (
        UniqueConstraint("profile_id", "cell_id"),
        CheckConstraint("(kind = 'cell') = (cell_id IS NOT NULL)", name="cell"),
    )

    evidence_id: Mapped[Key]
    profile_id: Mapped[str] = mapped_column(ForeignKey("profile.profile_id", ondelete="CASCADE"))
    cell_id: Mapped[int | None] = mapped_column(ForeignKey("cell.cell_id"), index=True)
    kind: Mapped[str]
    recorded_at: Mapped[str]
    verdict: Mapped[str]
    detail: Mapped[str]
