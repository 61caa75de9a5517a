"""Sweeps of all plans, and sweeps in files."""

import json

from pega_tune.autotune.replay.codec import decode
from tests.helpers.cli import Program


def test_a_sweep_is_exported_with_all_its_samples(informed: Program) -> None:
    (listed,) = informed("sweeps", "list", "--json").json["sweeps"]
    file = informed.folder / "sweep.jsonl.gz"
    words = ("--commit", "abc", "--command", "pega-tune sweep")
    told = informed("sweeps", "export", listed["sweep"], "-o", file, *words, "--json").json
    assert told == {
        "sweep": listed["sweep"],
        "file": str(file),
        "blocks": listed["blocks"],
        "bytes": file.stat().st_size,
    }
    recording = decode(file.read_bytes())
    assert (recording.commit, recording.command) == ("abc", "pega-tune sweep")
    assert sum(len(block.cells) for block in recording.blocks) == listed["cells"]


def test_a_sweep_that_is_not_there_and_a_file_that_cannot_be_written_are_refused(informed: Program) -> None:
    assert informed("sweeps", "export", "nothing", "-o", informed.folder / "file").code == 4
    assert not (informed.folder / "file").exists()
    (listed,) = informed("sweeps", "list", "--json").json["sweeps"]
    result = informed("sweeps", "export", listed["sweep"], "-o", informed.folder / "no" / "file")
    assert result.code == 4
    assert len(result.errors) == 1


def test_it_goes_to_stdout_as_it_is(informed: Program) -> None:
    (listed,) = informed("sweeps", "list", "--json").json["sweeps"]
    file, piped = informed.folder / "file", informed.folder / "piped"
    informed("sweeps", "export", listed["sweep"], "-o", file)
    with piped.open("w") as stdout:
        assert informed.finish(informed.start("sweeps", "export", listed["sweep"], "-o", "-", stdout=stdout)).code == 0
    assert piped.read_bytes() == file.read_bytes()
    assert not (informed.folder / "-").exists()
    for words in (("-", "--json"), ("",)):
        assert informed("sweeps", "export", listed["sweep"], "-o", *words).code == 2


def test_all_plans_are_compared_at_the_shapes_of_the_user(program: Program) -> None:
    shapes = program.folder / "shapes.jsonl"
    shapes.write_text(json.dumps({"merged_ranges": 8, "total_bytes": 80_000, "direction": "h2d"}))
    result = program("sweep", "--device", "sim:h200", "--exhaustive", "--shapes", shapes, "--json")
    assert (result.code, result.json["state"], result.json["blocks"]) == (5, "draft", 1)
    assert "about" in result.stderr
    (listed,) = program("sweeps", "list", "--json").json["sweeps"]
    assert (listed["preset"], listed["cells"]) == ("thorough", result.json["cells"])
    assert result.json["cells"] > 20


def test_the_plans_at_the_shapes_of_the_user_can_be_searched_for(program: Program) -> None:
    shapes = program.folder / "shapes.jsonl"
    shapes.write_text(json.dumps({"merged_ranges": 3000, "total_bytes": 3000 * 5000, "direction": "h2d"}))
    words = ("sweep", "--device", "sim:h200", "--decode", "none", "--search", "adaptive", "--json")
    result = program(*words, "--shapes", shapes)
    assert (result.code, result.json["state"]) == (0, "published")
    assert program("sweep", "--device", "sim:h200", "--search", "greedy").code == 2


def test_all_plans_and_decode_do_not_go_together(program: Program) -> None:
    assert program("sweep", "--device", "sim:h200", "--exhaustive", "--decode", "builtin").code == 2
