"""Ranges of which it is known how they lie, after a quick sweep, which measures such without decode alone."""

import json

from tests.helpers.cli import Program

SHAPES = (
    {"merged_ranges": 512, "total_bytes": 8 << 20, "direction": "both", "host_runs": 1},
    {"merged_ranges": 256, "total_bytes": 4 << 20, "direction": "both", "host_runs": 4},
)


def test_what_a_quick_sweep_measured_of_shapes_is_what_is_answered_about_them(program: Program) -> None:
    shapes = program.folder / "shapes.jsonl"
    shapes.write_text("".join(f"{json.dumps(shape)}\n" for shape in SHAPES))
    device = ("--device", "sim:h200")
    swept = program("sweep", *device, "--preset", "quick", "--shapes", shapes)
    assert swept.code == 0, swept.stderr
    asked = program("decide", *device, "--shapes", shapes, "--json")
    idle = program("decide", *device, "--shapes", shapes, "--colocation", "idle", "--json").json["answers"]
    plain = program("decide", *device, "--ranges", 512, "--bytes", "8MiB", "--json").json
    for answer, alone, hint in zip(asked.json["answers"], idle, ("host-ordered", "host-runs"), strict=True):
        assert (answer["plan"], answer["predicted"]) == (alone["plan"], alone["predicted"])
        assert (answer["colocation"], answer["hint"]) == ("idle", hint)
        assert (answer["evidence"], answer["budget_met"]) == ("none", False)
        assert f"time-sliced was not measured with ranges that lie so ({hint})" in " ".join(answer["warnings"])
        assert hint in asked.stderr
    assert (plain["colocation"], plain["hint"]) == ("time-sliced", "none")
    assert asked.json["answers"][0]["predicted"]["time_s"] < plain["predicted"]["time_s"]
