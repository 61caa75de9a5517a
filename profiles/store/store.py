"""The store: sweeps, their blocks, and profiles. Records go in and come out; rows and sessions stay inside."""

import hashlib
from collections.abc import Collection, Iterator
from types import TracebackType
from typing import Self

from sqlalchemy import select
from sqlalchemy.orm import Session

from pega_tune.kernels.facts import DeviceFacts
from pega_tune.profiles.bundle.document import Bundle
from pega_tune.profiles.store import models, ownership, queries, retiring
from pega_tune.profiles.store.block_mapping import block_record, block_row
from pega_tune.profiles.store.bundles import Place, add_bundle
from pega_tune.profiles.store.database import Database
from pega_tune.profiles.store.errors import SweepRunningError, ValueRefusedError
from pega_tune.profiles.store.host import HostView
from pega_tune.profiles.store.mapping import (
    board_row,
    device_row,
    evidence_row,
    profile_record,
    profile_row,
    sweep_record,
    sweep_row,
)
from pega_tune.profiles.store.opening import Opened, open_database
from pega_tune.profiles.store.records import (
    BlockRecord,
    EvidenceKind,
    EvidenceRecord,
    ProfileRecord,
    SweepRecord,
    SweepState,
    SweepSummary,
)
from pega_tune.profiles.store.values import encode_json, settled


