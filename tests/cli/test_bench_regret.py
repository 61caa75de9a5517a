"""`pega-tune bench regret` on the simulated device."""

import json

import pytest

from pega_tune.autotune.static_rules import STATIC_RULES
from tests.helpers.cli import Program

BENCH = ("bench", "regret", "--device", "sim:h200")
TAIL = (*BENCH, "--objective", "tail-bounded")
RULES = {"auto", *(rule.name for rule in STATIC_RULES)}


def test_every_rule_is_a_row_beside_the_floor(informed: Program) -> None:
    result = informed(*BENCH, "--count", 2, "--seed", 1, "--json")
    assert result.code == 0, result.stderr
    document = result.json
    assert (document["device"], document["simulated"], document["tier"]) == ("sim:h200", True, "board")
    assert document["profile"]
    assert (document["objective"], document["seed"], document["count"]) == ("throughput", 1, 6)
    assert 0 <= document["floor"] <= document["floor_max"] < 0.1
    assert document["rows"][0]["rule"] == "auto"
    for answer in (document, *document["directions"]):
        assert {row["rule"] for row in answer["rows"]} == RULES
        assert {row["n"] for row in answer["rows"]} == {6 if answer is document else 2}
        for row in answer["rows"]:
            assert row["mean"] <= row["max"]
            assert row["p95"] <= row["max"]
    assert [answer["direction"] for answer in document["directions"]] == ["h2d", "d2h", "both"]
    assert {answer["layout"] for answer in document["layouts"]} == {
        shape["layout"].partition(":")[0] for shape in document["shapes"]
    }
    for shape in document["shapes"]:
        assert shape["chosen"]
        assert shape["best"]
        assert shape["ranges"] * 256 <= shape["bytes"] <= 512 << 20


def test_how_long_it_takes_is_told_first_and_the_table_is_marked_as_simulated(informed: Program) -> None:
    result = informed(*BENCH, "--count", 1, "--direction", "h2d")
    assert result.code == 0, result.stderr
    assert result.stderr.splitlines()[1].startswith("shapes to measure: 1; about ")
    lines = result.stdout.splitlines()
    assert "SIMULATED" in lines[0]
    assert [line.split()[1] for line in lines if line.startswith("h2d")][:2] == ["floor", "auto"]


def test_equal_seeds_give_equal_answers(informed: Program) -> None:
    asked = (*BENCH, "--count", 1, "--direction", "both", "--json")
    one, again, other = (informed(*asked, "--seed", seed).json["shapes"] for seed in (1, 1, 2))
    assert one == again != other


def test_a_named_profile_answers(informed: Program) -> None:
    (known,) = informed("profiles", "list", "--json").json["profiles"]
    asked = (*BENCH, "--count", 1, "--direction", "h2d", "--json")
    assert informed(*asked, "--profile", known["id"][:6]).json["profile"] == known["id"]
    refused = informed(*asked, "--profile", "nothing")
    assert (refused.code, refused.json["error"]["code"]) == (4, "not-found")


@pytest.mark.parametrize("bench", [BENCH, TAIL])
def test_without_a_profile_there_is_nothing_to_judge(program: Program, bench: tuple[str, ...]) -> None:
    result = program(*bench, "--count", 1, "--direction", "h2d", "--json")
    assert (result.code, result.json["error"]["code"]) == (4, "no-profile")
    assert "no profile fits sim:h200" in result.json["error"]["message"]
    assert "sweep --device sim:h200" in result.json["error"]["message"]
    assert not program.database.exists()


def test_directions_without_a_shape_have_no_rows(informed: Program) -> None:
    file = informed.folder / "shapes.jsonl"
    file.write_text('{"merged_ranges": 8, "total_bytes": 65536, "direction": "h2d"}\n')
    result = informed(*BENCH, "--shapes", file)
    assert result.code == 0, result.stderr
    table = result.stdout.partition("DIRECTION")[2].splitlines()[1:]
    assert {line.split()[0] for line in table} == {"h2d"}


def test_too_few_claims_are_told_and_what_was_not_claimed_is_not_called_a_failure(informed: Program) -> None:
    asked = (*TAIL, "--count", 50, "--direction", "h2d", "--within", "1ns")  # of which none is measured
    result = informed(*asked)
    assert "instead of 50" in result.stderr
    assert "a standard sweep has more" in result.stderr
    (told,) = [line for line in result.stdout.splitlines() if line.startswith("not claimed:")]
    assert told.split(maxsplit=2)[2] == "in 0 of 0 something kept the budget, in 0 auto did"


