"""URLs that a blank cuts in pieces: of a single piece nobody can tell that it is a part of a password."""

import re
from collections.abc import Sequence

# From a user to the last @ after it, over blanks, but not into another option. The scheme may be missing, or mistyped.
_PASSWORD = re.compile(r"""(?:^|[\s'"=(])(?:[\w+]*[:;]?/{1,2})?[^:/\s@'"]*:((?:(?!\s-)[\s\S])*)@""")


def shows_password(text: str, arguments: Sequence[str]) -> bool:
    """Whether a text shows a piece of a password that blanks cut, within or between the arguments.

    Args:
        text: what is to be shown.
        arguments: what the user wrote.
    """
    passwords = (found[1] for found in _PASSWORD.finditer(" ".join(arguments)))
    cut = [password.split() for password in passwords if re.search(r"\s", password)]
    pieces = {piece for words in cut for piece in words if len(piece) > 1}
    return any(re.search(rf"(?<!\w){re.escape(piece)}(?!\w)", text) for piece in pieces)
