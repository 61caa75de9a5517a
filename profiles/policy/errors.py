"""What can go wrong on the way from a question to a decision."""

from pega_tune.errors import DataError, UsageError


class QuestionError(UsageError):
    """A look-up was asked in words or numbers that make no sense."""

    code = "bad-question"


class PolicyFormatError(DataError):
    """Tables of a profile are damaged, contradict themselves, or were written by a newer version."""

    code = "bad-policy"


class ProfileDatabaseError(DataError):
    """A database cannot be read as a pega-tune database."""

    code = "bad-database"
