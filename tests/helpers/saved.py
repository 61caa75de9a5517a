"""Databases as released versions left them, for the versions after them to upgrade.

`python -m tests.helpers.saved` adds those of the present revision to `tests/data/store`; each is made once, when its
revision is released, and never again.
"""

import shutil
import subprocess
import tempfile
from pathlib import Path

from pega_tune.profiles.policy.schema import SCHEMA_REVISION
from pega_tune.profiles.policy.terms import ProfileState
from pega_tune.profiles.store.migrate import backup
from pega_tune.profiles.store.records import EvidenceKind, EvidenceRecord, SweepState
from pega_tune.profiles.store.store import Store
from tests.helpers.bundles import SIMULATED, bundle
from tests.helpers.places import plain
from tests.helpers.postgresql import Server, find_programs
from tests.helpers.store import NOW, block_record, host_view, profile_record, serving_block, sqlite_url, sweep_record

SAVED = Path(__file__).resolve().parents[1] / "data" / "store"


def saved_revisions() -> tuple[str, ...]:
    """Revisions of which there are saved databases, the oldest first."""
    return tuple(sorted(file.stem for file in SAVED.glob("*.sql")))


def saved_file(revision: str, folder: Path) -> str:
    """URL of a copy, in `folder`, of the file that a version of this revision left."""
    return sqlite_url(Path(shutil.copyfile(SAVED / f"{revision}.sqlite3", folder / f"{revision}.db")))


def saved_on_server(revision: str, server: Server) -> str:
    """URL of a new database that is as a version of this revision left it."""
    url = server.url(server.create())
    # Newer dumps begin and end with commands to psql itself.
    lines = (SAVED / f"{revision}.sql").read_text(encoding="utf-8").splitlines()
    script = "\n".join(line for line in lines if not line.startswith("\\"))
    with plain(url) as connection:
        connection.exec_driver_sql(script.replace("%", "%%"))
    return url


def fill(url: str) -> None:
    """Puts something into every table, of whatever differs in the records."""
    with Store.open(url, host=host_view()) as store:
        store.add_sweep(sweep_record(pid=None, state=SweepState.FINISHED, seconds=12.5))
        for block in (block_record("b1"), serving_block("s1"), block_record("none", cells=())):
            store.add_block("aa11", block)
        store.add_profile(profile_record())
        store.add_profile(profile_record("ff02", state=ProfileState.DRAFT, reasons=("throttled", "ümläut → %s")))
        store.add_check("ff01", EvidenceRecord(EvidenceKind.CANARY, NOW, verdict="holds", detail="{}"))
        store.import_bundle(bundle())
        store.import_bundle(bundle(profile_id="fff", sweep_id="eee", device=SIMULATED))


def main() -> None:
    """Saves both databases."""
    programs = find_programs()
    assert programs is not None
    with tempfile.TemporaryDirectory() as folder, Server(programs) as server:
        file = Path(folder) / "filled.db"
        fill(sqlite_url(file))
        backup(sqlite_url(file), SAVED / f"{SCHEMA_REVISION}.sqlite3")
        fill(server.url(server.migrated))
        dump = [server.program("pg_dump"), "--inserts", "--no-owner", "--no-privileges"]
        text = subprocess.check_output([*dump, server.url(server.migrated)], text=True)
        (SAVED / f"{SCHEMA_REVISION}.sql").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
