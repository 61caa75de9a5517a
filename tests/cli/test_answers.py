"""What the commands answer from a finished sweep of the simulated device."""

import re

import pytest

from tests.helpers.cli import Program

LARGE = ("--ranges", 16_384, "--bytes", 64 << 20, "--direction", "h2d")
PLAN_KEYS = {"backend", "variant", "max_grid_blocks", "chunk_descriptors", "chunk_bytes"}


def test_a_sweep_publishes_a_profile(program: Program) -> None:
    result = program("sweep", "--device", "sim:h200", "--preset", "quick", "--json")
    assert result.code == 0, result.stderr
    answer = result.json
    assert answer.keys() == {"sweep", "profile", "state", "reasons", "lost", "blocks", "cells", "seconds"}
    assert answer["state"] == "published"
    assert answer["reasons"] == answer["lost"] == []
    assert 0 < answer["blocks"] < answer["cells"]
    (listed,) = program("profiles", "list", "--json").json["profiles"]
    assert listed.keys() >= {"id", "device", "class", "state", "published_at", "simulated"}
    assert (listed["id"], listed["state"], listed["simulated"]) == (answer["profile"], "published", True)


def test_the_estimate_and_progress_go_to_stderr(program: Program) -> None:
    result = program("sweep", "--device", "sim:h200")
    # A database on an unusual file system is worth a warning, which is not what this is about.
    first, second, *rest = [line for line in result.stderr.splitlines() if not line.startswith("warning:")]
    assert first == "simulated device sim:h200: NVIDIA H200 (simulated)"
    assert "about" in second
    assert "begins nothing new after 49.0 s" in second
    assert rest[-1].startswith("block ")
    assert "\r" not in result.stderr
    assert "block" not in result.stdout.replace("blocks", "")


def test_shapes_of_the_user_are_measured(program: Program) -> None:
    shapes = program.folder / "shapes.jsonl"
    shapes.write_text('{"merged_ranges": 777, "total_bytes": 77700, "direction": "d2h"}\n')
    result = program("sweep", "--device", "sim:h200+slow", "--shapes", shapes, "--budget", "1s", "--json")
    assert result.code == 5
    assert result.json["state"] == "partial"
    assert "out of time" in " ".join(result.json["reasons"])
    assert result.stderr.splitlines()[-1].endswith(f"sweep --resume {result.json['sweep']} --budget TIME")
    shown = program("sweeps", "show", result.json["sweep"], "--json").json
    assert shown["axes"]["backends"]


def test_a_throttled_sweep_is_flagged(program: Program) -> None:
    result = program("sweep", "--device", "sim:h200+throttled", "--json")
    assert result.code == 5
    assert result.json["state"] == "draft"
    assert "throttled" in " ".join(result.json["reasons"])
    assert program("sweeps", "show", result.json["sweep"], "--json").json["flags"]["throttled"] > 0
    decision = program("decide", "--device", "sim:h200", *LARGE, "--json").json
    assert (decision["tier"], decision["profile"]) == ("rule", None)


def test_a_busy_device_is_measured_if_allowed(program: Program) -> None:
    assert program("sweep", "--device", "sim:h200+busy").code == 3
    assert program("sweep", "--device", "sim:h200+busy", "--allow-busy").code == 5  # contended: a draft


def test_sweeps_show_lists_what_was_measured(informed: Program) -> None:
    (summary,) = informed("sweeps", "list", "--json").json["sweeps"]
    shown = informed("sweeps", "show", summary["sweep"][:6], "--json").json
    axes = shown["axes"]
    assert summary.items() <= shown.items()
    assert shown["state"] == "finished"
    assert len(axes["grids"]) >= 4
    assert len(axes["threads"]) >= 3
    assert set(axes["priorities"]) == {"0", "-1", "-2", "-3", "-4", "-5"}
    assert all(count > 0 for axis in axes.values() for count in axis.values())
    assert shown["statuses"]["ok"] == shown["cells"]


