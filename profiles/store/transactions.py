"""Whole transactions, tried again while another process is in the way or the server restarts."""

import random
import time
from collections.abc import Callable
from typing import TypeVar

from sqlalchemy import Engine
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from pega_tune.profiles.store.engine_setup import for_reading, for_writing
from pega_tune.profiles.store.errors import DatabaseDamagedError, DatabaseRefusedError, UnknownOutcomeError
from pega_tune.profiles.store.revision import require_revision
from pega_tune.profiles.store.translation import is_away, is_busy, raise_alone, translated

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
        self._reader = for_reading(engine)
        self._writer = for_writing(engine)
        self._label = label
        self._give_up_s = give_up_s
        self._refusal = "was opened for reading only" if read_only else ""

    @property
    def label(self) -> str:
        """What messages call the database."""
        return self._label

    def read(self, work: Callable[[Session], Result]) -> Result:
        """What `work` returns, from one consistent state of the database.

        Raises:
            StoreError: the database cannot be used.
        """

        def attempt() -> Result:
            with Session(self._reader, expire_on_commit=False) as session, session.begin():
                return work(session)

        return self._run(attempt)

    def write(self, work: Callable[[Session], Result], *, repeatable: bool = True) -> Result:
        """What `work` returns; its changes are durable when this returns.

        Args:
            work: what to do.
            repeatable: doing it twice does what doing it once does. It is done again then where a connection was lost
                in the very moment of saving, which leaves open whether it was saved.

        Raises:
            DatabaseRefusedError: it was upgraded since it was opened.
            UnknownOutcomeError: it is not repeatable, and may have been saved or not.
            StoreError: the database cannot be used, or refuses the change.
        """
        if self._refusal:
            raise DatabaseRefusedError(f"{self._label} {self._refusal}")

        def attempt() -> Result:
            with Session(self._writer, expire_on_commit=False) as session:
                require_revision(session.connection(), self._label)
                result = work(session)
                session.flush()
                self._save(session, repeatable)
                return result

        return self._run(attempt)

    def close(self) -> None:
        """Closes all connections."""
        self._engine.dispose()

    def _save(self, session: Session, repeatable: bool) -> None:
        try:
            session.commit()
        except DBAPIError as error:
            if repeatable or not is_away(error):
                raise
            raise_alone(
                UnknownOutcomeError(
                    f"the connection to {self._label} was lost in the moment of saving", "look whether it was saved"
                )
            )

    def _run(self, attempt: Callable[[], Result]) -> Result:
        try:
            with translated(self._label):
                return patiently(attempt, self._give_up_s, lambda error: is_busy(error) or is_away(error))
        except DatabaseDamagedError:
            self._refusal = "is damaged: nothing more is written to it"
            raise


def patiently(
    attempt: Callable[[], Result], give_up_s: float, passing: Callable[[BaseException], bool] = is_busy
) -> Result:
    """What `attempt` returns, tried again for `give_up_s` seconds while its error is one that may be `passing`."""
    deadline = time.monotonic() + give_up_s
    pause_s = _FIRST_PAUSE_S
    while True:
        try:
            return attempt()
        except DBAPIError as error:
            if not passing(error) or time.monotonic() > deadline:
                raise
        # Those who got in each other's way must not meet again.
        time.sleep(pause_s * random.uniform(0.5, 1))
        pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
