"""Ids of sweeps and profiles."""

import secrets

ID_BYTES = 6


def new_id() -> str:
    """A fresh id: 12 lower-case hex digits, random, so that databases can be joined without renaming.

    With a million ids the odds of any two being equal are about 1 in 560 (birthday bound over 2^48).
    """
    return secrets.token_hex(ID_BYTES)
