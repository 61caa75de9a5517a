"""Whatever is wrong with what was asked: the right exit code, one clear line, at most one hint, JSON if wanted."""

import json
import subprocess
import sys

import pytest

from tests.helpers.cli import Program

USAGE, DEVICE, DATA = 2, 3, 4
SWEEP = ("sweep", "--device", "sim:h200")
BENCH = ("bench", "transfer", "--device", "sim:h200")
SERVING = ("bench", "serving", "--device", "sim:h200")
DECIDE = ("decide", "--ranges", 16, "--bytes", 65536)
SHAPE = ("shape", "--preset", "qwen3-4b")

CASES = {
    "no such database option": (("devices", "--database", "x"), USAGE, "no such option"),
    "no such command": (("tune",), USAGE, "no such command 'tune'"),
    "no such option": (("devices", "--fast"), USAGE, "no such option"),
    "a group without a command": (("sweeps",), USAGE, "missing command"),
    "a database option without a value": (("devices", "--db"), USAGE, "requires an argument"),
    "an empty database name": (("sweeps", "list", "--db="), USAGE, "names no database"),
    "unknown device": (("sweep", "--device", "tesla"), USAGE, "tesla"),
    "unknown simulated device": (("sweep", "--device", "sim:abacus"), USAGE, "sim:abacus"),
    "unknown fault": (("sweep", "--device", "sim:h200+gremlins"), USAGE, "gremlins"),
    "unknown preset": ((*SWEEP, "--preset", "leisurely"), USAGE, "leisurely"),
    "a budget that is no time": ((*SWEEP, "--budget", "soon"), USAGE, "soon"),
    "no budget at all": ((*SWEEP, "--budget", "0s"), USAGE, "0s"),
    "memory that is no size": ((*SWEEP, "--max-host-memory", "lots"), USAGE, "lots"),
    "unknown colocation": ((*SWEEP, "--colocation", "idle,moon"), USAGE, "moon"),
    "unknown decode": ((*SWEEP, "--decode", "moon"), USAGE, "moon"),
    "nothing that decodes": ((*SWEEP, "--colocation", "mps", "--decode", "none"), USAGE, "colocation is mps"),
    "a seed that is no number": ((*SWEEP, "--seed", "x"), USAGE, "--seed"),
    "a seed that no database holds": ((*SWEEP, "--seed", "9" * 23), USAGE, "--seed"),
    "a negative seed": ((*SWEEP, "--seed", "-1"), USAGE, "--seed"),
    "memory in thousands of digits": ((*SWEEP, "--max-host-memory", "9" * 5000), USAGE, "a size"),
    "an argument that is no text": (("profiles", "show", "\udcff"), USAGE, "UTF-8"),
    "a database whose name is no text": (("db", "upgrade", "--db", "x/\udcff.db"), USAGE, "UTF-8"),
    "a port that is no number": (
        ("db", "current", "--db", "postgresql://u:p@host:port/x"),
        USAGE,
        "its port is not a number",
    ),
    "a bracket left open": (("sweeps", "list", "--db", "postgresql://[::1/x"), USAGE, "[::1"),
    "a URL without a scheme": ((*DECIDE, "--db", "://"), USAGE, "'://'"),
    "options of SQLite in a look-up": ((*DECIDE, "--db", "sqlite:///a.db?mode=ro"), USAGE, "options"),
    "options of SQLite elsewhere": (("db", "check", "--db", "sqlite:///a.db?mode=ro"), USAGE, "options"),
    "beside decode but idle": ((*SERVING, "--colocation", "idle"), USAGE, "no idle device"),
    "nowhere to decode": ((*SERVING, "--colocation", ","), USAGE, "no colocation"),
    "nothing to compare": ((*SERVING, "--compare", ","), USAGE, "--compare names nothing"),
    "decode that a benchmark does not know": ((*SERVING, "--decode", "luck"), USAGE, "luck"),
    "a program that is not named": ((*SERVING, "--decode", "external: "), USAGE, "needs a program"),
    "a daemon for nothing": ((*SERVING, "--start-mps"), USAGE, "--start-mps"),
    "unknown model": (("sweep", "--device", "sim:h200", "--model", "luck"), USAGE, "luck"),
    "a program beside a model of a device": (
        ("sweep", "--device", "sim:h200", "--decode", "external:true"),
        USAGE,
        "simulated device",
    ),
    "layers beside a model of a device": (
        ("sweep", "--device", "sim:h200", "--decode", "torch"),
        USAGE,
        "only builtin decodes, not 'torch'",
    ),
    "unknown comparison": ((*SERVING, "--compare", "rules,luck"), USAGE, "luck"),
    "a burst period that is no time": ((*SERVING, "--period", "often"), USAGE, "often"),
    "a period of an hour": ((*SERVING, "--period", "60m"), USAGE, "less than an hour"),
    "a rate that is no size": ((*SERVING, "--rate", "fast"), USAGE, "fast"),
    "a rate of nothing": ((*SERVING, "--rate", "0"), USAGE, "'0'"),
    "a rate of next to nothing": ((*SERVING, "--rate", "1"), USAGE, "less than an hour"),
    "period and rate": ((*SERVING, "--period", "auto", "--rate", "1G"), USAGE, "same thing"),
    "unknown decode model": ((*SERVING, "--model", "gpt-9"), USAGE, "gpt-9"),
    "a program that decodes on no device": ((*SERVING, "--decode", "external:x"), USAGE, "external:x"),
    "layers that decode on no device": ((*SERVING, "--decode", "torch"), USAGE, "not 'torch'"),
    "bursts of ranges and of a file": ((*SERVING, "--ranges", 9, "--shapes", "x"), USAGE, "--ranges and --shapes"),
    "bursts without ranges": ((*SERVING, "--ranges", 0), USAGE, "at least 1 range"),
    "no rounds beside decode": ((*SERVING, "--rounds", 0), USAGE, "1 to 10,000 rounds"),
    "a seed too large": ((*SERVING, "--seed", 2**31), USAGE, "seed"),
    "absent shapes": ((*SWEEP, "--shapes", "absent.jsonl"), DATA, "absent.jsonl"),
    "no GPU": (("sweep",), DEVICE, "no GPU"),
    "no such GPU": (("sweep", "--device", "3"), DEVICE, "no GPU"),
    "no GPU of that name": (("decide", "--device", "GPU-0", "--ranges", 1, "--bytes", 1), DEVICE, "no GPU"),
    "a busy device": (("sweep", "--device", "sim:h200+busy"), DEVICE, "in use by other processes"),
    "too little host memory": ((*SWEEP, "--max-host-memory", "1K"), DEVICE, "host memory"),
    "too little device memory": ((*SWEEP, "--max-device-memory", "1K"), DEVICE, "device memory"),
    "a device without memory": (("sweep", "--device", "sim:h200+nomem"), DEVICE, "memory"),
    "no ranges": (("decide", "--ranges", 0, "--bytes", 1), USAGE, "at least 1 range"),
    "negative bytes": (("decide", "--ranges", 1, "--bytes", -1), USAGE, "'-1' is not a size"),
    "fewer bytes than ranges": (("decide", "--ranges", 9, "--bytes", 8), USAGE, "9 ranges"),
    "more bytes than there are": (("decide", "--ranges", 9, "--bytes", 2**63), USAGE, "2^62"),
    "ranges that are no number": (("decide", "--ranges", "many", "--bytes", 8), USAGE, "--ranges"),
    "no bytes named": (("decide", "--ranges", 9), USAGE, "--bytes"),
    "unknown direction": ((*DECIDE, "--direction", "up"), USAGE, "up"),
    "unknown objective": ((*DECIDE, "--objective", "beauty"), USAGE, "beauty"),
    "unknown runtime": ((*DECIDE, "--runtime", "abacus"), USAGE, "abacus"),
    "unknown colocation of a look-up": ((*DECIDE, "--colocation", "moon"), USAGE, "moon"),
    "a period that is no time": ((*DECIDE, "--period", "never"), USAGE, "never"),
    "a period without a unit": ((*DECIDE, "--period", 50), USAGE, "a period of 50 needs a unit"),
    "a short period without a unit": ((*DECIDE, "--period", 5), USAGE, "a period of 5 needs a unit"),
    "a burst period without a unit": ((*SERVING, "--period", 50), USAGE, "a period of 50 needs a unit"),
    "a budget that is no number": ((*DECIDE, "--budget", "nan"), USAGE, "nan"),
    "more host runs than ranges": ((*DECIDE, "--host-runs", 17), USAGE, "17"),
    "an alignment of three": ((*DECIDE, "--alignment", 3), USAGE, "alignment"),
    "a pitch that is no size": ((*DECIDE, "--pitch", "wide"), USAGE, "wide"),
    "a pitch below the size of a range": ((*DECIDE, "--pitch", 64), USAGE, "pitch"),
    "a pitch of a few host runs": ((*DECIDE, "--host-runs", 2, "--pitch", "1M"), USAGE, "1 host run or 16, not 2"),
    "a pitch and a file of shapes": (("decide", "--shapes", "x", "--pitch", 64), USAGE, "--pitch is on each line"),
    "a shape and a file of shapes": ((*DECIDE, "--shapes", "x"), USAGE, "--ranges is on each line"),
    "a direction and a file of shapes": (("decide", "--shapes", "x", "--direction", "h2d"), USAGE, "--direction is on"),
    "absent shapes to decide on": (("decide", "--shapes", "absent.jsonl"), DATA, "absent.jsonl"),
    "no model": (("shape",), USAGE, "no model was named"),
    "a model that is not known": (("shape", "--preset", "gpt-9"), USAGE, "gpt-9"),
    "layers that keep nothing": (("shape", "--layers", 3), USAGE, "not known"),
    "half a head": (("shape", "--layers", 3, "--kv-heads", 8), USAGE, "not known"),
    "heads and a latent": (("shape", "--preset", "qwen3-4b", "--kv-heads", 8, "--mla-rank", 9), USAGE, "not both"),
    "a model without layers": (("shape", "--preset", "qwen3-4b", "--layers", 0), USAGE, "layers is 1 to"),
    "values of an unknown type": ((*SHAPE, "--dtype", "fp9"), USAGE, "fp9"),
    "heads that ranks cannot share": ((*SHAPE, "--tp", 3), USAGE, "8 KV heads"),
    "blocks without tokens": ((*SHAPE, "--block-tokens", 0), USAGE, "tokens in a block"),
    "no blocks": ((*SHAPE, "--blocks", 0), USAGE, "blocks of a transfer"),
    "blocks that are no number": ((*SHAPE, "--blocks", "16,many"), USAGE, "'many'"),
    "blocks left out": ((*SHAPE, "--blocks", ","), USAGE, "--blocks names nothing"),
    "an unknown order": ((*SHAPE, "--layout", "diagonal"), USAGE, "diagonal"),
    "an unknown order on the host": ((*SHAPE, "--host-layout", "diagonal"), USAGE, "diagonal"),
    "keys and values elsewhere": ((*SHAPE, "--kv", "apart"), USAGE, "apart"),
    "more layers at once than there are": ((*SHAPE, "--layers-at-once", 37), USAGE, "1 to 36 layers"),
    "a run of no blocks": ((*SHAPE, "--run-blocks", 0), USAGE, "blocks in a run"),
    "a shape that goes up": ((*SHAPE, "--direction", "h2d,up"), USAGE, "up"),
    "a cache larger than memory can be": ((*SHAPE, "--blocks", 2**24, "--block-tokens", 2**24), USAGE, "2^62"),
    "a bench without a command": (("bench",), USAGE, "missing command"),
    "a bench of an unknown device": (("bench", "transfer", "--device", "tesla"), USAGE, "tesla"),
    "a bench without a GPU": (("bench", "transfer"), DEVICE, "no GPU"),
    "a bench of no ranges": ((*BENCH, "--ranges", 0), USAGE, "at least 1 range"),
    "a bench of negative ranges": ((*BENCH, "--ranges", -4), USAGE, "at least 1 range"),
    "a bench of sizes that are none": ((*BENCH, "--range-bytes", "big"), USAGE, "big"),
    "a bench of empty ranges": ((*BENCH, "--range-bytes", 0), USAGE, "a size"),
    "a bench of more than there is": ((*BENCH, "--ranges", 2**40, "--range-bytes", "1T"), USAGE, "2^62"),
    "a bench of more memory than there is": (
        (*BENCH, "--ranges", 2**30),
        DEVICE,
        "1073741824 ranges of 4 KiB per direction, shuffled: too little memory",
    ),
    "bursts of more memory than there is": (
        (*SERVING, "--range-bytes", "1G", "--layout", "host-ordered"),
        DEVICE,
        "16384 ranges of 1 GiB per direction, host-ordered: too little memory",
    ),
    "bursts by rules of more memory than there is": (
        (*SERVING, "--ranges", 2**30, "--compare", "rules"),
        DEVICE,
        "1073741824 ranges of 4 KiB per direction, shuffled: too little memory",
    ),
    "a bench of ranges and of a file": ((*BENCH, "--range-bytes", 9, "--shapes", "x"), USAGE, "--range-bytes and"),
    "a bench of absent shapes": ((*BENCH, "--shapes", "absent.jsonl"), DATA, "absent.jsonl"),
    "an unknown layout": ((*BENCH, "--layout", "spiral"), USAGE, "spiral"),
    "a layout of no runs": ((*BENCH, "--layout", "runs:0"), USAGE, "at least 1 host run"),
    "a layout without its number": ((*BENCH, "--layout", "runs"), USAGE, "number of runs"),
    "more runs than ranges": ((*BENCH, "--ranges", 4, "--layout", "runs:5"), USAGE, "5 host runs"),
    "an unknown direction of a bench": ((*BENCH, "--direction", "up"), USAGE, "up"),
    "no rounds": ((*BENCH, "--rounds", 0), USAGE, "rounds"),
    "a seed of a bench out of range": ((*BENCH, "--seed", -1), USAGE, "seed"),
    "sweeps without a database": (("sweeps", "list"), DATA, "there is no database"),
    "profiles without a database": (("profiles", "show", "ab"), DATA, "there is no database"),
    "resuming without a database": (("sweep", "--resume", "ab"), DATA, "there is no database"),
    "a backup of nothing": (("db", "backup", "copy.db"), DATA, "there is no database"),
    "a check of nothing": (("db", "check"), DATA, "there is no database"),
}


