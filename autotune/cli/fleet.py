"""`pega-tune fleet push`, `pull` and `list`."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pega_tune.autotune.cli.errors import ExitCode
from pega_tune.autotune.cli.output import table
from pega_tune.autotune.cli.session import Session, session_of
from pega_tune.autotune.cli.units import format_age
from pega_tune.errors import DataError, UsageError

if TYPE_CHECKING:
    from pega_tune.autotune.fleet.exchange import Offer, Passed, Pulled
    from pega_tune.autotune.fleet.overview import ClassOverview, Member
    from pega_tune.kernels.facts import DeviceFacts
    from pega_tune.profiles.store.records import ProfileRecord
    from pega_tune.profiles.store.store import Store


@dataclass(frozen=True, slots=True)
class NotPulled:
    """A device for which there is no profile, in the fleet or here.

    Attributes:
        device: which.
        error: why not.
    """

    device: DeviceFacts
    error: DataError


app = typer.Typer(name="fleet", help="Share profiles between hosts.")

FleetOption = Annotated[
    str | None,
    typer.Option("--fleet", metavar="URL", help="The database that the hosts share.  [default: PEGA_TUNE_FLEET]"),
]
PushedArgument = Annotated[
    list[str] | None, typer.Argument(metavar="ID", help="Profiles to push.  [default: all that are published]")
]
PulledDeviceOption = Annotated[
    str | None, typer.Option("--device", metavar="auto|N|UUID|sim:NAME", help="For which device.  [default: all here]")
]


@app.command("push")
def push_profiles(context: typer.Context, ids: PushedArgument = None, fleet: FleetOption = None) -> None:
    """Give published profiles of this host to the fleet.

    What verify found of them goes with them, also where they are there already. Exit code 4: one was refused; the
    others are there.
    """
    from pega_tune.autotune.fleet.exchange import open_fleet, published, push

    session = session_of(context)
    url = _required(fleet)
    with session.read_store() as source:
        chosen = published(source, ids or ())
        with open_fleet(url, create=True, read_only=False) as target:
            passed = push(chosen, source, target)
    session.output.answer(
        {"pushed": [_passed_document(each) for each in passed]},
        table(("PROFILE", "DEVICE", ""), (_passed_row(each) for each in passed)),
    )
    if any(each.refused for each in passed):
        raise typer.Exit(ExitCode.DATA)


@app.command("pull")
def pull_profiles(context: typer.Context, device: PulledDeviceOption = None, fleet: FleetOption = None) -> None:
    """Bring the fleet's best profile for each device here.

    It says which profile decide uses then, be it the fleet's or a better one of this host. Exit code 5: the one that is
    here has to do. 4: a device has none at all.
    """
    from pega_tune.autotune.fleet.exchange import ask

    session = session_of(context)
    url = _required(fleet)
    known = _known(session)
    offers = [ask(url, each, known or ()) for each in _devices(device)]
    refusals = [each.found for each in offers if isinstance(each.found, DataError)]
    if known is None and len(refusals) == len(offers):
        raise refusals[0]  # so that no database is made for nothing
    with session.write_store(create=True) as local:
        outcomes = [_outcome(each, local) for each in offers]
    pulled = [each for each in outcomes if not isinstance(each, NotPulled)]
    missing = [each for each in outcomes if isinstance(each, NotPulled)]
    if not pulled:
        raise missing[0].error
    _warn(session, pulled, missing)
    session.output.answer(
        {
            "pulled": [_pulled_document(each) for each in pulled],
            "missing": [{"device": each.device.uuid, "reason": each.error.message} for each in missing],
        },
        table(("DEVICE", "PROFILE", "TIER", ""), (_pulled_row(each) for each in pulled)),
    )
    if missing:
        raise typer.Exit(ExitCode.DATA)
    if any(each.kept for each in pulled):
        raise typer.Exit(ExitCode.FLAGGED)


@app.command("list")
def list_classes(context: typer.Context, fleet: FleetOption = None) -> None:
    """Show the profile of each class of devices, and which hosts differ.

    It says how old each is, too, and whether it is suspect.
    """
    from pega_tune.autotune.fleet.exchange import open_fleet
    from pega_tune.autotune.fleet.overview import overview

    session = session_of(context)
    url = _required(fleet)
    with open_fleet(url) as store:
        classes = overview(store)
    now = datetime.now(UTC)
    session.output.answer(
        {"classes": [_class_document(each, now) for each in classes]},
        table(
            ("CLASS", "DEVICE", "PROFILE", "AGE", "STATE", "HOSTS", "DIFFERING"),
            (_class_row(each, now) for each in classes),
        ),
    )


def _required(option: str | None) -> str:
    from pega_tune.profiles.policy.settings import FLEET_VARIABLE, fleet_url

    url = fleet_url(option)
    if url is None:
        raise UsageError("the database that the hosts share is not named", f"give --fleet URL, or set {FLEET_VARIABLE}")
    return url


def _devices(spec: str | None) -> tuple[DeviceFacts, ...]:
    from pega_tune.autotune.devices import AUTO, all_devices, find_device

    real = tuple(facts for facts in all_devices() if not facts.simulated) if spec is None else ()
    return real or (find_device(spec or AUTO).facts,)


def _known(session: Session) -> tuple[ProfileRecord, ...] | None:
    """The profiles of this host; None if it has no database yet."""
    if not session.has_database():
        return None
    with session.read_store() as store:
        return store.profiles()


def _outcome(offer: Offer, local: Store) -> Pulled | NotPulled:
    """What comes of a pull; that one device gets nothing keeps nothing from the others."""
    from pega_tune.autotune.fleet.exchange import take

    try:
        return take(offer, local)
    except DataError as error:
        return NotPulled(offer.device, error)


def _warn(session: Session, pulled: list[Pulled], missing: list[NotPulled]) -> None:
    for each in pulled:
        for note in each.notes:
            session.output.warn(note)
        profile = each.answering.profile_id
        if each.kept:
            session.output.warn(f"profile {profile} is kept for {each.device.uuid}: {each.kept}")
        for warning in each.answering.warnings:
            session.output.warn(f"profile {profile}: {warning}")
    for none in missing:
        session.output.warn(f"there is no profile for {none.device.uuid}: {none.error.message}")


def _passed_document(passed: Passed) -> dict[str, Any]:
    return {
        "profile": passed.profile.profile_id,
        "device": passed.profile.device.uuid,
        "added": passed.added,
        "refused": passed.refused or None,
        "retired": passed.retired,
        "verdicts": passed.verdicts,
    }


def _passed_row(passed: Passed) -> tuple[str, ...]:
    known = "is retired there" if passed.retired else "was there already"
    outcome = f"refused: {passed.refused}" if passed.refused else "pushed" if passed.added else known
    verdicts = f"; verdicts that are new there: {passed.verdicts}" if passed.verdicts else ""
    return passed.profile.profile_id, passed.profile.device.uuid, outcome + verdicts


def _pulled_document(pulled: Pulled) -> dict[str, Any]:
    return {
        "device": pulled.device.uuid,
        "profile": pulled.answering.profile_id,
        "tier": str(pulled.answering.tier),
        "offered": pulled.offered or None,
        "added": pulled.added,
        "instead": pulled.instead or None,
        "kept": pulled.kept or None,
        "warnings": list(pulled.answering.warnings),
    }


def _pulled_row(pulled: Pulled) -> tuple[str, ...]:
    how = "kept" if pulled.kept else "pulled" if pulled.added else "was here already"
    if pulled.instead:
        how = f"{pulled.instead} than the fleet's {pulled.offered}, which {'was pulled, too' if pulled.added else how}"
    return pulled.device.uuid, pulled.answering.profile_id, str(pulled.answering.tier), how


def _class_document(each: ClassOverview, now: datetime) -> dict[str, Any]:
    profile = each.profile
    return {
        "class": each.class_id,
        "device": each.name,
        "simulated": each.simulated,
        "profile": profile.profile_id if profile else None,
        "published_at": profile.created_at.isoformat() if profile else None,
        "age_s": (now - profile.created_at).total_seconds() if profile else None,
        "suspect": each.suspect,
        "hosts": [_member_document(member) for member in each.members],
    }


def _member_document(member: Member) -> dict[str, Any]:
    return {
        "host": member.host,
        "device": member.board,
        "differs": member.differs,
        "changed": list(member.changed),
        "drifted": member.drifted,
    }


def _class_row(each: ClassOverview, now: datetime) -> tuple[str, ...]:
    profile = each.profile
    state = "no profile" if profile is None else "suspect" if each.suspect else "sound"
    hosts = {member.host or member.board for member in each.members}
    differing = "; ".join(f"{m.host or m.board}: {_difference(m)}" for m in each.members if m.differs)
    age = "in the future" if each.ahead else format_age((now - profile.created_at).total_seconds()) if profile else ""
    return each.class_id, each.name, profile.profile_id if profile else "-", age, state, str(len(hosts)), differing


def _difference(member: Member) -> str:
    return ", ".join((*member.changed, *(("drifted",) if member.drifted else ())))
