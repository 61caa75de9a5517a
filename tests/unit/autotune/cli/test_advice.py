"""Commands in messages: they name the database that the user named, and work when pasted."""

import pytest

from pega_tune.autotune.cli.advice import on_database


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("run pega-tune sweep --device 1 again", "run pega-tune --db a.db sweep --device 1 again"),
        (
            "`pega-tune sweep` or `pega-tune db upgrade`",
            "`pega-tune --db a.db sweep` or `pega-tune --db a.db db upgrade`",
        ),
        ("pega-tune bench regret judges", "pega-tune --db a.db bench regret judges"),
        # What looks at no database, what names one, and what is no command.
        ("`pega-tune doctor` and `pega-tune bench transfer`", "`pega-tune doctor` and `pega-tune bench transfer`"),
        ("pega-tune --db FILE fleet pull", "pega-tune --db FILE fleet pull"),
        ("install the pega-tune that wrote it", "install the pega-tune that wrote it"),
        ("not a pega-tune database", "not a pega-tune database"),
    ],
)
def test_a_command_about_a_database_names_it(text: str, told: str) -> None:
    assert on_database(text, "a.db") == told
    assert on_database(text, None) == text


def test_a_database_is_written_as_a_shell_reads_it() -> None:
    assert on_database("pega-tune sweep", r"a b\1.db") == r"pega-tune --db 'a b\1.db' sweep"


def test_a_password_is_not_told() -> None:
    told = on_database("pega-tune sweep", "postgresql://me:secret@host/db")
    assert "--db" in told
    assert "secret" not in told
