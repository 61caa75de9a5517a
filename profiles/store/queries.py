"""What the store asks the database for, inside a transaction that its caller holds."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sqlalchemy import ColumnElement, func, insert, literal, select
from sqlalchemy.orm import InstrumentedAttribute, Session, selectinload

from pega_tune.errors import UsageError
from pega_tune.profiles.store import models
from pega_tune.profiles.store.errors import NotFoundError
from pega_tune.profiles.store.mapping import evidence_record
from pega_tune.profiles.store.records import EvidenceKind, EvidenceRecord


@dataclass(frozen=True, slots=True)
class CountedSweep:
    """A sweep's row with the numbers of its blocks and cells, and the id of its newest profile."""

    row: models.Sweep
    blocks: int
    cells: int
    profile_id: str | None


def unique(session: Session, column: InstrumentedAttribute[str], prefix: str) -> str:
    """The one id in `column` that equals `prefix`, or else the only one that begins with it.

    Raises:
        UsageError: `prefix` is empty.
        NotFoundError: there is none, or more than one.
    """
    what = str(column.class_.__tablename__)
    hint = f"see `pega-tune {what}s list`"
    if not prefix:
        raise UsageError(f"an empty text names no {what}", hint)
    found = list(session.scalars(select(column).where(column.startswith(prefix, autoescape=True)).order_by(column)))
    if prefix in found:
        return prefix
    if not found:
        raise NotFoundError(f"there is no {what} {prefix!r}", hint)
    if len(found) > 1:
        shown = ", ".join(found[:4]) + (", ..." if len(found) > 4 else "")
        raise NotFoundError(f"{prefix!r} begins more than one {what} id: {shown}", "write more of it")
    return found[0]


def required_sweep(session: Session, sweep_id: str, *, lock: bool = False) -> models.Sweep:
    """The row of a sweep by its whole id; with `lock`, others that ask so wait until the transaction ends.

    Raises:
        NotFoundError: there is none.
    """
    row = session.get(models.Sweep, sweep_id, with_for_update=lock)
    if row is None:
        raise NotFoundError(f"there is no sweep {sweep_id!r}", "see `pega-tune sweeps list`")
    return row


def sweep_rows(session: Session, *conditions: ColumnElement[bool]) -> Iterator[CountedSweep]:
    """Sweeps with their counts, the newest first."""
    of_sweep = models.Block.sweep_id == models.Sweep.sweep_id
    blocks = select(func.count()).select_from(models.Block).where(of_sweep).scalar_subquery()
    in_block = models.Block.block_id == models.Cell.block_id
    cells = select(func.count()).select_from(models.Cell).join(models.Block, in_block).where(of_sweep).scalar_subquery()
    newest_profile = (
        select(models.Profile.profile_id)
        .where(models.Profile.sweep_id == models.Sweep.sweep_id)
        .order_by(models.Profile.created_at.desc(), models.Profile.profile_id)
        .limit(1)
        .scalar_subquery()
    )
    newest_first = (models.Sweep.started_at.desc(), models.Sweep.sweep_id)
    counted = select(models.Sweep, blocks, cells, newest_profile).where(*conditions).order_by(*newest_first)
    for row, block_count, cell_count, profile_id in session.execute(counted):
        yield CountedSweep(row, block_count, cell_count, profile_id)


def whole_block(session: Session, block_id: int) -> models.Block:
    """A block with its cells and their measurements loaded."""
    cells = selectinload(models.Block.cells).selectinload(models.Cell.measurements)
    return session.scalars(select(models.Block).where(models.Block.block_id == block_id).options(cells)).one()


def profile_rows(session: Session, *conditions: ColumnElement[bool]) -> Sequence[models.Profile]:
    """Profiles, fits loaded, the newest first."""
    newest_first = (models.Profile.created_at.desc(), models.Profile.profile_id)
    fits = selectinload(models.Profile.fits)
    return session.scalars(select(models.Profile).where(*conditions).options(fits).order_by(*newest_first)).all()


def link_cells(session: Session, profile: models.Profile) -> None:
    """Makes every usable plan cell of the profile's sweep evidence for it."""
    cells = (
        select(
            literal(profile.profile_id),
            models.Cell.cell_id,
            literal(str(EvidenceKind.CELL)),
            literal(profile.created_at),
            literal(""),
            literal(""),
        )
        .join(models.Block, models.Block.block_id == models.Cell.block_id)
        .where(
            models.Block.sweep_id == profile.sweep_id,
            models.Cell.kind == "plan",
            models.Cell.status == "ok",
            models.Cell.verified == 1,
        )
        .order_by(models.Cell.cell_id)
    )
    columns = ["profile_id", "cell_id", "kind", "recorded_at", "verdict", "detail"]
    session.execute(insert(models.Evidence).from_select(columns, cells))


def evidence_of(session: Session, profile_id: str) -> tuple[EvidenceRecord, ...]:
    """What a profile rests on, in the order recorded."""
    rows = session.execute(
        select(models.Evidence, models.Block.key, models.Cell.name)
        .outerjoin(models.Cell, models.Cell.cell_id == models.Evidence.cell_id)
        .outerjoin(models.Block, models.Block.block_id == models.Cell.block_id)
        .where(models.Evidence.profile_id == profile_id)
        .order_by(models.Evidence.evidence_id)
    )
    return tuple(evidence_record(row, block_key, cell) for row, block_key, cell in rows)


def remember_class(session: Session, device: models.Device) -> None:
    """Adds the device class if it is new."""
    if session.get(models.Device, device.class_id) is None:
        session.add(device)
        session.flush()


def remember_device(session: Session, device: models.Device, board: models.Board) -> None:
    """Adds the device class if it is new, and the board, or where it is now."""
    remember_class(session, device)
    session.merge(board)
    session.flush()