def test_profiles_show_marks_what_is_simulated(informed: Program) -> None:
    (listed,) = informed("profiles", "list", "--json").json["profiles"]
    text = informed("profiles", "show", listed["id"]).stdout
    document = informed("profiles", "show", listed["id"], "--json").json
    assert "simulated: " in text
    assert "kernel/warp" in text
    assert document["simulated"] is True
    assert {table["direction"] for table in document["tables"]} == {"h2d", "d2h", "both"}
    assert all(entry["time_s"] > 0 for table in document["tables"] for entry in table["fastest"])


def test_profiles_show_marks_what_was_not_measured_beside_decode(informed: Program) -> None:
    (listed,) = informed("profiles", "list", "--json").json["profiles"]
    tables = informed("profiles", "show", listed["id"], "--json").json["tables"]
    (beside,) = [
        table["fastest"]
        for table in tables
        if (table["direction"], table["colocation"], table["runtime"]) == ("both", "time-sliced", "full")
        if table["hint"] == "none"
    ]
    assert {(entry["merged_ranges"], entry["range_bytes"]) for entry in beside if entry["evidence"] == "measured"} == {
        (16_384, 4096)
    }
    lines = informed("profiles", "show", listed["id"]).stdout.splitlines()
    begin = next(n for n, line in enumerate(lines) if line.startswith("both, time-sliced, runtime full ("))
    assert lines[begin + 1].split()[:4] == ["RANGES", "OF", "TIME", "STALL"]
    for entry, line in zip(beside, lines[begin + 2 :], strict=False):
        assert line.startswith(f"{entry['merged_ranges']} ")
        assert ("no evidence" in line) == (entry["evidence"] == "none") == (entry["stall_s"] is None)
        assert (", fitted" in line) == (entry["evidence"] == "fitted")
        assert entry["basis"] in line
        assert (entry["evidence"] == "measured") == (entry["basis"] == "measured")
        assert {"measured, idle", "interpolated, idle"} >= {each["basis"] for each in beside} - {"measured"}
    idle = next(n for n, line in enumerate(lines) if line.startswith("both, idle, runtime full ("))
    assert "STALL" not in lines[idle + 1]


def test_many_small_ranges_get_a_bounded_kernel_and_one_large_one_does_not(informed: Program) -> None:
    many = informed("decide", "--device", "sim:h200", *LARGE, "--json").json
    one = informed(
        "decide", "--device", "sim:h200", "--ranges", 1, "--bytes", 64 << 20, "--direction", "h2d", "--json"
    ).json
    assert many["plan"]["backend"] == "kernel"
    assert many["plan"]["max_grid_blocks"] < 1024
    assert one["plan"]["backend"] == "direct"
    assert many["tier"] == one["tier"] == "board"
    assert many["simulated"] is one["simulated"] is True


def test_a_decision_has_the_keys_of_the_contract(informed: Program) -> None:
    pair = informed("decide", "--device", "sim:h200", "--ranges", 64, "--bytes", 65536, "--json").json
    single = informed("decide", "--device", "sim:h200", *LARGE, "--json").json
    for decision in (pair, single):
        assert decision.keys() >= {"plan", "predicted", "budget_met", "tier", "profile", "evidence", "simulated"}
        assert decision["predicted"].keys() == {"time_s", "stall_s", "completion_p99_s"}
        assert decision["evidence"] == "none"
    assert pair["plan"].keys() == {"load", "save", "fused"}
    assert pair["plan"]["load"].keys() >= PLAN_KEYS
    assert single["plan"].keys() >= PLAN_KEYS


def test_idle_evidence_in_place_of_time_sliced_is_told(program: Program) -> None:
    program("sweep", "--device", "sim:h200", "--decode", "none")
    assumed = program("decide", "--device", "sim:h200", *LARGE)
    asked = program("decide", "--device", "sim:h200", *LARGE, "--colocation", "idle")
    assert "time-sliced was not measured" in assumed.stderr
    assert asked.stderr == ""


