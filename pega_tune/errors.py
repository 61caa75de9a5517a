"""The root of every error that a user may meet; each package derives its own from these three families."""

from typing import ClassVar


class PegaTuneError(Exception):
    """An expected failure: one line saying what is wrong, and a hint saying what to do about it.

    Attributes:
        code: stable machine-readable name of the failure, for `--json`.
        message: one line, no trailing full stop needed, fit for a user.
        hint: what to do; empty if the message says it.
    """

    code: ClassVar[str] = "internal"

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(PegaTuneError):
    """The caller asked for something that makes no sense (exit code 2)."""

    code = "usage"


class DeviceError(PegaTuneError):
    """The environment or the device cannot do it (exit code 3)."""

    code = "device"


class DataError(PegaTuneError):
    """An input file, a database or a migration was refused (exit code 4)."""

    code = "data"
