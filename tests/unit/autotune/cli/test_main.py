import pytest

from pega_tune.autotune.cli.main import Invocation, separate


@pytest.mark.parametrize(
    "argv",
    [
        ["--db", "a.db", "--json", "sweeps", "show", "x"],
        ["sweeps", "show", "x", "--json", "--db", "a.db"],
        ["--json", "sweeps", "--db=a.db", "show", "x"],
    ],
)
def test_global_options_are_accepted_before_and_after_the_command(argv: list[str]) -> None:
    assert separate(argv) == Invocation("a.db", json=True, debug=False, rest=("sweeps", "show", "x"))


def test_the_last_database_counts() -> None:
    assert separate(["--db", "a", "doctor", "--db", "b"]).database == "b"


def test_what_follows_two_dashes_is_left_alone() -> None:
    call = separate(["db", "backup", "--", "--json"])
    assert call == Invocation(None, json=False, debug=False, rest=("db", "backup", "--", "--json"))


def test_a_database_option_without_a_value_is_left_to_the_parser() -> None:
    for argv in (["doctor", "--db"], ["doctor", "--db", "--json"]):
        assert separate(argv).rest == ("--db",)