@pytest.mark.parametrize(("arguments", "code", "says"), CASES.values(), ids=CASES)
def test_bad_input_is_told_in_one_line(program: Program, arguments: tuple[object, ...], code: int, says: str) -> None:
    result = program(*arguments)
    assert result.code == code, result.stderr
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    (error,) = result.errors
    assert says in error
    assert result.stderr.splitlines()[-1] == error


@pytest.mark.parametrize(("arguments", "code", "says"), CASES.values(), ids=CASES)
def test_in_json_mode_the_error_is_the_document(
    program: Program, arguments: tuple[object, ...], code: int, says: str
) -> None:
    result = program(*arguments, "--json")
    assert result.code == code
    assert result.json.keys() == {"error"}
    assert result.json["error"].keys() == {"code", "message", "hint"}
    assert result.json["error"]["code"] != "internal"
    assert says in result.json["error"]["message"]
    assert result.errors == []


def test_no_gpu_names_the_cause_and_the_way_out(program: Program) -> None:
    result = program("sweep")
    assert result.code == DEVICE
    (line,) = result.stderr.splitlines()
    assert "no GPU" in line
    assert "--device sim:h200" in line


def test_refused_input_leaves_no_database(program: Program) -> None:
    for arguments in (("sweep", "--device", "tesla"), (*SWEEP, "--preset", "x"), ("sweep",)):
        program(*arguments)
    assert not program.database.exists()


