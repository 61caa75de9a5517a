"""The cache of compiled kernels: what it gives back, what it does not trust, and that it never gets in the way."""

import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from pega_tune.kernels.compile_cache import NO_CACHE, CompileCache, is_private

NAME = "0f" * 32 + ".ptx"
OTHER = "e1" * 32 + ".ptx"


@dataclass
class Maker:
    """Counts how often something is made."""

    content: bytes = b".version 9.0\n\0\xff tail"
    made: int = 0

    def __call__(self) -> bytes:
        self.made += 1
        return self.content


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "deep" / "kernels"


def keep(directory: Path | None, maker: Callable[[], bytes], name: str = NAME) -> bytes:
    return CompileCache(directory).kept(lambda: name, maker)


@pytest.mark.parametrize("content", [b".version 9.0\n\0\xff tail", b"", b"\n\n"])
def test_what_was_made_once_is_found_by_others(directory, content):
    maker = Maker(content)
    assert keep(directory, maker) == content
    assert keep(directory, maker) == content
    assert maker.made == 1
    assert keep(directory, maker, OTHER) == content
    assert maker.made == 2


def test_the_directory_and_its_files_are_the_users_alone(directory):
    keep(directory, Maker())
    assert directory.stat().st_mode & 0o777 == 0o700
    assert [path.name for path in directory.iterdir()] == [NAME]
    assert (directory / NAME).stat().st_mode & 0o777 == 0o600


def test_without_a_directory_nothing_is_named_or_kept():
    maker = Maker()

    def name() -> str:
        raise AssertionError("a name costs time")

    assert [NO_CACHE.kept(name, maker) for _ in range(2)] == [maker.content] * 2
    assert maker.made == 2


@pytest.mark.parametrize(
    "damage",
    [
        lambda whole: whole[:-1],
        lambda whole: whole[:30],
        lambda whole: whole[:0],
        lambda whole: whole + b"\0",
        lambda whole: whole[:70] + bytes([whole[70] ^ 1]) + whole[71:],
        lambda whole: whole[whole.index(b"\n") + 1 :],
    ],
    ids=["torn", "torn-early", "empty", "longer", "a-bit", "headless"],
)
def test_a_damaged_file_is_made_again(directory, damage):
    maker = Maker()
    keep(directory, maker)
    whole = (directory / NAME).read_bytes()
    (directory / NAME).write_bytes(damage(whole))
    assert keep(directory, maker) == maker.content
    assert maker.made == 2
    assert (directory / NAME).read_bytes() == whole


def test_a_file_under_another_name_is_not_taken(directory):
    keep(directory, Maker(b"one"))
    os.rename(directory / NAME, directory / OTHER)
    assert keep(directory, Maker(b"two"), OTHER) == b"two"


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o702])
def test_a_directory_that_others_can_write_to_is_not_used(directory, mode):
    maker = Maker()
    keep(directory, maker)
    directory.chmod(mode)
    assert keep(directory, maker) == maker.content
    keep(directory, maker, OTHER)
    assert maker.made == 3
    assert [path.name for path in directory.iterdir()] == [NAME]
    directory.chmod(0o700)
    keep(directory, maker)
    assert maker.made == 3


def test_what_belongs_to_somebody_else_is_not_private(tmp_path):
    tmp_path.chmod(0o755)
    assert is_private(tmp_path.stat(), os.geteuid())
    assert not is_private(tmp_path.stat(), os.geteuid() + 1)


def test_a_link_is_not_followed(directory, tmp_path):
    maker = Maker()
    keep(directory, maker)
    (tmp_path / "link").symlink_to(directory)
    keep(tmp_path / "link", maker)
    os.rename(directory / NAME, tmp_path / NAME)
    (directory / NAME).symlink_to(tmp_path / NAME)
    keep(directory, maker)
    assert maker.made == 3
    assert not (directory / NAME).is_symlink()


@pytest.mark.parametrize("place", ["file", "file/below", "/proc/self/nothing", "x" * 300])
def test_a_directory_that_cannot_be_made_costs_nothing_but_time(tmp_path, place):
    (tmp_path / "file").write_text("in the way")
    maker = Maker()
    assert keep(tmp_path / place, maker) == maker.content
    assert keep(tmp_path / place, maker) == maker.content
    assert maker.made == 2


def test_a_full_disk_costs_nothing_but_time_and_leaves_nothing(directory):
    program = (
        "import resource, sys\nfrom pathlib import Path\n"
        "from pega_tune.kernels.compile_cache import CompileCache\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))\n"
        "made = CompileCache(Path(sys.argv[1])).kept(lambda: sys.argv[2], lambda: b'x' * 100_000)\n"
        "print(len(made))"
    )
    command = [sys.executable, "-c", program, str(directory), NAME]
    assert subprocess.run(command, check=True, capture_output=True, text=True).stdout == "100000\n"
    assert list(directory.iterdir()) == []


def test_what_fails_to_be_made_is_not_kept(directory):
    def fail() -> bytes:
        raise ValueError("no such GPU")

    with pytest.raises(ValueError, match="no such GPU"):
        keep(directory, fail)
    assert not directory.exists()


def test_what_was_made_of_sources_that_changed_meanwhile_is_not_kept(directory):
    names = iter([NAME, OTHER])
    maker = Maker()
    assert CompileCache(directory).kept(lambda: next(names), maker) == maker.content
    assert not directory.exists()


def test_what_cannot_be_named_is_made(directory):
    def name() -> str:
        raise FileNotFoundError("no sources")

    maker = Maker()
    assert CompileCache(directory).kept(name, maker) == maker.content
    assert not directory.exists()


def test_writers_at_once_leave_one_whole_file(directory):
    contents = [bytes([number]) * (100_000 + number) for number in range(16)]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda content: keep(directory, Maker(content)), contents))
    assert set(found) <= set(contents)
    assert [path.name for path in directory.iterdir()] == [NAME]
    last = Maker(b"never made")
    assert keep(directory, last) in contents
    assert last.made == 0


def test_the_files_that_were_not_used_for_longest_are_dropped(directory):
    names = [f"{number:064x}.cubin" for number in range(6)]
    cache = CompileCache(directory, max_files=3)
    unfinished = directory / f"{NAME}.00ff"
    for age, name in enumerate(names[:3]):
        cache.kept(lambda name=name: name, Maker())
        os.utime(directory / name, (1000 + age, 1000 + age))
    (directory / "notes.txt").write_text("somebody else's")
    unfinished.write_text("of a process that was killed")
    os.utime(unfinished, (1, 1))
    os.utime(directory / "notes.txt", (1, 1))
    cache.kept(lambda: names[0], Maker())  # used again
    cache.kept(lambda: names[3], Maker())
    assert {path.name for path in directory.iterdir()} == {names[0], names[2], names[3], "notes.txt"}
