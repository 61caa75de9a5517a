"""Commands that are advised, as whoever reads of them has to type them."""

import re
import shlex

from pega_tune.profiles.policy.urls import without_passwords

# One that says which database it is about is left alone, and so is one that only asks for help.
_ABOUT_A_DATABASE = re.compile(
    r"\bpega-tune (?=(?:sweeps?|decide|verify|export|import|profiles|fleet|db|bench (?:lookup|regret))\b)"
    r"(?![a-z -]* --help\b)"
)


def on_database(text: str, database: str | None) -> str:
    """The text with the database in every `pega-tune COMMAND` that would else look at another one.

    Args:
        text: of any length; what is no such command stays as it is.
        database: as given with `--db`, its password blotted out here; None if it was not.
    """
    if not database:
        return text
    command = f"pega-tune --db {shlex.quote(without_passwords(database))} "
    return _ABOUT_A_DATABASE.sub(lambda _: command, text)
