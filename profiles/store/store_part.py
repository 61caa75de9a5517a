"""What both halves of a store have: an open database, and the machine that uses it."""

from sqlalchemy.orm import Session

from pega_tune.kernels.facts import DeviceFacts
from pega_tune.profiles.store import queries
from pega_tune.profiles.store.host import HostView
from pega_tune.profiles.store.mapping import board_row, device_row
from pega_tune.profiles.store.opening import Opened


class StorePart:
    """An open database."""

    def __init__(self, opened: Opened, host: HostView) -> None:
        """Use `Store.open`."""
        self._transactions = opened.transactions
        self._host = host
        self.path = opened.path
        """The file; None for a server."""
        self.warnings = opened.warnings
        """What the user should know about where the database lies, one line each."""

    def _remember(self, session: Session, facts: DeviceFacts) -> None:
        queries.remember_device(session, device_row(facts), board_row(facts, self._host.now()))
