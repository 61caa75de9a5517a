"""Whole transactions, tried again while another process is in the way."""

import time
from collections.abc import Callable
from typing import TypeVar

from sqlalchemy import Engine
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from pega_tune.profiles.store.engine_setup import WRITES
from pega_tune.profiles.store.errors import DatabaseDamagedError, DatabaseRefusedError, is_busy, translated

Result = TypeVar("Result")

_FIRST_PAUSE_S = 0.01
_LONGEST_PAUSE_S = 0.5


class Transactions:
    """Runs functions, each in a transaction of its own: all of it happens, or nothing.

    A function may run several times and must hand out no rows. Once the database has proved damaged, nothing more is
    written to it.
    """

    def __init__(self, engine: Engine, label: str, give_up_s: float, *, read_only: bool = False) -> None:
        """`label` is what messages call the database; `give_up_s` is how long to try, in seconds."""
        self._engine = engine
        self._writer = engine.execution_options(**{WRITES: True})
        self._label = label
        self._give_up_s = give_up_s
        self._refusal = "was opened for reading only" if read_only else ""

    def read(self, work: Callable[[Session], Result]) -> Result:
        """What `work` returns, from one consistent state of the database.

        Raises:
            StoreError: the database cannot be used.
        """
        return self._run(self._engine, work)

    def write(self, work: Callable[[Session], Result]) -> Result:
        """What `work` returns; its changes are durable when this returns.

        Raises:
            StoreError: the database cannot be used, or refuses the change.
        """
        if self._refusal:
            raise DatabaseRefusedError(f"{self._label} {self._refusal}")
        return self._run(self._writer, work)

    def close(self) -> None:
        """Closes all connections."""
        self._engine.dispose()

    def _run(self, engine: Engine, work: Callable[[Session], Result]) -> Result:
        def attempt() -> Result:
            with Session(engine, expire_on_commit=False) as session, session.begin():
                return work(session)

        try:
            with translated(self._label):
                return patiently(attempt, self._give_up_s)
        except DatabaseDamagedError:
            self._refusal = "is damaged: nothing more is written to it"
            raise


def patiently(attempt: Callable[[], Result], give_up_s: float) -> Result:
    """What `attempt` returns, tried again for `give_up_s` seconds while another process holds the database."""
    deadline = time.monotonic() + give_up_s
    pause_s = _FIRST_PAUSE_S
    while True:
        try:
            return attempt()
        except DBAPIError as error:
            if not is_busy(error) or time.monotonic() > deadline:
                raise
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
