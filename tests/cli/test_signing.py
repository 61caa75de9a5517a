"""`export --sign` and `import --trust`."""

from pathlib import Path

import pytest

from pega_tune.profiles.bundle.document import write
from pega_tune.profiles.bundle.files import write_bundle
from pega_tune.profiles.bundle.keys import read_signing_key
from pega_tune.profiles.store.store import Store
from tests.helpers.bundles import bundle
from tests.helpers.cli import Program
from tests.helpers.keys import KeyFiles, make_keys
from tests.helpers.store import sqlite_url

DATA = 4


@pytest.fixture
def keys(tmp_path: Path) -> KeyFiles:
    return make_keys(tmp_path)


@pytest.fixture
def stocked(program: Program) -> Program:
    """The program with one profile in its database."""
    with Store.open(sqlite_url(program.database)) as store:
        store.import_bundle(bundle())
    return program


def test_a_signed_profile_is_taken_where_its_key_is_trusted(stocked: Program, keys: KeyFiles) -> None:
    path = stocked.folder / "profile.json"
    exported = stocked("export", "abc123", "--sign", keys.private, "-o", path, "--json")
    assert exported.code == 0, exported.stderr
    stocked.database = stocked.folder / "new.db"
    imported = stocked("import", path, "--trust", keys.public, "--json")
    assert (imported.code, imported.stderr) == (0, "")
    assert imported.json["signed_by"] == exported.json["signed_by"] == read_signing_key(keys.private).fingerprint
    assert stocked("export", "abc123").stdout.encode() == write(bundle())


def test_what_is_printed_is_what_is_written(stocked: Program, keys: KeyFiles) -> None:
    printed = stocked("export", "abc123", "--sign", keys.private)
    assert printed.stdout.encode() == write(bundle(), read_signing_key(keys.private))


def test_a_signed_profile_is_taken_without_a_key_and_says_that_nobody_checked(program: Program, keys: KeyFiles) -> None:
    path = program.folder / "profile.json"
    write_bundle(bundle(), path, read_signing_key(keys.private))
    result = program("import", path, "--json")
    assert (result.code, result.json["signed_by"]) == (0, None)
    assert result.stderr == "warning: it is signed, and nobody checked it: --trust PUBKEY does\n"


def test_what_cannot_be_trusted_is_one_line_and_leaves_no_trace(program: Program, keys: KeyFiles) -> None:
    other = make_keys(program.folder, "other", seed=2)
    text = write(bundle(), read_signing_key(keys.private))
    refused = {
        "changed": text.replace(b"lab-7", b"lab-8"),
        "last byte": text[:-1] + b" ",
        "unsigned": write(bundle()),
        "other": write(bundle(), read_signing_key(other.private)),
    }
    for name, content in refused.items():
        path = program.folder / f"{name}.json"
        path.write_bytes(content)
        result = program("import", path, "--trust", keys.public)
        assert (result.code, result.stdout, len(result.stderr.splitlines())) == (DATA, "", 1)
        assert str(path) in result.stderr
        assert not program.database.exists()


@pytest.mark.parametrize("arguments", [("export", "abc123", "--sign"), ("import", "absent.json", "--trust")])
def test_a_file_without_a_key_is_refused_before_anything_else(program: Program, arguments: tuple[str, ...]) -> None:
    path = program.folder / "key.pem"
    path.write_text("junk")
    result = program(*arguments, path, "--json")
    assert (result.code, result.json["error"]["code"]) == (DATA, "bad-key")


def test_bundles_alone_are_signed(stocked: Program, keys: KeyFiles) -> None:
    result = stocked("export", "abc123", "--format", "python", "--sign", keys.private)
    assert (result.code, "bundles alone" in result.stderr) == (2, True)
