import pytest

from pega_tune.autotune.cli.cut_urls import shows_password


@pytest.mark.parametrize(
    "arguments",
    [
        ("--db", "postgresql://u:my", "s3cret@h/x", "decide"),
        ("--db=postgresql://u:my", "s3cret@h/x", "decide"),
        ("decide", "u:s3cret my@h/x"),
        ("decide", "http://u:s3cret", "@h/x"),
        ("decide", "postgresql://u:", "s3cret@h/x"),
    ],
)
def test_a_piece_of_a_cut_password_is_not_to_be_shown(arguments: tuple[str, ...]) -> None:
    assert shows_password("no such command 's3cret@h/x'", arguments)
    assert not shows_password("no such command 'other'", arguments)


@pytest.mark.parametrize(
    "arguments",
    [
        ("decide", "--device", "sim:h200", "--objective", "me@here"),
        ("export", "--shapes", "C:x", "--sign", "me@here"),
        ("postgresql://u:whole@h/x", "me"),
    ],
)
def test_what_is_no_cut_url_may_be_shown(arguments: tuple[str, ...]) -> None:
    assert not shows_password(" ".join(arguments), arguments)
