"""Bundles on disk."""

import os
import stat
from pathlib import Path

import pytest

from pega_tune.profiles.bundle.document import write
from pega_tune.profiles.bundle.errors import BundleError
from pega_tune.profiles.bundle.files import read_bundle, write_bundle
from pega_tune.profiles.bundle.strict_json import MAX_TEXT_BYTES
from tests.helpers.bundles import bundle


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "profile.json"


def test_what_was_written_is_read_again(path):
    write_bundle(bundle(), path)
    assert read_bundle(path) == bundle()
    assert path.read_bytes() == write(bundle())
    assert os.listdir(path.parent) == [path.name]


def test_a_new_file_can_be_read_by_whom_the_umask_lets(path):
    old = os.umask(0o027)
    try:
        write_bundle(bundle(), path)
    finally:
        os.umask(old)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_an_old_file_is_replaced_and_a_link_to_it_stays(path):
    link = path.with_name("link.json")
    path.write_text("old")
    link.symlink_to(path)
    write_bundle(bundle(), link)
    assert link.is_symlink()
    assert read_bundle(path) == bundle()


def test_an_old_file_stays_if_the_new_one_is_refused(path):
    path.write_text("old")
    with pytest.raises(BundleError):
        write_bundle(bundle(method_version=0), path)
    assert path.read_text() == "old"
    assert os.listdir(path.parent) == [path.name]


@pytest.mark.parametrize("place", ["absent/profile.json", ".", "file/profile.json", "pipe", "x" * 300])
def test_a_file_that_cannot_be_written_is_refused(tmp_path, place):
    (tmp_path / "file").write_text("")
    os.mkfifo(tmp_path / "pipe")
    before = sorted(os.listdir(tmp_path))
    with pytest.raises(BundleError):
        write_bundle(bundle(), tmp_path / place)
    assert sorted(os.listdir(tmp_path)) == before


@pytest.mark.parametrize("place", ["absent", ".", "pipe", "file/below", "\0"])
def test_what_is_no_file_is_refused_and_not_waited_for(tmp_path, place):
    (tmp_path / "file").write_text("")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(BundleError):
        read_bundle(tmp_path / place)


def test_a_refusal_names_the_file(path):
    path.write_text("{")
    with pytest.raises(BundleError) as caught:
        read_bundle(path)
    assert str(path) in caught.value.message
    assert "\n" not in caught.value.message


def test_an_endless_file_is_not_read_to_its_end(path):
    with path.open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(BundleError) as caught:
        read_bundle(path)
    assert f"larger than {MAX_TEXT_BYTES}" in caught.value.message
