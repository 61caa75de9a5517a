"""The half of a store that keeps sweeps and their blocks."""

from collections.abc import Collection, Iterator

from sqlalchemy import select
from sqlalchemy.orm import Session

from pega_tune.profiles.store import models, ownership, queries
from pega_tune.profiles.store.block_mapping import block_record, block_row
from pega_tune.profiles.store.errors import SweepRunningError
from pega_tune.profiles.store.mapping import sweep_record, sweep_row
from pega_tune.profiles.store.records import BlockRecord, SweepRecord, SweepState, SweepSummary
from pega_tune.profiles.store.store_part import StorePart
from pega_tune.profiles.store.values import encode_json, settled


class SweepStore(StorePart):
    """Sweeps, and the blocks that they measured."""

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

    def _block(self, block_id: int) -> BlockRecord:
        return self._transactions.read(lambda session: block_record(queries.whole_block(session, block_id)))

    def _summary(self, counted: queries.CountedSweep) -> SweepSummary:
        seen = ownership.as_seen(counted.row, self._host)
        return SweepSummary(seen, counted.blocks, counted.cells, counted.profile_id)


def _block_keys(session: Session, sweep_id: str) -> frozenset[str]:
    return frozenset(session.scalars(select(models.Block.key).where(models.Block.sweep_id == sweep_id)))