def test_a_refused_device_leaves_no_sweep(program: Program) -> None:
    program("sweep", "--device", "sim:h200+busy")
    assert program("sweeps", "list", "--json").json == {"sweeps": []}


def test_a_bad_line_of_shapes_is_named(program: Program) -> None:
    path = program.folder / "shapes"
    path.write_text(json.dumps({"merged_ranges": 4, "total_bytes": 3}))
    result = program(*SWEEP, "--shapes", path)
    assert result.code == DATA
    assert f"{path}, line 1: 4 ranges need" in result.errors[0]


def test_a_deleted_working_directory_is_told(program: Program) -> None:
    gone = program.folder / "gone"
    gone.mkdir()
    code = "import os, runpy; os.rmdir(os.getcwd()); runpy.run_module('pega_tune', run_name='__main__')"
    for arguments in (("--db", "relative.db", "db", "current"), ("--db", program.database, *SWEEP)):
        gone.mkdir(exist_ok=True)
        process = subprocess.run(
            [sys.executable, "-c", code, *map(str, arguments)],
            cwd=gone, env=program.environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert process.returncode == DATA, process.stderr
        assert process.stderr.splitlines()[-1] == "error: the working directory was deleted; change to another one"


@pytest.mark.parametrize(
    "url",
    [
        "mysql://me:s3cret@localhost/x",
        "postgresql://me:a@s3cret@localhost/x",
        "postgresql://localhost:1/x?user=me&password=s3cret",
    ],
)
def test_a_password_is_never_shown(program: Program, url: str) -> None:
    for verbose in ((), ("--debug",), ("--json",)):
        result = program("--db", url, "sweeps", "list", *verbose)
        assert result.code in (USAGE, DATA)
        assert "s3cret" not in result.stdout + result.stderr