def test_shapes_of_a_file_are_judged_instead(informed: Program) -> None:
    file = informed.folder / "shapes.jsonl"
    strided = {"merged_ranges": 512, "total_bytes": 512 * 4096, "direction": "d2h", "host_runs": 1, "pitch": 8192}
    file.write_text(json.dumps(strided) + "\n")
    document = informed(*BENCH, "--shapes", file, "--direction", "d2h", "--json").json
    (shape,) = document["shapes"]
    assert (shape["ranges"], shape["bytes"], shape["direction"], shape["layout"]) == (512, 2097152, "d2h", "strided")
    assert document["directions"][0]["rows"][0]["n"] == 1


def test_shapes_that_find_no_room_or_no_time_are_counted(informed: Program) -> None:
    file = informed.folder / "shapes.jsonl"
    huge = {"merged_ranges": 1, "total_bytes": 1 << 40, "direction": "h2d"}
    small = {"merged_ranges": 1, "total_bytes": 4096, "direction": "h2d"}
    file.write_text(f"{json.dumps(huge)}\n{json.dumps(small)}\n")
    asked = (*BENCH, "--shapes", file, "--direction", "h2d", "--json")
    whole, none = informed(*asked), informed(*asked, "--within", "1ns")
    assert (whole.json["count"], whole.json["left_out"]) == (1, {"too_large": 1, "too_late": 0})
    assert (none.json["count"], none.json["left_out"]) == (0, {"too_large": 1, "too_late": 1})
    assert "because the time was up" in none.stderr
    assert none.json["floor"] is None
    assert {row["n"] for row in none.json["rows"]} == {0}


def test_claims_are_checked_beside_decode(informed: Program) -> None:
    file = informed.folder / "shapes.jsonl"
    file.write_text('{"merged_ranges": 16384, "total_bytes": 67108864}\n{"merged_ranges": 4, "total_bytes": 262144}\n')
    result = informed(*TAIL, "--shapes", file, "--json")
    assert result.code == 0, result.stderr
    document = result.json
    assert (document["objective"], document["colocation"], document["budget"]) == ("tail-bounded", "time-sliced", 0.1)
    counts = document["claims"]
    assert counts["claimed"] + counts["unclaimed"] == document["count"] == 2
    assert {row["rule"] for row in document["rows"]} == RULES
    for shape in document["shapes"]:
        auto = next(row for row in shape["rows"] if row["name"] == "auto")
        assert auto["plan"] == shape["chosen"]
        assert shape["step_s"] > 0
        kept = auto["stall_s"] <= 0.1 * shape["step_s"] and auto["completion_s"] < 0.05
        assert kept or not shape["kept"]
    table = informed(*TAIL, "--shapes", file).stdout.splitlines()
    assert any(line.startswith("claims kept:") for line in table)
    assert "instead of" not in result.stderr  # as many as the file has
    assert any(line.startswith("auto ") for line in table)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--objective", "balanced"), "balanced"),
        (("--direction", "up"), "there is no direction"),
        (("--count", 0), "1 to 10,000"),
        (("--seed", -1), "a seed is"),
        (("--budget", 0.1), "--budget is for"),
        (("--colocation", "mps"), "--colocation is for"),
        (("--start-mps",), "--start-mps is for"),
        (("--objective", "tail-bounded", "--colocation", "mps,time-sliced"), "one colocation"),
        (("--objective", "tail-bounded", "--colocation", "idle"), "no decode"),
        (("--within", "soon"), "not a duration"),
        (("--count", 1, "--shapes", "shapes.jsonl"), "--count"),
    ],
)
def test_what_makes_no_sense_is_refused(program: Program, options: tuple[object, ...], message: str) -> None:
    (program.folder / "shapes.jsonl").write_text('{"merged_ranges": 1, "total_bytes": 4096}\n')
    result = program(*BENCH, *options, "--json")
    assert result.code == 2
    assert message in result.json["error"]["message"]


@pytest.mark.parametrize("fault", ["throttled", "contended"])
def test_a_disturbed_device_is_flagged(informed: Program, fault: str) -> None:
    asked = ("--count", 1, "--direction", "h2d", "--json")
    result = informed("bench", "regret", "--device", f"sim:h200+{fault}", *asked)
    assert result.code == 5
    assert result.json["flags"] == [fault]
    assert fault in result.stderr
