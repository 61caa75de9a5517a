"""`pega-tune bench serving` on simulated devices."""

import pytest

from tests.helpers.cli import Program, interrupted

BENCH = ("bench", "serving", "--device", "sim:h200", "--rounds", 1)
FEW = (*BENCH, "--colocation", "same-context", "--compare", "directions")
KEYS = {
    "name", "kind", "colocation", "mean_s", "p50_s", "p90_s", "p99_s", "max_s", "p99_delta", "stall_s", "bytes_per_s",
    "completion_p50_s", "completion_max_s",
}  # fmt: skip
TAILS = ("mean_s", "p50_s", "p90_s", "p99_s", "max_s")


def test_by_default_rules_and_best_plans_are_compared_in_two_colocations(program: Program) -> None:
    result = program(*BENCH, "--json")
    assert result.code == 0, result.stderr
    document = result.json
    assert (document["device"], document["simulated"], document["layout"]) == ("sim:h200", True, "shuffled")
    assert (document["ranges"], document["range_bytes"], document["flags"]) == (16_384, 4096, [])
    assert (document["decode"], document["model"]) == ("builtin", "qwen3-4b")
    places = ("time-sliced", "same-context")
    assert [one["colocation"] for one in document["baselines"]] == list(places)
    assert document["baseline"] == document["baselines"][0]
    assert document["baseline"].keys() >= set(TAILS)
    for place in places:
        rows = [row for row in document["rows"] if row["colocation"] == place]
        assert {row["kind"] for row in rows} == {"plan", "static"}
        assert len({row["name"] for row in rows}) == len(rows)
    assert [best["colocation"] for best in document["best"]] == list(places)
    for best in document["best"]:
        plans = {row["name"]: row["plan"] for row in document["rows"] if row["colocation"] == best["colocation"]}
        assert best.keys() == {"colocation", "throughput", "balanced", "tail-bounded", "strict"}
        for word in best.keys() - {"colocation"}:
            assert plans[best[word]["name"]] == best[word]["plan"]


def test_rows_have_the_keys_that_are_fixed(program: Program) -> None:
    for row in program(*FEW, "--json").json["rows"]:
        assert row.keys() >= KEYS
        assert 0 < row["p50_s"] <= row["p90_s"] <= row["p99_s"] <= row["max_s"]
        assert row["mean_s"] > 0
        assert row["p99_delta"] > -0.1
        assert row["bytes_per_s"] > 0
        assert 0 < row["completion_p50_s"] <= row["completion_max_s"]
        assert row["status"] == "ok"


def test_each_shape_of_a_file_is_a_burst_at_the_rate(program: Program) -> None:
    path = program.folder / "shapes.jsonl"
    path.write_text('{"merged_ranges": 512, "total_bytes": 8388608, "host_runs": 1}\n'
                    '{"merged_ranges": 256, "total_bytes": 16777216}\n')  # fmt: skip
    result = program(*FEW, "--shapes", path, "--rate", "1GiB", "--json")
    assert result.code == 0, result.stderr
    few, large = result.json["batches"]
    assert (few["ranges"], few["range_bytes"], few["layout"]) == (512, 16_384, "host-ordered")
    assert (large["ranges"], large["range_bytes"], large["layout"]) == (256, 65_536, "shuffled")
    assert large["baseline"]["period_s"] == pytest.approx(2 * few["baseline"]["period_s"])


def test_a_burst_that_moves_one_way_is_refused(program: Program) -> None:
    path = program.folder / "shapes.jsonl"
    path.write_text('{"merged_ranges": 512, "total_bytes": 8388608, "direction": "h2d"}')
    result = program(*FEW, "--shapes", path)
    assert result.code == 4
    assert "both ways" in result.errors[0]


def test_json_may_be_asked_for_before_the_command(program: Program) -> None:
    assert program("--json", *FEW).json == program(*FEW, "--json").json


def test_the_table_is_marked_as_simulated_and_begins_with_the_baseline(program: Program) -> None:
    result = program(*BENCH, "--colocation", "mps", "--period", "60ms")
    lines = result.stdout.splitlines()
    assert result.code == 0
    assert "SIMULATED" in lines[0]
    assert "every 60.0 ms" in lines[1]
    at = next(n for n, line in enumerate(lines) if line.startswith("NAME "))
    assert lines[at + 1].startswith("no transfer ")
    assert any(line.startswith("pegaflow-kernel ") for line in lines)
    assert [line.partition(":")[0] for line in lines[-4:]] == [
        "best throughput", "best balanced", "best tail-bounded", "best strict"
    ]  # fmt: skip


