"""What the doctor finds on a machine without a GPU."""

from tests.helpers.cli import Program

PARTS = ["python", "packages", "driver", "telemetry", "toolchain", "variables", "compiler", "cache", "database"]


def test_without_a_gpu_the_doctor_says_what_is_missing(program: Program) -> None:
    result = program("doctor", "--json")
    checks = {check["part"]: check for check in result.json["checks"]}
    assert result.code == 3
    assert result.json["usable"] is False
    assert list(checks) == PARTS
    assert all(check["status"] in ("ok", "warning", "failed") for check in checks.values())
    assert checks["driver"]["status"] == "failed"
    assert "sim:h200" in checks["driver"]["hint"]
    assert checks["compiler"]["status"] == "ok", checks["compiler"]
    assert checks["database"]["status"] == "ok"
    assert not program.database.exists()


def test_what_is_not_well_has_a_hint(program: Program) -> None:
    result = program("doctor", NUMBA_ENABLE_CUDASIM="1", CUDA_LAUNCH_BLOCKING="1")
    lines = result.stdout.splitlines()
    unwell = [number for number, line in enumerate(lines) if line.startswith(("warning", "failed"))]
    assert "NUMBA_ENABLE_CUDASIM" in result.stdout
    assert all("->" in lines[number + 1] for number in unwell)


def test_variables_that_distort_timings_are_named(program: Program) -> None:
    distorting = {"CUDA_LAUNCH_BLOCKING": "1", "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "25"}
    result = program("doctor", "--json", **distorting)
    (variables,) = [check for check in result.json["checks"] if check["part"] == "variables"]
    assert variables["status"] == "warning"
    assert all(name in variables["detail"] for name in distorting)


def test_variables_that_change_nothing_are_not_named(program: Program) -> None:
    result = program("doctor", "--json", CUDA_MPS_ACTIVE_THREAD_PERCENTAGE="100", CUDA_MPS_CLIENT_PRIORITY="0")
    (variables,) = [check for check in result.json["checks"] if check["part"] == "variables"]
    assert variables["status"] == "ok"


def test_a_place_for_a_database_that_cannot_be_made_is_told(program: Program) -> None:
    (program.folder / "file").touch()
    result = program("doctor", "--json", "--db", program.folder / "file" / "x.db")
    (database,) = [check for check in result.json["checks"] if check["part"] == "database"]
    assert database["status"] == "failed"
    assert "is not a directory" in database["detail"]


def test_a_place_for_kernels_that_cannot_be_made_is_told(program: Program) -> None:
    (program.folder / "file").touch()
    for place, status in ((program.folder / "file" / "cache", "warning"), (program.folder / "new", "ok"), ("", "ok")):
        result = program("doctor", "--json", PEGA_TUNE_CACHE=str(place))
        (cache,) = [check for check in result.json["checks"] if check["part"] == "cache"]
        assert cache["status"] == status, cache
        assert ("PEGA_TUNE_CACHE" in cache["hint"]) == (status == "warning")
    assert not (program.folder / "new").exists()