class Store:
    """An open database; a context manager. Threads may share it, and any number of processes the database.

    Every method is one transaction: durable when it returns, absent if it raises. All raise `StoreError`, a
    `DataError`, if the database cannot be used; `ValueRefusedError` names the field whose value does not fit.
    """

    def __init__(self, opened: Opened, host: HostView) -> None:
        """Use `Store.open`."""
        self._transactions = opened.transactions
        self._host = host
        self.warnings = opened.warnings
        """What the user should know about where the database lies, one line each."""

    @classmethod
    def open(cls, url: str, *, create: bool = True, read_only: bool = False, host: HostView | None = None) -> Self:
        """Opens the database at `url`, as SQLAlchemy writes URLs.

        A missing or empty database is created if `create` is set and `read_only` is not. With `read_only` nothing is
        ever written, and files and directories that cannot be written will do.

        Raises:
            QuestionError: `url` is no database URL.
            DatabaseRefusedError: it is missing, a directory, read-only, not SQLite, another program's, or of an older
                or newer revision.
            DatabaseDamagedError: it is malformed; opened for writing, also if a quick look finds it unsound.
            DatabaseBusyError: another process keeps it.
        """
        host = host or HostView()
        return cls(open_database(Database.parse(url), host, create=create, read_only=read_only), host)

    def close(self) -> None:
        """Closes all connections."""
        self._transactions.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def add_sweep(self, record: SweepRecord) -> None:
        """Stores a new sweep, and what is known of its device."""

        def work(session: Session) -> None:
            there = session.get(models.Sweep, record.sweep_id)
            if there is not None and sweep_record(there) == record:
                return  # the connection was lost as it was saved
            self._remember(session, record.device)
            row = sweep_row(record)
            ownership.take(row, self._host)
            ownership.touch(row, self._host)
            session.add(row)

        self._transactions.write(work)

    def update_sweep(
        self,
        sweep_id: str,
        *,
        state: SweepState,
        reasons: tuple[str, ...] = (),
        seconds: float,
        pid: int | None = None,
        host: str | None = None,
    ) -> None:
        """Replaces state, reasons and seconds of a sweep; and its process, if both `pid` and `host` are given.

        Raises:
            NotFoundError: there is no such sweep.
        """

        def work(session: Session) -> None:
            row = queries.required_sweep(session, sweep_id, lock=True)
            row.state, row.reasons, row.seconds = state, encode_json(reasons, "sweep.reasons"), seconds
            if pid is not None and host is not None:
                row.pid, row.host = pid, host
                ownership.take(row, self._host)
            ownership.touch(row, self._host)
            settled(row)

        self._transactions.write(work)

    def claim(self, sweep_id: str, pid: int, host: str) -> SweepRecord:
        """Makes process `pid` on `host` the one that runs the sweep, so that of several only one resumes it.

        Returns:
            The sweep, running.

        Raises:
            NotFoundError: there is no such sweep.
            SweepRunningError: its process is still there, or there is nothing left to run.
        """

        def work(session: Session) -> SweepRecord:
            row = queries.required_sweep(session, sweep_id, lock=True)
            seen = ownership.as_seen(row, self._host)
            if seen.state is SweepState.RUNNING:
                where = "" if row.host == self._host.name else f" on {row.host}"
                raise SweepRunningError(f"sweep {sweep_id} is still running (pid {row.pid}{where})", "let it finish")
            stored = len(_block_keys(session, sweep_id))
            if seen.state is SweepState.FINISHED and stored >= seen.planned_blocks:
                raise SweepRunningError(f"sweep {sweep_id} is finished: nothing is left to measure", "start a new one")
            row.state, row.reasons = SweepState.RUNNING, encode_json((), "sweep.reasons")
            row.pid, row.host = pid, host
            settled(row)
            ownership.take(row, self._host)
            ownership.touch(row, self._host)
            return sweep_record(row)

        return self._transactions.write(work, repeatable=False)

    def add_block(self, sweep_id: str, record: BlockRecord) -> bool:
        """Stores a finished block with all its cells; False, and nothing is changed, if its key is there already.

        Raises:
            NotFoundError: there is no such sweep.
        """

        def work(session: Session) -> bool:
            sweep = queries.required_sweep(session, sweep_id, lock=True)
            if record.key in _block_keys(session, sweep_id):
                return False
            session.add(block_row(sweep_id, record))
            ownership.touch(sweep, self._host)
            return True

        return self._transactions.write(work)

    def finished_blocks(self, sweep_id: str) -> frozenset[str]:
        """Keys of the blocks that the sweep has stored; empty if there is no such sweep."""
        return self._transactions.read(lambda session: _block_keys(session, sweep_id))

    def blocks(self, sweep_id: str, keys: Collection[str] | None = None) -> Iterator[BlockRecord]:
        """The stored blocks of a sweep, in the order stored; each is read when it is asked for.

        Args:
            sweep_id: the sweep.
            keys: of the blocks wanted; None takes all.

        Raises:
            NotFoundError: there is no such sweep; raised by the call itself.
        """

        def ids(session: Session) -> tuple[int, ...]:
            queries.required_sweep(session, sweep_id)
            mine = select(models.Block.block_id).where(models.Block.sweep_id == sweep_id)
            if keys is not None:
                mine = mine.where(models.Block.key.in_(keys))
            return tuple(session.scalars(mine.order_by(models.Block.block_id)))

        # No transaction stays open while the caller works on a block.
        return (self._block(block_id) for block_id in self._transactions.read(ids))

    def sweep(self, sweep_id: str) -> SweepSummary:
        """A sweep by its id or a unique beginning of it.

        Raises:
            NotFoundError: there is no such sweep, or more than one.
        """

        def work(session: Session) -> SweepSummary:
            found = queries.unique(session, models.Sweep.sweep_id, sweep_id)
            (counted,) = queries.sweep_rows(session, models.Sweep.sweep_id == found)
            return self._summary(counted)

        return self._transactions.read(work)

    def sweeps(self) -> tuple[SweepSummary, ...]:
        """All sweeps, the newest first; those whose process is gone are shown as interrupted."""
        return self._transactions.read(lambda session: tuple(map(self._summary, queries.sweep_rows(session))))

    def add_profile(self, record: ProfileRecord) -> None:
        """Stores a profile with its fits, resting on all verified cells of its sweep that measured a plan.

        Raises:
            NotFoundError: there is no such sweep.
            ValueRefusedError: `digest` is not that of `compiled`.
        """
        if hashlib.sha256(record.compiled).hexdigest() != record.digest:
            raise ValueRefusedError(f"the digest of profile {record.profile_id} is not that of its tables")

        def work(session: Session) -> None:
            there = session.get(models.Profile, record.profile_id)
            if there is not None and profile_record(there) == record:
                return  # the connection was lost as it was saved
            queries.required_sweep(session, record.sweep_id)
            self._remember(session, record.device)
            row = profile_row(record)
            session.add(row)
            session.flush()
            queries.link_cells(session, row)

        self._transactions.write(work)

    def import_bundle(self, bundle: Bundle) -> bool:
        """Stores a profile that was measured elsewhere; False, and nothing is changed, if it is there already.

        Raises:
            ImportConflictError: another profile or another sweep has its id, or it was made in the future.
        """
        place = Place(self._transactions.label, self._host)
        return self._transactions.write(lambda session: add_bundle(session, bundle, place))

    def profile(self, profile_id: str) -> ProfileRecord:
        """A profile by its id or a unique beginning of it.

        Raises:
            NotFoundError: there is no such profile, or more than one.
        """

        def work(session: Session) -> ProfileRecord:
            found = queries.unique(session, models.Profile.profile_id, profile_id)
            (row,) = queries.profile_rows(session, models.Profile.profile_id == found)
            return profile_record(row)

        return self._transactions.read(work)

    def profiles(self) -> tuple[ProfileRecord, ...]:
        """All profiles, the newest first."""
        return self._transactions.read(lambda session: tuple(map(profile_record, queries.profile_rows(session))))

    def retire(self, profile_id: str, reason: str = "", *, undo: bool = False) -> bool:
        """Takes a published profile out of use, or a retired one into use again. False if it was so already.

        Raises:
            NotFoundError: there is no such profile, or more than one.
            ValueRefusedError: it was never published, or the reason is no line of text.
        """

        def work(session: Session) -> bool:
            if undo:
                return retiring.unretire(session, profile_id)
            return retiring.retire(session, profile_id, reason, self._host.now())

        return self._transactions.write(work)

    def remove_profile(self, profile_id: str) -> None:
        """Deletes a profile with its fits and its evidence; a sweep that measured here stays, with all its blocks.

        Raises:
            NotFoundError: there is no such profile, or more than one.
            ValueRefusedError: it is published, so that answers come from it.
        """
        # Not repeatable: what is gone the second time was there the first.
        self._transactions.write(lambda session: retiring.remove(session, profile_id), repeatable=False)

    def evidence(self, profile_id: str) -> tuple[EvidenceRecord, ...]:
        """What a profile rests on, in the order recorded; empty if there is no such profile."""
        return self._transactions.read(lambda session: queries.evidence_of(session, profile_id))

    def add_check(self, profile_id: str, record: EvidenceRecord) -> None:
        """Stores what a later check of a profile found; the profile itself stays as it was made.

        Raises:
            NotFoundError: there is no such profile.
            ValueRefusedError: the record is of a cell, which speaks for a profile from the beginning or not at all.
        """
        if record.kind is EvidenceKind.CELL:
            raise ValueRefusedError(f"a check of profile {profile_id} is no cell")

        def work(session: Session) -> None:
            found = queries.unique(session, models.Profile.profile_id, profile_id)
            if record not in queries.evidence_of(session, found):
                session.add(evidence_row(found, record))

        self._transactions.write(work)

    def _block(self, block_id: int) -> BlockRecord:
        return self._transactions.read(lambda session: block_record(queries.whole_block(session, block_id)))

    def _summary(self, counted: queries.CountedSweep) -> SweepSummary:
        seen = ownership.as_seen(counted.row, self._host)
        return SweepSummary(seen, counted.blocks, counted.cells, counted.profile_id)

    def _remember(self, session: Session, facts: DeviceFacts) -> None:
        queries.remember_device(session, device_row(facts), board_row(facts, self._host.now()))


def _block_keys(session: Session, sweep_id: str) -> frozenset[str]:
    return frozenset(session.scalars(select(models.Block.key).where(models.Block.sweep_id == sweep_id)))