@pytest.mark.parametrize("objective", ["balanced", "tail-bounded", "strict"])
def test_where_it_was_measured_beside_decode_the_answer_has_evidence(informed: Program, objective: str) -> None:
    asked = ("decide", "--device", "sim:h200", "--objective", objective, "--json")
    measured = informed(*asked, "--ranges", 16_384, "--bytes", 64 << 20)
    assert measured.code == 0
    assert "not measured" not in measured.stderr
    assert measured.json["evidence"] == "measured"
    assert measured.json["predicted"]["stall_s"] >= 0
    assert measured.json["predicted"]["completion_p99_s"] > 0
    elsewhere = informed(*asked, "--ranges", 16, "--bytes", 64 << 20).json
    assert (elsewhere["evidence"], elsewhere["predicted"]["stall_s"]) == ("none", None)


def test_a_sweep_shows_what_it_measured_beside_decode(informed: Program) -> None:
    (listed,) = informed("sweeps", "list", "--json").json["sweeps"]
    (survey,) = informed("sweeps", "show", listed["sweep"], "--json").json["serving"]
    assert survey["block"] == "time-sliced/both/16384x67108864"
    assert (survey["colocation"], survey["direction"]) == ("time-sliced", "both")
    assert (survey["ranges"], survey["bytes"], survey["fresh_processes"]) == (16_384, 64 << 20, 0)
    assert survey["best"].keys() == {"throughput", "balanced", "tail-bounded", "strict"}
    names = {plan["name"] for plan in survey["plans"]}
    assert {best["name"] for best in survey["best"].values()} <= names
    least = min(survey["plans"], key=lambda plan: plan["stall_s"])
    assert survey["best"]["strict"]["name"] == least["name"]
    for plan in survey["plans"]:
        assert plan["processes"] == 1
        assert plan["completion_p99_s"] >= plan["completion_p50_s"] > 0
        assert plan["plan"].keys() == {"load", "save", "fused"}
    lines = informed("sweeps", "show", listed["sweep"]).stdout.splitlines()
    (title,) = [line for line in lines if line.startswith(survey["block"])]
    after = lines[lines.index(title) + 1 :]
    headings, *rows = after[: after.index("")] if "" in after else after
    assert headings.startswith("PLAN ")
    assert len(rows) == len(names)
    assert rows[0].startswith(least["name"])
    assert "strict" in rows[0]


def test_without_decode_a_sweep_has_nothing_to_show_of_it(program: Program) -> None:
    swept = program("sweep", "--device", "sim:h200", "--colocation", "idle", "--json").json
    assert program("sweeps", "show", swept["sweep"], "--json").json["serving"] == []
    assert "undisturbed" not in program("sweeps", "show", swept["sweep"]).stdout


@pytest.mark.parametrize(
    ("asked", "budget_met"),
    [
        ((), "not known"),
        (("--objective", "throughput"), "yes"),
        (("--objective", "throughput", "--period", "10us"), "no"),
        (("--period", "10us"), "no"),
        (("--objective", "strict"), "not known"),
    ],
)
def test_a_budget_is_met_only_where_that_is_known(informed: Program, asked: tuple[str, ...], budget_met: str) -> None:
    text = informed("decide", "--device", "sim:h200", *LARGE, *asked).stdout
    assert re.search(rf"^budget met: +{budget_met}$", text, re.MULTILINE)
    assert re.search(r"^time: .* \(for 16384 ranges of 4096 B\)$", text, re.MULTILINE)


