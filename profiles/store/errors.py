"""What the store refuses."""

from pega_tune.errors import DataError

CHECK_HINT = "look at it with `pega-tune db check`, or restore a copy that `pega-tune db backup` made"


class StoreError(DataError):
    """The store cannot do what it was asked."""

    code = "database"


class DatabaseRefusedError(StoreError):
    """The database is not one that this version can use."""

    code = "database-refused"


class DatabaseBusyError(StoreError):
    """Another process kept the database to itself for too long."""

    code = "database-busy"


class DatabaseDamagedError(StoreError):
    """What is stored contradicts itself; nothing more is written to it."""

    code = "database-damaged"


class RecordDamagedError(StoreError):
    """One record cannot be read; the rest of the database can."""

    code = "record-damaged"


class NotFoundError(StoreError):
    """Nothing of that name is stored, or more than one thing is."""

    code = "not-found"


class ValueRefusedError(StoreError):
    """A value does not fit its field."""

    code = "bad-value"


class ImportConflictError(StoreError):
    """What is to be imported contradicts what is stored."""

    code = "import-conflict"


class UnknownOutcomeError(StoreError):
    """Whether a change was saved is not known."""

    code = "unknown-outcome"


class SweepRunningError(StoreError):
    """The sweep cannot be taken over."""

    code = "sweep-running"
