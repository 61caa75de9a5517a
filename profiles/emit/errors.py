"""What cannot be written down."""

from pega_tune.errors import DataError


class EmitError(DataError):
    """A profile has something that the format cannot hold."""

    code = "cannot-emit"
