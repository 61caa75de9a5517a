"""Names that came in a bundle are shown as they are, and name no file; a database in use is exported whole."""

import os
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from pega_tune.kernels.facts import Provenance
from pega_tune.profiles.bundle.document import Bundle, write
from pega_tune.profiles.bundle.files import write_bundle
from pega_tune.profiles.bundle.packaged import file_name
from pega_tune.profiles.policy.terms import ProfileState
from pega_tune.profiles.store.store import Store
from tests.helpers.bundles import DEVICE, bundle
from tests.helpers.cli import Program
from tests.helpers.store import sqlite_url

MARKUP = "[bold red]x[/bold red] [link=file:///etc]y[/link] :smile:"
PATH = "../../../../tmp/pega-tune-stray"


def named(name: str) -> Bundle:
    """A bundle with the name wherever a name can be."""
    identity = replace(DEVICE.identity, pci_device_id=name, pci_subsystem_id=name, host_cpu=name, mig_slice=name)
    device = replace(DEVICE, uuid=name, identity=identity, provenance=Provenance(name, host=name))
    return bundle(device=device, kernel_digest=name, state=ProfileState.DRAFT, reasons=(name,))


@pytest.mark.parametrize("name", [MARKUP, PATH])
def test_names_are_shown_as_they_are_and_touch_no_file(program: Program, name: str) -> None:
    path = program.folder / "profile.json"
    write_bundle(named(name), path)
    imported = program("import", path)
    assert imported.code == 0
    shown = program("profiles", "show", "abc123")
    listed = program("profiles", "list")
    for result in (imported, shown, listed):
        assert name in result.stdout
        assert "\x1b" not in result.stdout + result.stderr
    assert name in program("export", "abc123").stderr
    assert program("sweeps", "show", "def456").code == 0
    known = {path.name, program.database.name, "data"}
    assert {each.removesuffix("-wal").removesuffix("-shm") for each in os.listdir(program.folder)} <= known
    assert not Path("/tmp/pega-tune-stray").exists()


@pytest.mark.parametrize("name", [MARKUP, PATH, "/etc/passwd", "*", "", "\u2044"])
def test_the_file_of_a_device_lies_in_its_folder(name: str) -> None:
    file = file_name(named(name or "x").device)
    assert file == Path(file).name
    assert set(file) <= set("0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-.")


def test_a_database_in_use_is_exported_whole(program: Program) -> None:
    """What was published a moment ago lies in the journal alone, and another write is under way."""
    with Store.open(sqlite_url(program.database)) as store, closing(sqlite3.connect(program.database)) as writer:
        for number in range(20):
            store.import_bundle(bundle(profile_id=f"p{number}", sweep_id=f"s{number}"))
        writer.execute("BEGIN IMMEDIATE")
        writer.execute("UPDATE profile SET kernel_digest = 'half'")
        for number in (0, 19):
            result = program("export", f"p{number}")
            assert result.stdout.encode() == write(bundle(profile_id=f"p{number}", sweep_id=f"s{number}"))
        writer.rollback()