def test_the_best_are_named_as_their_rows_are(program: Program) -> None:
    lines = program(*BENCH, "--colocation", "time-sliced", "--compare", "rules").stdout.splitlines()
    rows = {line.split()[0] for line in lines if " static " in line}
    best = [line.partition(": ")[2].split()[0] for line in lines if line.startswith("best ")]
    assert len(best) == 4
    assert set(best) <= rows
    assert any(line.startswith("best strict: one-batch-call (2 x batch), which ") for line in lines)


def test_shares_of_mps_without_mps_are_refused_by_their_cause(program: Program) -> None:
    result = program(*BENCH, "--compare", "mps-shares")
    assert result.code == 2
    assert "mps is not among the colocations (time-sliced, same-context)" in result.errors[-1]
    assert "--colocation mps" in result.errors[-1]


def test_a_rate_makes_the_period(program: Program) -> None:
    # 64 MiB each way, 2.5 GiB a second
    document = program(*FEW, "--rate", "2.5GiB", "--json").json
    assert document["baseline"]["period_s"] == pytest.approx(0.05)


def test_without_a_period_each_has_its_own(program: Program) -> None:
    rows = program(*FEW, "--period", "auto", "--json").json["rows"]
    rates = {row["name"]: row["bytes_per_s"] for row in rows if row["direction"] == "h2d"}
    assert len(set(rates.values())) == len(rates) == 2
    assert "each at its shortest period" in program(*FEW, "--period", "auto").stdout


def test_ranges_layout_and_decode_are_the_users(program: Program) -> None:
    asked = ("--ranges", 512, "--range-bytes", "16KiB", "--layout", "runs:4", "--model", "small", "--seed", 3)
    document = program(*FEW, *asked, "--json").json
    assert (document["ranges"], document["range_bytes"], document["layout"]) == (512, 16_384, "runs:4")
    assert (document["model"], document["seed"]) == ("small", 3)
    assert {row["direction"] for row in document["rows"]} == {"h2d", "d2h", "both"}


def test_everything_can_be_compared(program: Program) -> None:
    document = program(*BENCH, "--colocation", "mps", "--compare", "all", "--json").json
    assert {row["block"] for row in document["rows"]} >= {"", "sleep 25 us", "h2d alone", "decode priority -5"}
    assert len(document["best"]) == 1
    assert len(document["baselines"]) == len({row["block"] for row in document["rows"]})


def test_too_few_steps_make_no_claim_and_that_is_told_once_a_block(program: Program) -> None:
    result = program(*FEW)
    warnings = [line for line in result.stderr.splitlines() if "no claim about p99" in line]
    assert len(warnings) == 3
    assert all("of 2 rows" in warning for warning in warnings)
    enough = program("bench", "serving", "--device", "sim:h200", *FEW[6:], "--json")
    assert "no claim" not in enough.stderr
    assert all(row["bursts"] >= 100 and row["steps"] >= 368 for row in enough.json["rows"])


def test_equal_seeds_give_equal_answers(program: Program) -> None:
    one, again, other = (program(*FEW, "--json", "--seed", seed).json["rows"] for seed in (1, 1, 2))
    assert one == again != other


def test_nothing_is_stored(program: Program) -> None:
    program(*FEW)
    assert not program.database.exists()


def test_a_daemon_is_not_needed_by_a_simulated_device(program: Program) -> None:
    result = program(*BENCH, "--colocation", "mps", "--compare", "directions", "--start-mps", "--json")
    assert result.code == 0, result.stderr
    assert {row["colocation"] for row in result.json["rows"]} == {"mps"}


@pytest.mark.parametrize("fault", ["throttled", "contended"])
def test_a_disturbed_device_is_flagged(program: Program, fault: str) -> None:
    result = program("bench", "serving", "--device", f"sim:h200+{fault}", *FEW[4:], "--json")
    assert result.code == 5
    assert result.json["flags"] == [fault]
    assert fault in result.stderr


@pytest.mark.parametrize(("fault", "status"), [("mismatch", "mismatch"), ("crash", "crashed")])
def test_what_failed_is_listed_and_flagged(program: Program, fault: str, status: str) -> None:
    result = program("bench", "serving", "--device", f"sim:h200+{fault}=same-context/h2d", *FEW[4:], "--json")
    assert result.code == 5, result.stderr
    (failed,) = [row for row in result.json["rows"] if row["status"] != "ok"]
    assert (failed["status"], failed["p99_s"], failed["bytes_per_s"]) == (status, None, None)
    assert failed["detail"]
    assert f"{failed['name']}: {status}" in result.stderr


def test_an_interruption_ends_it(program: Program) -> None:
    result = interrupted(program, "bench", "serving", "--device", "sim:h200+hang")
    assert result.code == 130
    assert result.stdout == ""
    assert result.errors == ["error: interrupted"]
