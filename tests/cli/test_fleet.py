"""`fleet push`, `pull` and `list`: two hosts with a file each, and the server between them."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest

from pega_tune.autotune.cli.main import run
from pega_tune.autotune.devices import find_device
from pega_tune.profiles.policy.checks import DRIFTED, Check
from pega_tune.profiles.policy.terms import ProfileState
from pega_tune.profiles.store.records import EvidenceKind, EvidenceRecord
from pega_tune.profiles.store.store import Store
from tests.helpers.bundles import CREATED, bundle
from tests.helpers.cli import Result
from tests.helpers.places import Place, plain, server_place
from tests.helpers.postgresql import Server
from tests.helpers.store import counts, sqlite_url

USAGE, DATA, FLAGGED = 2, 4, 5
SIM = ("--device", "sim:h200")
SIM_FACTS = find_device("sim:h200").facts
EARLIER, LATER = CREATED - timedelta(hours=1), CREATED + timedelta(hours=1)
ASKED = (*SIM, "--ranges", 16384, "--bytes", "64MiB", "--direction", "h2d", "--json")


@dataclass(frozen=True)
class Host:
    """A host of the fleet, by its database."""

    path: Path
    ask: Callable[..., Result]

    def __call__(self, *arguments: object) -> Result:
        return self.ask("--db", self.path, *arguments)


@pytest.fixture
def ask(capsys: pytest.CaptureFixture[str]) -> Callable[..., Result]:
    def call(*arguments: object) -> Result:
        code = run([str(argument) for argument in arguments])
        printed = capsys.readouterr()
        assert "s3ntinel" not in printed.out + printed.err
        return Result(code, printed.out, printed.err)

    return call


@pytest.fixture
def shared(postgresql: Server) -> Place:
    return server_place(postgresql)


@pytest.fixture
def measured(ask: Callable[..., Result], tmp_path: Path) -> Host:
    """A host that has a published profile."""
    path = tmp_path / "measured.db"
    with Store.open(sqlite_url(path)) as store:
        store.import_bundle(bundle(device=find_device("sim:h200").facts))
    return Host(path, ask)


@pytest.fixture
def new(ask: Callable[..., Result], tmp_path: Path) -> Host:
    """A host without a database."""
    return Host(tmp_path / "new.db", ask)


def test_a_profile_answers_on_another_host_as_on_its_own(measured: Host, new: Host, shared: Place) -> None:
    (profile,) = measured("profiles", "list", "--json").json["profiles"]
    pushed = measured("fleet", "push", "--fleet", shared.url, "--json")
    assert pushed.json == {
        "pushed": [
            {
                "profile": profile["id"],
                "device": "sim:h200",
                "added": True,
                "refused": None,
                "retired": False,
                "verdicts": 0,
            }
        ]
    }
    (pulled,) = new("fleet", "pull", *SIM, "--fleet", shared.url, "--json").json["pulled"]
    assert (pulled["profile"], pulled["tier"], pulled["added"], pulled["kept"]) == (profile["id"], "board", True, None)
    there, here = (host("decide", *ASKED).json for host in (new, measured))
    assert {**there, "age_s": None} == {**here, "age_s": None}


def test_twice_is_once(measured: Host, new: Host, shared: Place) -> None:
    for added in (True, False):
        (pushed,) = measured("fleet", "push", "--fleet", shared.url, "--json").json["pushed"]
        (pulled,) = new("fleet", "pull", *SIM, "--fleet", shared.url, "--json").json["pulled"]
        assert (pushed["added"], pulled["added"]) == (added, added)
    assert shared.counts()["profile"] == counts(new.path)["profile"] == 1


def test_a_profile_that_is_refused_does_not_keep_the_others_back(measured: Host, shared: Place) -> None:
    (first,) = (each["id"] for each in measured("profiles", "list", "--json").json["profiles"])
    with Store.open(shared.url) as fleet, Store.open(sqlite_url(measured.path)) as local:
        fleet.import_bundle(bundle(profile_id=first))
        local.import_bundle(bundle(profile_id="another", sweep_id="other"))
    result = measured("fleet", "push", "--fleet", shared.url, "--json")
    assert result.code == DATA
    pushed = {each["profile"]: (each["added"], each["refused"]) for each in result.json["pushed"]}
    assert pushed["another"] == (True, None)
    assert f"there is another profile {first} in postgresql://tester@" in pushed[first][1]
    assert "refused: there is another" in measured("fleet", "push", "--fleet", shared.url).stdout


def test_the_last_good_profile_is_kept_when_the_fleet_cannot_be_reached(
    measured: Host, new: Host, postgresql: Server, shared: Place
) -> None:
    measured("fleet", "push", "--fleet", shared.url)
    (good,) = new("fleet", "pull", *SIM, "--fleet", shared.url, "--json").json["pulled"]
    content = new.path.read_bytes()
    for gone in (postgresql.url("nothing"), "postgresql://tester@localhost:1/x"):
        result = new("fleet", "pull", *SIM, "--fleet", gone, "--json")
        assert result.code == FLAGGED
        (kept,) = result.json["pulled"]
        assert (kept["profile"], kept["added"]) == (good["profile"], False)
        assert "is not usable" in kept["kept"]
        assert "Is the server running" not in kept["kept"]
        assert "is kept" in result.stderr
    assert new.path.read_bytes() == content


def test_what_is_damaged_in_the_fleet_is_not_pulled(measured: Host, new: Host, shared: Place) -> None:
    measured("fleet", "push", "--fleet", shared.url)
    with plain(shared.url) as connection:
        connection.exec_driver_sql("UPDATE profile SET compiled = compiled || '\\x00'::bytea")
    result = new("fleet", "pull", *SIM, "--fleet", shared.url)
    assert (result.code, new.path.exists()) == (DATA, False)


def test_without_any_profile_a_pull_fails(new: Host, postgresql: Server, shared: Place) -> None:
    for url, complaint in ((shared.url, "no published profile fits"), (postgresql.url("nothing"), "is not usable")):
        result = new("fleet", "pull", *SIM, "--fleet", url)
        assert result.code == DATA
        assert complaint in result.stderr
    assert not list(new.path.parent.glob("new.db*"))


def test_a_list_tells_of_each_class(measured: Host, new: Host, shared: Place) -> None:
    (profile,) = measured("profiles", "list", "--json").json["profiles"]
    measured("fleet", "push", "--fleet", shared.url)
    (listed,) = new("fleet", "list", "--fleet", shared.url, "--json").json["classes"]
    assert (listed["class"], listed["profile"]) == (profile["class"], profile["id"])
    assert (listed["simulated"], listed["suspect"], len(listed["hosts"])) == (True, False, 1)
    assert listed["age_s"] > 0
    assert profile["id"] in new("fleet", "list", "--fleet", shared.url).stdout


@pytest.mark.parametrize("command", ["push", "pull", "list"])
def test_a_fleet_must_be_named(new: Host, command: str) -> None:
    result = new("fleet", command)
    assert result.code == USAGE
    assert "--fleet" in result.stderr


def test_drafts_stay_where_they_are(measured: Host, shared: Place) -> None:
    with plain(f"sqlite:///{measured.path}") as connection:
        connection.exec_driver_sql("UPDATE profile SET state = 'draft'")
    (profile,) = measured("profiles", "list", "--json").json["profiles"]
    for named in ((), (profile["id"],)):
        assert measured("fleet", "push", *named, "--fleet", shared.url).code == DATA
    assert shared.counts()["profile"] == 0


def test_the_fleet_has_to_be_named(new: Host) -> None:
    result = new("fleet", "pull", *SIM)
    assert result.code == USAGE
    assert "PEGA_TUNE_FLEET" in result.stderr


def test_hints_name_the_option_that_names_the_fleet(measured: Host, tmp_path: Path) -> None:
    for command in ("list", "pull"):
        device = SIM if command == "pull" else ()
        result = Host(tmp_path / f"{command}.db", measured.ask)(
            "fleet", command, *device, "--fleet", tmp_path / "none.db"
        )
        assert result.code == DATA
        assert "fleet push` creates it; --fleet names another" in result.stderr
        assert "--db names" not in result.stderr


def test_what_is_retired_in_the_fleet_is_retired_where_it_was_pulled(measured: Host, new: Host, shared: Place) -> None:
    with Store.open(sqlite_url(measured.path)) as local:
        local.import_bundle(bundle(profile_id="newer", sweep_id="other", device=SIM_FACTS, created_at=LATER))
    measured("fleet", "push", "--fleet", shared.url)
    assert new("fleet", "pull", *SIM, "--fleet", shared.url, "--json").json["pulled"][0]["profile"] == "newer"
    assert new("profiles", "retire", "newer", "--db", shared.url, "--reason", "a bad riser").code == 0
    again = {
        each["profile"]: each for each in measured("fleet", "push", "--fleet", shared.url, "--json").json["pushed"]
    }
    assert {name: each["retired"] for name, each in again.items()} == {"newer": True, "abc123": False}
    pulled = new("fleet", "pull", *SIM, "--fleet", shared.url, "--json")
    assert (pulled.code, pulled.json["pulled"][0]["profile"]) == (0, "abc123")
    assert "profile newer, which was here, is retired in the fleet" in pulled.stderr
    assert new("decide", *ASKED).json["profile"] == "abc123"
    assert "a bad riser" in new("profiles", "show", "newer").stdout


def test_what_is_retired_here_is_not_pulled(measured: Host, new: Host, shared: Place) -> None:
    measured("fleet", "push", "--fleet", shared.url)
    new("fleet", "pull", *SIM, "--fleet", shared.url)
    new("profiles", "retire", "abc123")
    result = new("fleet", "pull", *SIM, "--fleet", shared.url)
    assert result.code == DATA
    assert "the fleet's profile abc123 is retired here (retired on " in result.stderr
    assert "profiles retire abc123 --undo` takes it into use again" in result.stderr
    with Store.open(shared.url) as fleet:
        fleet.import_bundle(bundle(profile_id="older", sweep_id="e1", device=SIM_FACTS, created_at=EARLIER))
    result = new("fleet", "pull", *SIM, "--fleet", shared.url, "--json")
    assert (result.code, result.json["pulled"][0]["profile"]) == (0, "older")
    assert "abc123 is retired here" in result.stderr
    assert "and is passed over" in result.stderr


def test_a_push_of_nothing_makes_no_database(measured: Host, tmp_path: Path) -> None:
    assert measured("fleet", "push", "nosuch", "--fleet", tmp_path / "fleet.db").code == DATA
    assert not list(tmp_path.glob("fleet.db*"))


def test_a_profile_that_is_refused_here_leaves_the_good_one(measured: Host, new: Host, shared: Place) -> None:
    with Store.open(shared.url) as fleet:
        fleet.import_bundle(bundle(profile_id="good", sweep_id="e1", device=SIM_FACTS))
    new("fleet", "pull", *SIM, "--fleet", shared.url)
    with Store.open(shared.url) as fleet:
        fleet.import_bundle(bundle(profile_id="abc123", device=SIM_FACTS, created_at=LATER))
    with Store.open(sqlite_url(new.path)) as local:
        local.import_bundle(bundle(profile_id="abc123", state=ProfileState.DRAFT, reasons=("another",)))
    result = new("fleet", "pull", *SIM, "--fleet", shared.url, "--json")
    assert result.code == FLAGGED
    (kept,) = result.json["pulled"]
    assert kept["profile"] == "good"
    assert f"there is another profile abc123 in {new.path}" in kept["kept"]


def test_a_newer_profile_of_this_host_answers_and_is_named(measured: Host, new: Host, shared: Place) -> None:
    measured("fleet", "push", "--fleet", shared.url)
    with Store.open(sqlite_url(new.path)) as local:
        local.import_bundle(bundle(profile_id="newer", sweep_id="other", device=SIM_FACTS, created_at=LATER))
    result = new("fleet", "pull", *SIM, "--fleet", shared.url, "--json")
    (pulled,) = result.json["pulled"]
    assert (result.code, pulled["offered"], pulled["added"], pulled["kept"]) == (0, "abc123", True, None)
    assert (pulled["profile"], pulled["instead"]) == ("newer", "is newer")
    assert new("decide", *ASKED).json["profile"] == pulled["profile"]
    told = new("fleet", "pull", *SIM, "--fleet", shared.url).stdout
    assert "newer    board  is newer than the fleet's abc123, which was here already" in told


def test_a_host_that_found_a_drift_is_named(measured: Host, new: Host, shared: Place) -> None:
    measured("fleet", "push", "--fleet", shared.url)
    new("fleet", "pull", *SIM, "--fleet", shared.url)
    elsewhere = Check("GPU-2", SIM_FACTS.staleness, DRIFTED, "lab-9")
    with Store.open(sqlite_url(new.path)) as local:
        record = EvidenceRecord(EvidenceKind.CANARY, LATER, verdict=DRIFTED, detail=elsewhere.to_json())
        local.add_check("abc123", record)
    assert "was there already; verdicts that are new there: 1" in new("fleet", "push", "--fleet", shared.url).stdout
    (listed,) = new("fleet", "list", "--fleet", shared.url, "--json").json["classes"]
    assert (listed["suspect"], listed["hosts"][1]) == (
        True,
        {"host": "lab-9", "device": "GPU-2", "differs": True, "changed": [], "drifted": True},
    )
    assert "lab-9: drifted" in new("fleet", "list", "--fleet", shared.url).stdout


def test_a_pull_checks_no_signature_and_has_no_option_for_it(new: Host, tmp_path: Path) -> None:
    result = new("fleet", "pull", "--trust", tmp_path / "key.pub", "--fleet", tmp_path / "fleet.db")
    assert result.code == USAGE
    assert result.errors == ["error: no such option: --trust; see pega-tune fleet pull --help"]


def test_a_host_may_keep_its_own_on_a_server(measured: Host, postgresql: Server, shared: Place) -> None:
    measured("fleet", "push", "--fleet", shared.url)
    own = postgresql.url(postgresql.create())
    for added in (True, False):
        result = measured.ask("--db", own, "fleet", "pull", *SIM, "--fleet", shared.url, "--json")
        (pulled,) = result.json["pulled"]
        assert (result.code, pulled["profile"], pulled["tier"], pulled["added"]) == (0, "abc123", "board", added)
