"""From a host's database to the one that the fleet shares, and back."""

import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pega_tune.autotune.fleet.answering import Answering, answering
from pega_tune.autotune.fleet.loads import Load, read_load, store_load
from pega_tune.autotune.verify.lookup import NoProfileError, profile_in_use
from pega_tune.errors import DataError
from pega_tune.kernels.facts import DeviceFacts
from pega_tune.profiles.policy.errors import PolicyFormatError
from pega_tune.profiles.policy.terms import ProfileState
from pega_tune.profiles.policy.urls import without_passwords
from pega_tune.profiles.store.bundles import require_past
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
class Offer:
    """What the fleet has for a device: read and checked, and nothing is written yet.

    Attributes:
        device: whose.
        found: the best profile that is not retired here; or why there is none.
        retired: what is retired in the fleet, by id.
        notes: what else the user should know, one line each.
    """

    device: DeviceFacts
    found: Load | DataError
    retired: Mapping[str, ProfileRecord]
    notes: tuple[str, ...] = ()


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
        raise type(error)(error.message, _of_fleet(error.hint, url)) from error


def published(source: Store, ids: Iterable[str] = ()) -> tuple[ProfileRecord, ...]:
    """The profiles that there are to push.

    Args:
        source: this host's database.
        ids: of the profiles, or unique beginnings; none takes all that are published.

    Raises:
        NotPublishedError: one of those named is not published, or none is.
        DataError: the database refuses.
    """
    named = tuple(source.profile(each) for each in ids)
    for profile in named:
        if profile.state is not ProfileState.PUBLISHED:
            raise NotPublishedError(f"profile {profile.profile_id} is not published: {profile.state}", _PUBLISHED_ONLY)
    chosen = named or tuple(each for each in source.profiles() if each.state is ProfileState.PUBLISHED)
    if not chosen:
        raise NotPublishedError("there is no published profile here", "run pega-tune sweep")
    return chosen


def push(profiles: Iterable[ProfileRecord], source: Store, fleet: Store) -> tuple[Passed, ...]:
    """Passes profiles on, each with what later checks of it found; what is there already stays as it is.

    Args:
        profiles: of `published`.
        source: this host's database.
        fleet: the shared one.

    Raises:
        DataError: a database does not answer; what was passed on before stays. A profile that is refused keeps no other
            one back.
    """
    return tuple(_pass_on(profile, source, fleet) for profile in profiles)


def pull(fleet_url: str, local: Store, device: DeviceFacts, host: HostView | None = None) -> Pulled:
    """Brings the fleet's best profile for a device here, or keeps the one that is here: `ask`, and then `take`."""
    return take(ask(fleet_url, device, local.profiles(), host), local)


def ask(
    fleet_url: str, device: DeviceFacts, known: Iterable[ProfileRecord] = (), host: HostView | None = None
) -> Offer:
    """What the fleet has for a device; writes nothing, neither there nor here.

    Args:
        fleet_url: the shared database.
        device: facts of the device.
        known: this host's profiles; the retired ones among them are passed over.
        host: the machine; None is this one.
    """
    host = host or patient_host()
    theirs: Mapping[str, ProfileRecord] = {}
    try:
        with open_fleet(fleet_url, host=host) as fleet:
            theirs = _retired(fleet.profiles())
            load, notes = _best(fleet, device, _retired(known))
        require_past(load.bundle, host.now())
    except DataError as error:
        return Offer(device, error, theirs)
    return Offer(device, load, theirs, notes)


def take(offer: Offer, local: Store) -> Pulled:
    """Stores what the fleet offers, and retires here what is retired there.

    Raises:
        DataError: the fleet gave none, for whatever reason, and there is none here; or this host's database refuses.
    """
    device, load, notes = offer.device, offer.found, offer.notes
    try:
        notes += _retire_alike(offer.retired, local)
        if isinstance(load, DataError):
            return _kept(local, device, load, notes)
        added = store_load(load, local).added
    except DataError as error:
        return _kept(local, device, error, notes)
    best, found = load.bundle, answering(local, device)
    instead = found.preferred_to(best.device, device) if found.profile_id != best.profile_id else ""
    return Pulled(device, found, best.profile_id, added, instead, notes=notes)


def _of_fleet(hint: str, url: str) -> str:
    """A hint about a host's own database, for the shared one."""
    hint = hint.replace("--db", "--fleet").replace(
        "`pega-tune sweep` or `pega-tune db upgrade`", "`pega-tune fleet push`"
    )
    return hint.replace("pega-tune db", f"pega-tune --db {shlex.quote(without_passwords(url))} db")


def _pass_on(profile: ProfileRecord, source: Store, fleet: Store) -> Passed:
    try:
        stored = store_load(read_load(profile, source), fleet)
    except (ImportConflictError, PolicyFormatError, RecordDamagedError) as error:
        return Passed(profile, added=False, refused=error.message)
    retired = not stored.added and fleet.profile(profile.profile_id).state is ProfileState.RETIRED
    return Passed(profile, stored.added, retired=retired, verdicts=stored.verdicts)


def _best(fleet: Store, device: DeviceFacts, retired_here: Mapping[str, ProfileRecord]) -> tuple[Load, tuple[str, ...]]:
    """The fleet's best profile for a device but those, as it is passed on; and what is to be told of those."""
    first = profile_in_use(fleet, device)
    mine = retired_here.get(first.profile_id)
    if mine is None:
        return read_load(first, fleet), ()
    name, undo = mine.profile_id, f"pega-tune profiles retire {mine.profile_id} --undo"
    why = f"the fleet's profile {name} is retired here ({_reason(mine)})"
    try:
        best = profile_in_use(fleet, device, retired_here)
    except NoProfileError:
        raise NoProfileError(f"{why}, and no other fits {device.uuid}", f"`{undo}` takes it into use again") from None
    return read_load(best, fleet), (f"{why} and is passed over: `{undo}` takes it into use again",)


def _retired(profiles: Iterable[ProfileRecord]) -> dict[str, ProfileRecord]:
    return {each.profile_id: each for each in profiles if each.state is ProfileState.RETIRED}


def _reason(retired: ProfileRecord) -> str:
    return retired.reasons[0] if retired.reasons else "no reason is given"


def _retire_alike(retired: Mapping[str, ProfileRecord], local: Store) -> tuple[str, ...]:
    """Retires what answers here and was retired in the fleet; a line for each."""
    notes = []
    for mine in local.profiles() if retired else ():
        theirs = retired.get(mine.profile_id)
        if theirs is None or mine.state is not ProfileState.PUBLISHED or theirs.digest != mine.digest:
            continue
        why = _reason(theirs)
        local.retire(mine.profile_id, f"in the fleet, {why}"[:LONGEST_REASON])
        notes.append(f"profile {mine.profile_id}, which was here, is retired in the fleet, and now here ({why})")
    return tuple(notes)


def _kept(local: Store, device: DeviceFacts, error: DataError, notes: tuple[str, ...]) -> Pulled:
    try:
        found = answering(local, device)
    except NoProfileError:
        raise error from None
    return Pulled(device, found, kept=error.message, notes=notes)
