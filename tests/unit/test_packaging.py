"""What is shipped, and what is locked."""

import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path, PurePosixPath

import pytest

from tests.helpers.cli import REPOSITORY, Program

PACKAGES = ("autotune", "kernels", "migrations", "profiles")
SOURCES = ("LICENSE", "README.md", "pyproject.toml", "pega_tune", *PACKAGES, "tests")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sdist, and the wheel made from that sdist."""
    copy = tmp_path_factory.mktemp("source")
    for name in SOURCES:
        source = REPOSITORY / name
        if source.is_dir():
            shutil.copytree(source, copy / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, copy / name)
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(copy / "dist"), str(copy)]
    subprocess.run(command, check=True, capture_output=True, text=True)
    return copy / "dist"


def wheel_files(built: Path) -> set[PurePosixPath]:
    (wheel,) = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        return {PurePosixPath(name) for name in archive.namelist()}


def source_files() -> set[PurePosixPath]:
    """Python modules and data of the packages, named as in the wheel."""
    found = [path for package in PACKAGES for path in (REPOSITORY / package).rglob("*")]
    kept = [path for path in found if path.suffix in (".py", ".json", ".h", ".rs")]
    return {PurePosixPath("pega_tune", path.relative_to(REPOSITORY).as_posix()) for path in kept}


def test_the_wheel_holds_every_module_and_all_data_under_one_name(built: Path) -> None:
    files = wheel_files(built)
    assert {file.parts[0] for file in files if not file.parts[0].endswith(".dist-info")} == {"pega_tune"}
    assert source_files() <= files
    assert PurePosixPath("pega_tune/py.typed") in files
    assert PurePosixPath("pega_tune/migrations/versions/0001_initial.py") in files
    assert PurePosixPath("pega_tune/autotune/sim/devices/h200.json") in files


def test_the_wheel_holds_no_tests(built: Path) -> None:
    assert not [file for file in wheel_files(built) if "tests" in file.parts]


def test_the_sdist_holds_files_instead_of_links(built: Path) -> None:
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        members = archive.getmembers()
    assert not [member.name for member in members if member.issym() or member.islnk()]
    assert {PurePosixPath(*PurePosixPath(member.name).parts[1:]) for member in members} >= source_files()


def test_the_installed_wheel_works_from_anywhere(built: Path, tmp_path: Path) -> None:
    (wheel,) = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")
    program = Program(tmp_path)
    program.environment["PYTHONPATH"] = str(tmp_path / "site")
    program.folder = Path("/")
    assert program("db", "upgrade").code == 0
    swept = program("sweep", "--device", "sim:h200", "--preset", "quick", "--json")
    assert swept.code == 0, swept.stderr
    decided = program("decide", "--device", "sim:h200", "--ranges", 64, "--bytes", 65536, "--json")
    assert decided.json["profile"] == swept.json["profile"]


def test_the_lock_pins_everything_and_names_no_index() -> None:
    lines = (REPOSITORY / "requirements" / "ci.txt").read_text().splitlines()
    pinned = {re.split(r"==", line)[0] for line in lines}
    assert not [line for line in lines if not re.fullmatch(r"[a-z0-9._-]+==[^\s/]+( ;.*)?", line)]
    assert not [line for line in lines if "/" in line or "--" in line]
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    wanted = (
        project["dependencies"] + project["optional-dependencies"]["dev"] + project["optional-dependencies"]["cu13"]
    )
    assert {re.split(r"[\[><=~! ]", requirement)[0] for requirement in wanted} <= pinned
