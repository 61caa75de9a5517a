"""`pega-tune bench lookup`: a row for each way of looking up, and whose profile it was."""

import re

from tests.helpers.cli import Program


def test_every_way_has_a_row(informed: Program) -> None:
    result = informed("bench", "lookup", "--device", "sim:h200", "--seed", 3, "--json")
    assert result.code == 0, result.stderr
    document = result.json
    (listed,) = informed("profiles", "list", "--json").json["profiles"]
    assert (document["profile"], document["simulated"], document["seed"]) == (listed["id"], True, 3)
    assert {row["name"] for row in document["rows"]} == {"dict", "decide", "decide-keywords", "decide-many", "load"}
    assert all(row["median_s"] > 0 for row in document["rows"])


def test_only_look_ups_are_compared_with_a_dictionary(informed: Program) -> None:
    lines = informed("bench", "lookup", "--device", "sim:h200").stdout.splitlines()
    *lookups, load = (re.split(r"\s{2,}", line) for line in lines[-5:])
    assert (load[0], load[2]) == ("load", "-")
    assert all(float(cells[2]) < 1000 for cells in lookups)


def test_without_a_profile_it_says_whose_it_takes(program: Program) -> None:
    result = program("bench", "lookup")
    assert result.code == 0, result.stderr
    first, *rest = result.stdout.splitlines()
    assert first.startswith("profile: ")
    assert "as no" in first
    assert any(line.startswith("decide-many ") for line in rest)
    assert list(program.folder.glob("*.db")) == []
