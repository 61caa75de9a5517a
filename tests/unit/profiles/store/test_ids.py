"""Ids."""

import re

from pega_tune.profiles.store.ids import new_id


def test_short_lower_case_hex_and_never_the_same() -> None:
    ids = {new_id() for _ in range(1000)}
    assert len(ids) == 1000
    assert all(re.fullmatch(r"[0-9a-f]{12}", each) for each in ids)
