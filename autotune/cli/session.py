"""What every command is given: where to print, and which database was named."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import typer

from pega_tune.autotune.cli.output import Output

if TYPE_CHECKING:
    from pega_tune.kernels.facts import DeviceFacts
    from pega_tune.profiles.store.store import Store


@dataclass(frozen=True, slots=True)
class Session:
    """One run of the program.

    Attributes:
        database: as given with `--db`; None if it was not.
        output: the printer.
    """

    database: str | None
    output: Output

    @property
    def url(self) -> str:
        """The database in use.

        Raises:
            UsageError: it is no database URL.
        """
        from pega_tune.profiles.policy.settings import database_url

        return database_url(self.database)

    def has_database(self) -> bool:
        """Whether the database is there, and more than an empty file; creates none.

        Raises:
            DataError: it is refused.
        """
        from pega_tune.profiles.store.database import Database
        from pega_tune.profiles.store.host import HostView
        from pega_tune.profiles.store.opening import revision_of

        return revision_of(Database.parse(self.url), HostView()) is not None

    def read_store(self) -> Store:
        """Opens the store without writing anything, to be closed by the caller (`with`).

        Raises:
            DataError: the database is missing or refused.
        """
        from pega_tune.profiles.store.store import Store

        return self._warned(Store.open(self.url, create=False, read_only=True))

    def write_store(self, *, create: bool) -> Store:
        """Opens the store to add to it, to be closed by the caller (`with`).

        Args:
            create: make a missing database.

        Raises:
            DataError: the database is missing and not to be made, or refused.
        """
        from pega_tune.profiles.store.store import Store

        return self._warned(Store.open(self.url, create=create))

    def note_device(self, facts: DeviceFacts) -> None:
        """Says which device is measured."""
        kind = "simulated device" if facts.simulated else "device"
        self.output.note(f"{kind} {facts.uuid}: {facts.provenance.name}")

    def _warned(self, store: Store) -> Store:
        for warning in store.warnings:
            self.output.warn(warning)
        return store


def session_of(context: typer.Context) -> Session:
    """The session of a command's context."""
    session = context.obj
    assert isinstance(session, Session)
    return session
