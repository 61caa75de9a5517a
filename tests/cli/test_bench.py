"""`pega-tune bench transfer` on the simulated device."""

import json

import pytest

from tests.helpers.cli import Program, interrupted

BENCH = ("bench", "transfer", "--device", "sim:h200")
KEYS = {
    "name", "kind", "backend", "direction", "bytes_per_s", "ratio_to_ceiling", "host_s", "prepare_s", "sm_s"
}  # fmt: skip


def test_by_default_each_direction_is_measured(program: Program) -> None:
    result = program(*BENCH, "--json")
    assert result.code == 0, result.stderr
    document = result.json
    assert (document["device"], document["simulated"], document["layout"]) == ("sim:h200", True, "shuffled")
    assert (document["ranges"], document["range_bytes"]) == (16384, 4096)
    assert {row["direction"] for row in document["rows"]} == {"h2d", "d2h", "both"}
    assert {row["kind"] for row in document["rows"]} == {"plan", "static", "ceiling"}
    for row in document["rows"]:
        assert row.keys() >= KEYS
        assert row["bytes_per_s"] > 0
        assert 0 < row["ratio_to_ceiling"] <= 1.05
        assert row["host_s"] > 0
        assert row["prepare_s"] >= 0
        backends = set(row["backend"].split("+"))
        if "batch" in backends:
            assert (row["sm_s"], row["span_s"]) == (None, None)
        else:
            assert (row["sm_s"] > 0) == (row["span_s"] > 0) == bool(backends & {"kernel", "staged"})
    assert sum(row["kind"] == "ceiling" for row in document["rows"]) == 3


@pytest.mark.parametrize(
    ("layout", "backend"), [("strided", "pitched"), ("host-ordered", "staged"), ("contiguous", "direct")]
)
def test_layouts_have_their_winners(program: Program, layout: str, backend: str) -> None:
    rows = program(*BENCH, "--layout", layout, "--direction", "both", "--json").json["rows"]
    best = max((row for row in rows if row["kind"] != "ceiling"), key=lambda row: row["bytes_per_s"])
    assert best["backend"] == backend


def test_ranges_and_sizes_are_the_users(program: Program) -> None:
    batch = ("--ranges", 100, "--range-bytes", "64KiB", "--layout", "runs:10")
    document = program(*BENCH, *batch, "--direction", "d2h", "--rounds", 2, "--json").json
    assert (document["ranges"], document["range_bytes"], document["layout"]) == (100, 65536, "runs:10")
    assert {row["direction"] for row in document["rows"]} == {"d2h"}
    assert {row["rounds"] for row in document["rows"]} == {2}


def test_the_table_is_marked_as_simulated_and_stays_in_lines(program: Program) -> None:
    result = program(*BENCH, "--direction", "h2d")
    lines = result.stdout.splitlines()
    assert result.code == 0
    assert "SIMULATED" in lines[0]
    assert lines[3].startswith("NAME ")
    assert lines[4].startswith("ceiling ")
    assert any(line.startswith("vllm-28kib ") for line in lines)
    assert result.stderr == "simulated device sim:h200: NVIDIA H200 (simulated)\n"


def test_equal_seeds_give_equal_answers(program: Program) -> None:
    asked = (*BENCH, "--direction", "h2d", "--json")
    one, again, other = (program(*asked, "--seed", seed).json["rows"] for seed in (1, 1, 2))
    assert one == again != other


def test_each_shape_of_a_file_is_a_batch(program: Program) -> None:
    path = program.folder / "shapes.jsonl"
    lines = [
        {"merged_ranges": 64, "total_bytes": 64 * 4097 - 1, "direction": "h2d"},
        {"merged_ranges": 128, "total_bytes": 1 << 20, "direction": "d2h", "host_runs": 8},
        {"merged_ranges": 128, "total_bytes": 1 << 20, "direction": "both", "host_runs": 1, "pitch": 9000},
    ]
    path.write_text("\n".join(map(json.dumps, lines)))
    result = program(*BENCH, "--shapes", path, "--rounds", 2, "--json")
    assert result.code == 0, result.stderr
    batches = result.json["batches"]
    assert [(each["ranges"], each["range_bytes"], each["layout"]) for each in batches] == [
        (64, 4096, "shuffled"), (128, 8192, "runs:8"), (128, 8192, "strided")
    ]  # fmt: skip
    assert [{row["direction"] for row in each["rows"]} for each in batches] == [{"h2d"}, {"d2h"}, {"both"}]
    text = program(*BENCH, "--shapes", path, "--rounds", 2).stdout
    assert text.count("batch: ") == text.count("NAME ") == 3


def test_nothing_is_stored(program: Program) -> None:
    program(*BENCH, "--direction", "h2d")
    assert not program.database.exists()


@pytest.mark.parametrize("fault", ["throttled", "contended"])
def test_a_disturbed_device_is_flagged(program: Program, fault: str) -> None:
    result = program("bench", "transfer", "--device", f"sim:h200+{fault}", "--direction", "h2d", "--json")
    assert result.code == 5
    assert result.json["flags"] == [fault]
    assert fault in result.stderr


@pytest.mark.parametrize(("fault", "status"), [("mismatch", "mismatch"), ("crash", "crashed")])
def test_what_failed_is_listed_and_flagged(program: Program, fault: str, status: str) -> None:
    result = program("bench", "transfer", "--device", f"sim:h200+{fault}", "--direction", "h2d", "--json")
    assert result.code == 5, result.stderr
    (failed,) = [row for row in result.json["rows"] if row["status"] != "ok"]
    assert (failed["status"], failed["bytes_per_s"], failed["ratio_to_ceiling"]) == (status, None, None)
    assert failed["detail"]
    assert f"h2d: {failed['name']}: {status}" in result.stderr


def test_an_interruption_ends_it(program: Program) -> None:
    result = interrupted(program, "bench", "transfer", "--device", "sim:h200+hang")
    assert result.code == 130
    assert result.stdout == ""
    assert result.errors == ["error: interrupted"]
