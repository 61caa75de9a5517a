"""What a connection is for."""

from enum import StrEnum


class Access(StrEnum):
    """What a connection is for.

    `EXAMINE` changes nothing and takes any schema, or none; the others but `MIGRATE` rely on that of this version.
    """

    EXAMINE = "examine"
    READ = "read"
    WRITE = "write"
    MIGRATE = "migrate"
