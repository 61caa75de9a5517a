"""Which texts are URLs of databases, and how they are shown."""

import pytest

from pega_tune.errors import UsageError
from pega_tune.profiles.policy.urls import malformed, require_file_name, require_url, without_passwords


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("postgresql://u:s3cret@host/x", "postgresql://u:***@host/x"),
        ("'postgresql://u@10.0.0.1:s3cret/x' is", "'postgresql://u@10.0.0.1:***/x' is"),
        ("postgresql://u@h1:5432,h2:5433/x", "postgresql://u@h1:5432,h2:5433/x"),
        ("postgresql://u:s3@c/r?e#t@host/x", "postgresql://u:***@host/x"),
        ("postgresql://u@corp:s3cret@host/x", "postgresql://u@corp:***@host/x"),
        ("postgresql://:s3cret@host/x", "postgresql://:***@host/x"),
        ("postgresql://h/x?user=u&password=s3cret&a=b", "postgresql://h/x?user=u&password=***&a=b"),
        ("postgresql://h/x?passfile=/s3cret&PASSWORD=s3cret'", "postgresql://h/x?passfile=***&PASSWORD=***"),
        ("postgresql:/u:s3cret@host/x", "postgresql:/u:***@host/x"),
        ("postgresql//u:s3cret@host/x", "postgresql//u:***@host/x"),
        ("no 'u:s3cret@host/x' here", "no 'u:***@host/x' here"),
        ("(postgresql://u:my s3cret@host/x)", "(postgresql://u:***@host/x)"),
        ("(postgresql://u:s3cret/x)", "(postgresql://u:***/x)"),
        ("host=h password = 'my s3cret' dbname=x", "host=h password = *** dbname=x"),
        ("postgresql://host:5432/x and me@here", "postgresql://host:5432/x and me@here"),
        ("postgresql://h1:1,h2:2/x, postgresql://[::1]:5432", "postgresql://h1:1,h2:2/x, postgresql://[::1]:5432"),
        ("see postgresql://u@host:5432/x", "see postgresql://u@host:5432/x"),
        ("(http://u:s3cret/x)", "(http://u:***/x)"),
        ("http://host:8431; http://host:8431/v1, http://host", "http://host:8431; http://host:8431/v1, http://host"),
        ("sqlite:////data/a:b@c.db", "sqlite:////data/a:b@c.db"),
    ],
)
def test_passwords_are_blotted_out_and_nothing_else(text: str, shown: str) -> None:
    assert without_passwords(text) == shown


def test_a_refused_url_is_shown_without_its_password_even_with_blanks_in_it() -> None:
    assert "s3cret" not in malformed("postgresql://u:my s3cret@host:port/x").message


def test_a_password_without_a_host_is_not_shown() -> None:
    assert "s3cret" not in malformed("postgresql://u:s3cret/x").message


@pytest.mark.parametrize(
    "text",
    [
        "postgresql:/u:s3cret@h/x",
        "postgresql//u:s3cret@h/x",
        "postgresql:u:s3cret@h/x",
        "u:s3cret@h/x",
        "postgres u:s3cret@h/x",
        "u:my/s3cret@h/x",
        "postgresql;//u:s3cret@h/x",
        "'postgresql:/u:s3cret@h/x'",
        "host=h password = s3cret",
        "host=h password=s3cret dbname=x",
    ],
)
def test_a_url_gone_wrong_is_no_file_name(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        require_file_name(text)
    assert "s3cret" not in caught.value.message


@pytest.mark.parametrize("text", ["postgres/x.db", "a b:c.db", "postgresql.db", "C:x.db", "x@y.db"])
def test_other_names_are_those_of_files(text: str) -> None:
    require_file_name(text)


@pytest.mark.parametrize(
    "url",
    ["sqlite:////data/a#b %.db", "postgresql+psycopg://u:p%40w@[::1]:5432/x?sslmode=require", "postgresql://", "x://"],
)
def test_urls_of_any_kind_pass(url: str) -> None:
    require_url(url)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "://",
        "://x",
        "a/b.db",
        "1x://h",
        "p://u:p@h:port/x",
        "p://h:99999/x",
        "p://[::1/x",
        "p://u:a@b@h",
        "p:///\udcff",
    ],
)
def test_what_is_no_url_is_refused(url: str) -> None:
    with pytest.raises(UsageError) as caught:
        require_url(url)
    assert caught.value.hint
