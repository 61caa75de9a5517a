"""From a host's database to the one that the fleet shares, and back."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from pega_tune.autotune.fleet.answering import Answering, answering
from pega_tune.autotune.fleet.loads import Load, read_load, store_load
from pega_tune.autotune.verify.lookup import NoProfileError, profile_in_use
from pega_tune.errors import DataError
from pega_tune.kernels.facts import DeviceFacts
from pega_tune.profiles.policy.admissible import require_sms
from pega_tune.profiles.policy.errors import PolicyFormatError
from pega_tune.profiles.policy.terms import ProfileState
from pega_tune.profiles.store.errors import ImportConflictError, RecordDamagedError
from pega_tune.profiles.store.host import HostView
from pega_tune.profiles.store.records import ProfileRecord
from pega_tune.profiles.store.retiring import LONGEST_REASON
from pega_tune.profiles.store.store import Store

_PUBLISHED_ONLY = "push published ones"
_LOCK_S = 10.0
_GIVE_UP_S = 20.0
_AWAY_S = 5.0


class NotPublishedError(DataError):
    """A profile that nobody should use is not passed on."""

    code = "not-published"


@dataclass(frozen=True, slots=True)
class Passed:
    """A profile that was to go from one database to another.

    Attributes:
        profile: as it was read.
        added: False if it was there already, or was refused.
        refused: why, one line; empty if it is there now.
        retired: it is there, and was taken out of use there.
        verdicts: what checks of it found, of so many devices, and was not known there.
    """

    profile: ProfileRecord
    added: bool
    refused: str = ""
    retired: bool = False
    verdicts: int = 0


@dataclass(frozen=True, slots=True)
class Pulled:
    """The profile from which a device's questions are answered after a pull.

    Attributes:
        device: whose.
        answering: that profile; `decide` takes the same.
        offered: the fleet's best, by its id, which is here now; empty if the fleet gave none.
        added: it was not here before.
        instead: why another one answers, in a few words; empty if the fleet's does, or there is none.
        kept: why the fleet gave none, one line; empty if it did.
        notes: what else was done here, one line each.
    """

    device: DeviceFacts
    answering: Answering
    offered: str = ""
    added: bool = False
    instead: str = ""
    kept: str = ""
    notes: tuple[str, ...] = ()


def patient_host() -> HostView:
    """This machine, waiting for a database elsewhere for seconds, not minutes: there is one here to fall back on."""
    return HostView(busy_timeout_s=_LOCK_S, give_up_s=_GIVE_UP_S, away_s=_AWAY_S, silence_s=_GIVE_UP_S)


def open_fleet(url: str, *, create: bool = False, read_only: bool = True, host: HostView | None = None) -> Store:
    """The shared database, to be closed by the caller (`with`); messages say which option names it.

    Raises:
        DataError: it cannot be reached, or is refused.
    """
    try:
        return Store.open(url, create=create, read_only=read_only, host=host or patient_host())
    except DataError as error:
        raise type(error)(error.message, error.hint.replace("--db", "--fleet")) from error


def push(source: Store, fleet: Store, ids: Iterable[str] = ()) -> tuple[Passed, ...]:
    """Passes profiles on, each with what later checks of it found; what is there already stays as it is.

    Args:
        source: this host's.
        fleet: the shared one.
        ids: of the profiles, or unique beginnings; none passes on all that are published.

    Raises:
        NotPublishedError: one of those named is not published, or none is.
        DataError: a database does not answer; what was passed on before stays. A profile that is refused keeps no other
            one back.
    """
    named = tuple(source.profile(each) for each in ids)
    for profile in named:
        if profile.state is not ProfileState.PUBLISHED:
            raise NotPublishedError(f"profile {profile.profile_id} is not published: {profile.state}", _PUBLISHED_ONLY)
    chosen = named or tuple(each for each in source.profiles() if each.state is ProfileState.PUBLISHED)
    if not chosen:
        raise NotPublishedError("there is no published profile here", "run pega-tune sweep")
    return tuple(_pass_on(profile, source, fleet) for profile in chosen)


def pull(fleet_url: str, local: Store, device: DeviceFacts, host: HostView | None = None) -> Pulled:
    """Brings the fleet's best profile for a device here, or keeps the one that is here.

    What was retired in the fleet is retired here, too, and what was retired here is passed over.

    Args:
        fleet_url: the shared database.
        local: this host's.
        device: facts of the device.
        host: the machine; None is this one.

    Raises:
        DataError: the fleet gives none, for whatever reason, and there is none here; or this host's database refuses.
    """
    notes: tuple[str, ...] = ()
    try:
        with open_fleet(fleet_url, host=host) as fleet:
            notes = _retire_alike(fleet, local)
            best, load = _best(fleet, device, _retired(local))
        added = store_load(load, local).added
    except DataError as error:
        return _kept(local, device, error, notes)
    found = answering(local, device)
    other = found.profile_id != best.profile_id
    instead = found.preferred_to(best, device) if other else ""
    return Pulled(device, found, best.profile_id, added, instead, notes=notes)


def _pass_on(profile: ProfileRecord, source: Store, fleet: Store) -> Passed:
    try:
        stored = store_load(read_load(profile, source), fleet)
    except (ImportConflictError, PolicyFormatError, RecordDamagedError) as error:
        return Passed(profile, added=False, refused=error.message)
    retired = not stored.added and fleet.profile(profile.profile_id).state is ProfileState.RETIRED
    return Passed(profile, stored.added, retired=retired, verdicts=stored.verdicts)


def _best(fleet: Store, device: DeviceFacts, without: Collection[str]) -> tuple[ProfileRecord, Load]:
    """The fleet's best profile that the device can run, as it is passed on."""
    passed_over = set(without)
    while True:
        profile = profile_in_use(fleet, device, passed_over)
        load = read_load(profile, fleet)
        try:
            require_sms(load.bundle.policy, device)
        except PolicyFormatError:
            passed_over.add(profile.profile_id)
        else:
            return profile, load


def _retired(store: Store) -> dict[str, ProfileRecord]:
    return {each.profile_id: each for each in store.profiles() if each.state is ProfileState.RETIRED}


def _retire_alike(fleet: Store, local: Store) -> tuple[str, ...]:
    """Retires what answers here and was retired in the fleet; a line for each."""
    retired = _retired(fleet)
    notes = []
    for mine in local.profiles() if retired else ():
        theirs = retired.get(mine.profile_id)
        if theirs is None or mine.state is not ProfileState.PUBLISHED or theirs.digest != mine.digest:
            continue
        why = theirs.reasons[0] if theirs.reasons else "no reason is given"
        local.retire(mine.profile_id, f"in the fleet, {why}"[:LONGEST_REASON])
        notes.append(f"profile {mine.profile_id}, which was here, is retired in the fleet, and now here ({why})")
    return tuple(notes)


def _kept(local: Store, device: DeviceFacts, error: DataError, notes: tuple[str, ...]) -> Pulled:
    try:
        found = answering(local, device)
    except NoProfileError:
        raise error from None
    return Pulled(device, found, kept=error.message, notes=notes)
