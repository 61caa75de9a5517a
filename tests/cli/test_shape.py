"""From a model to shapes, and from shapes to a sweep and to answers."""

import json
from itertools import chain
from pathlib import Path

from pega_tune.autotune.cli.shapes_file import read_shapes
from pega_tune.kernels.shape import Direction, TransferShape
from tests.helpers.cli import Program, Result

QWEN = ("shape", "--preset", "qwen3-4b", "--blocks", 16)


def stored(program: Program, result: Result) -> Path:
    """What was printed, as a file."""
    path = program.folder / "shapes.jsonl"
    path.write_text(result.stdout)
    return path


def test_load_and_save_of_a_model_are_lines_of_a_shapes_file(program: Program) -> None:
    result = program(*QWEN)
    assert result.code == 0
    assert read_shapes(stored(program, result)) == tuple(
        TransferShape(16 * 72, 16 * 72 * 32_768, direction, host_runs=16, alignment=16)
        for direction in (Direction.H2D, Direction.D2H)
    )
    assert "36 layers, kv_heads 8, head_dim 128, bf16 (arXiv:2505.09388" in result.stderr
    assert "16 blocks: 1152 ranges of 32 KiB, 16 host runs" in result.stderr


def test_one_of_a_kind_is_told_as_one(program: Program) -> None:
    notes = program(*QWEN[:-1], 1, "--layout", "block-first", "--block-tokens", 1, "--layers", 1).stderr
    assert "model: 1 layer, " in notes
    assert "in blocks of 1 token\n" in notes
    assert "1 block: 1 range of 4 KiB, 1 host run\n" in notes


def test_in_json_mode_the_shapes_are_in_one_document(program: Program) -> None:
    document = program(*QWEN, "--json").json
    assert document["shapes"] == [json.loads(line) for line in program(*QWEN).stdout.splitlines()]
    assert document["model"].items() >= {"layers": 36, "kv_heads": 8, "head_dim": 128, "dtype": "bf16"}.items()
    assert "arXiv" in document["model"]["source"]
    assert (document["tp"], document["block_tokens"], document["token_bytes"]) == (1, 16, 147_456)


def test_free_parameters_make_the_model_of_a_preset(program: Program) -> None:
    free = ("--layers", 36, "--kv-heads", 8, "--head-dim", 128, "--dtype", "fp16")
    assert program("shape", *free, "--blocks", 16).stdout == program(*QWEN).stdout
    latent = ("--layers", 61, "--mla-rank", 512)
    assert program("shape", *latent).stdout == program("shape", "--preset", "deepseek-v3").stdout


def test_what_is_given_differs_from_the_preset(program: Program) -> None:
    (fp8,) = program(*QWEN, "--dtype", "fp8", "--direction", "both", "--json").json["shapes"]
    assert fp8["total_bytes"] == 16 * 72 * 16_384
    assert fp8["direction"] == "both"
    narrow = program("shape", "--preset", "deepseek-v3", "--rope-dim", 32, "--json").json
    assert narrow["model"].items() >= {"mla_rank": 512, "rope_dim": 32}.items()
    assert narrow["block_tokens"] == 64


def test_each_number_of_blocks_has_its_lines(program: Program) -> None:
    shapes = program(*QWEN[:-1], "1,4,1", "--layout", "block-first", "--json").json["shapes"]
    assert [(each["merged_ranges"], each["direction"]) for each in shapes] == [
        (1, "h2d"), (1, "d2h"), (4, "h2d"), (4, "d2h")
    ]  # fmt: skip


def test_neighbours_merge_and_single_layers_are_strided(program: Program) -> None:
    rows = ("--layout", "block-first", "--run-blocks", 16, "--host-run-blocks", 16, "--direction", "h2d", "--json")
    (whole,) = program(*QWEN, *rows).json["shapes"]
    (layer,) = program(*QWEN, *rows, "--layers-at-once", 1).json["shapes"]
    (apart,) = program(*QWEN, *rows, "--kv", "separate").json["shapes"]
    assert (whole["merged_ranges"], whole["host_runs"]) == (1, 1)
    assert (apart["merged_ranges"], apart["host_runs"]) == (32, 1)
    assert (layer["merged_ranges"], layer["host_runs"], layer["pitch"]) == (16, 16, 16 * 147_456)


def test_shapes_go_into_a_sweep_and_into_answers(program: Program) -> None:
    shapes = stored(program, program("shape", "--preset", "deepseek-v3", "--blocks", 4))
    swept = program("sweep", "--device", "sim:h200", "--decode", "none", "--shapes", shapes, "--json")
    assert (swept.code, swept.json["state"]) == (0, "published"), swept.stderr
    told = program("decide", "--device", "sim:h200", "--shapes", shapes, "--json").json
    assert told.keys() == {"answers"}
    for answer, line in zip(told["answers"], shapes.read_text().splitlines(), strict=True):
        shape = json.loads(line)
        assert (answer["shape"], answer["count"]) == (shape, 1)
        assert (answer["tier"], answer["profile"]) == ("board", swept.json["profile"])
        assert answer["direction"] == shape["direction"]
        assert answer["predicted"]["time_s"] > 0


def test_each_line_is_answered_as_by_itself(informed: Program) -> None:
    shapes = informed.folder / "trace.jsonl"
    lines = [
        {"merged_ranges": 64, "total_bytes": 64 << 20, "host_runs": 1, "alignment": 8, "pitch": 3 << 20},
        {"merged_ranges": 16_384, "total_bytes": 64 << 20, "direction": "h2d"},
        {"merged_ranges": 16_384, "total_bytes": 64 << 20, "direction": "h2d", "count": 3},
    ]
    shapes.write_text("\n".join(map(json.dumps, lines)))
    terms = ("--device", "sim:h200", "--objective", "throughput", "--period", "20ms", "--runtime", "pegaflow")
    often, rare = informed("decide", "--shapes", shapes, *terms, "--json").json["answers"]
    assert (often["count"], rare["count"]) == (4, 1)
    for answer in (often, rare):
        shape = answer["shape"]
        counts = ("--ranges", shape["merged_ranges"], "--bytes", shape["total_bytes"])
        known = [
            (f"--{key.replace('_', '-')}", shape[key]) for key in ("host_runs", "alignment", "pitch") if key in shape
        ]
        counts = (*counts, *chain(*known))
        alone = informed("decide", *counts, "--direction", shape["direction"], *terms, "--json").json
        for key in ("plan", "predicted", "budget_met", "why", "warnings"):
            assert answer[key] == alone[key]


def test_answers_are_a_table(informed: Program) -> None:
    shapes = stored(informed, informed("shape", "--preset", "deepseek-v3", "--blocks", 16))
    result = informed("decide", "--device", "sim:h200", "--shapes", shapes, "--colocation", "idle")
    headings, load, save, *rest = result.stdout.splitlines()
    assert result.code == 0
    assert headings.split()[:5] == ["RANGES", "OF", "DIRECTION", "COUNT", "PLAN"]
    assert load.startswith("976     72 KiB  h2d        1      ")
    assert save.startswith("976     72 KiB  d2h        1      ")
    assert any(line.startswith("tier:    board") for line in rest)
    assert any("SIMULATED" in line for line in rest)


def test_without_a_gpu_the_rule_answers_for_each(program: Program) -> None:
    shapes = stored(program, program("shape", "--preset", "llama-3.1-8b"))
    result = program("decide", "--shapes", shapes, "--json")
    assert result.code == 0
    assert [answer["tier"] for answer in result.json["answers"]] == ["rule", "rule"]
    assert result.stderr.count("no GPU") == 1