@pytest.mark.parametrize(
    ("colocation", "decode", "time", "stall"),
    [
        ("idle", "none (idle)", "median without decode", None),
        ("mps", "idle in place of mps", "median without decode", "not known"),
        ("time-sliced", "time-sliced", "median beside decode", r"\d.*, p95 of bursts"),
    ],
)
def test_a_user_is_told_what_each_number_is(
    informed: Program, colocation: str, decode: str, time: str, stall: str | None
) -> None:
    text = informed("decide", "--device", "sim:h200", *LARGE[:4], "--colocation", colocation).stdout
    assert re.search(rf"^decode: +{re.escape(decode)}, evidence ", text, re.MULTILINE)
    assert re.search(rf"^time: +\S+ \S+, {time} \(for ", text, re.MULTILINE)
    told = re.search(r"^stall: +(.*)$", text, re.MULTILINE)
    assert (told is None) if stall is None else (told is not None and re.fullmatch(stall, told[1]))


def test_a_terabyte_has_no_time(informed: Program) -> None:
    huge = ("decide", "--device", "sim:h200", "--ranges", 16_384, "--bytes", 10**12, "--direction", "h2d")
    decision = informed(*huge, "--json").json
    assert decision["predicted"] == {"time_s": None, "stall_s": None, "completion_p99_s": None}
    assert (decision["predicted_for"], decision["budget_met"], decision["tier"]) == (None, False, "board")
    text = informed(*huge)
    assert "time:" not in text.stdout
    assert "outside what was measured" in text.stderr


def test_a_sweep_short_of_memory_answers_and_says_what_it_left_out(program: Program) -> None:
    swept = program("sweep", "--device", "sim:h200", "--max-host-memory", "60MiB", "--json")
    assert (swept.code, swept.json["state"]) == (0, "published")
    (reason,) = swept.json["reasons"]
    assert re.search(r"shapes, from \d+MiB on, were left out: .* \(--max-host-memory\)$", reason)
    assert "--resume" not in swept.stderr
    assert reason in program("profiles", "show", swept.json["profile"]).stdout
    told = program("decide", "--device", "sim:h200", *LARGE, "--json")
    assert (told.code, told.json["profile"]) == (0, swept.json["profile"])


def test_a_sweep_out_of_time_is_told_to_go_on(program: Program) -> None:
    swept = program("sweep", "--device", "sim:h200+slow", "--budget", "1s", "--json").json
    told = program("decide", "--device", "sim:h200", *LARGE).stderr
    assert f"profile {swept['profile']} is partial" in told
    assert f"pega-tune --db {program.database} sweep --resume {swept['sweep']} --budget" in told


def test_whoever_has_no_profile_is_told_how_to_make_one(program: Program) -> None:
    advice = f"run pega-tune --db {program.database} sweep --device sim:h200"
    assert advice in program("decide", "--device", "sim:h200", *LARGE).stderr
    program("sweep", "--device", "sim:h200+throttled", "--decode", "none")
    draft = program("decide", "--device", "sim:h200", *LARGE).stderr
    assert "is a draft and is not used" in draft
    assert f"{advice} again" in draft


def test_without_a_gpu_the_rule_answers(informed: Program) -> None:
    result = informed("decide", *LARGE, "--json")
    assert result.code == 0
    assert (result.json["tier"], result.json["profile"], result.json["simulated"]) == ("rule", None, False)
    assert result.json["plan"]["backend"] == "kernel"
    assert "no GPU" in result.stderr


@pytest.mark.parametrize("objective", ["tail-bounded", "strict"])
def test_a_tail_objective_without_evidence_says_so(informed: Program, objective: str) -> None:
    decision = informed("decide", "--device", "sim:h200", *LARGE, "--objective", objective, "--json").json
    assert (decision["evidence"], decision["budget_met"]) == ("none", False)


def test_a_period_too_short_for_any_plan_is_told(informed: Program) -> None:
    decision = informed("decide", "--device", "sim:h200", *LARGE, "--period", "10us", "--json").json
    assert decision["budget_met"] is False


def test_the_same_sweep_learns_the_same(program: Program, informed: Program) -> None:
    (first,) = informed("profiles", "list", "--json").json["profiles"]
    again = program("sweep", "--device", "sim:h200", "--json").json
    digests = {program("profiles", "show", each, "--json").json["digest"] for each in (first["id"], again["profile"])}
    assert len(digests) == 1
