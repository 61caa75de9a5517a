import pytest

from tests.helpers.cli import Program

COMMANDS = (
    ("doctor",),
    ("devices",),
    ("shape",),
    ("sweep",),
    ("decide",),
    ("verify",),
    ("export",),
    ("import",),
    ("sweeps", "list"),
    ("sweeps", "show"),
    ("sweeps", "export"),
    ("profiles", "list"),
    ("profiles", "show"),
    ("bench", "transfer"),
    ("bench", "serving"),
    ("bench", "regret"),
    ("bench", "lookup"),
    ("fleet", "push"),
    ("fleet", "pull"),
    ("fleet", "list"),
    ("db", "upgrade"),
    ("db", "current"),
    ("db", "check"),
    ("db", "backup"),
)
HEAVY = {"numba", "cuda", "sqlalchemy", "alembic", "numpy", "scipy", "rich", "multiprocessing"}


def test_help_loads_nothing_heavy(program: Program) -> None:
    result = program("--help", PYTHONPROFILEIMPORTTIME="1")
    imported = {line.rpartition("|")[2].strip().partition(".")[0] for line in result.stderr.splitlines() if "|" in line}
    assert result.code == 0
    assert "typer" in imported
    assert not imported & HEAVY


@pytest.mark.parametrize("command", [(), *COMMANDS], ids=" ".join)
def test_every_command_explains_itself(program: Program, command: tuple[str, ...]) -> None:
    result = program(*command, "--help")
    assert result.code == 0
    assert result.stdout.startswith(f"Usage: {' '.join(('pega-tune', *command))}")
    assert result.stderr == ""
    assert "...}" not in result.stdout  # what may be repeated is marked by the parser, not by its name, too
    assert "[[" not in result.stdout


@pytest.mark.parametrize(
    "group", [(), *sorted({command[:1] for command in COMMANDS if len(command) > 1})], ids=" ".join
)
def test_every_summary_of_a_command_is_whole(program: Program, group: tuple[str, ...]) -> None:
    summaries = program(*group, "--help").stdout.partition("Commands:")[2].splitlines()
    assert any(line.strip() for line in summaries)
    assert not [line for line in summaries if "..." in line]


@pytest.mark.parametrize("command", ["sweep", "verify", "decide", "bench regret"])
def test_the_unit_of_a_budget_is_told(program: Program, command: str) -> None:
    told = " ".join(program(*command.split(), "--help").stdout.partition("--budget")[2].split())
    fraction = command in ("decide", "bench regret")
    assert told.startswith("F " if fraction else "TIME ")
    assert ("fraction of a decode step" if fraction else "A duration") in told.partition(" --")[0]


def test_without_a_command_the_help_is_shown(program: Program) -> None:
    assert program().stdout == program("--help").stdout


def test_in_json_mode_help_is_a_document_too(program: Program) -> None:
    assert program("--json", "sweep", "--help").json == {"help": program("sweep", "--help").stdout}


def test_without_a_command_json_mode_has_no_answer(program: Program) -> None:
    result = program("--json")
    assert result.code == 2
    assert result.json["error"]["message"] == "missing command"


def test_the_version_is_told(program: Program) -> None:
    plain, document = program("--version"), program("--json", "--version")
    assert plain.stdout == f"pega-tune {document.json['version']}\n"
    assert (plain.code, document.code) == (0, 0)


def test_nothing_is_created_by_asking(program: Program) -> None:
    program("--help")
    program("devices")
    program("decide", "--ranges", 1, "--bytes", 1)
    program("sweeps", "list")
    program("db", "current")
    assert list(program.folder.iterdir()) == []
