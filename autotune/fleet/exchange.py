"""From a host's database to the one that the fleet shares, and back."""

from collections.abc import Iterable
from dataclasses import dataclass

from pega_tune.autotune.verify.lookup import NoProfileError, profile_in_use
from pega_tune.errors import DataError
from pega_tune.kernels.facts import DeviceFacts
from pega_tune.profiles.bundle.document import Bundle
from pega_tune.profiles.policy.checks import Check, latest
from pega_tune.profiles.policy.compiled import digest
from pega_tune.profiles.policy.errors import PolicyFormatError
from pega_tune.profiles.policy.matching import Fit, fit
from pega_tune.profiles.policy.terms import ProfileState, Tier
from pega_tune.profiles.store.bundles import bundle_of
from pega_tune.profiles.store.errors import ImportConflictError, RecordDamagedError
from pega_tune.profiles.store.host import HostView
from pega_tune.profiles.store.records import EvidenceKind, EvidenceRecord, ProfileRecord
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
    """

    profile: ProfileRecord
    added: bool
    refused: str = ""
    retired: bool = False


@dataclass(frozen=True, slots=True)
class Pulled:
    """The profile from which a device's questions are answered after a pull.

    Attributes:
        device: whose.
        profile_id: its id.
        tier: how well it fits.
        warnings: why it is suspect; a sentence each.
        added: it was not here before.
        kept: why it is the one that was here, one line; empty if it is the fleet's.
        notes: what else was done here, one line each.
    """

    device: DeviceFacts
    profile_id: str
    tier: Tier
    warnings: tuple[str, ...]
    added: bool = False
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
            profile = profile_in_use(fleet, device, _retired(local))
            load = _load(profile, fleet)
        added = _store(load, local)
    except DataError as error:
        return _kept(local, device, error, notes)
    matched = _fit_here(local, profile, device)
    return Pulled(device, profile.profile_id, matched.tier, matched.warnings, added=added, notes=notes)


@dataclass(frozen=True, slots=True)
class _Load:
    """What is passed on: read and checked as a whole before anything of it is written."""

    bundle: Bundle
    checks: tuple[EvidenceRecord, ...]


def _pass_on(profile: ProfileRecord, source: Store, fleet: Store) -> Passed:
    try:
        added = _store(_load(profile, source), fleet)
    except (ImportConflictError, PolicyFormatError, RecordDamagedError) as error:
        return Passed(profile, added=False, refused=error.message)
    retired = not added and fleet.profile(profile.profile_id).state is ProfileState.RETIRED
    return Passed(profile, added, retired=retired)


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
        why = "; ".join(theirs.reasons)
        local.retire(mine.profile_id, f"in the fleet, {why}"[:LONGEST_REASON])
        notes.append(f"profile {mine.profile_id}, which was here, is retired in the fleet, and now here ({why})")
    return tuple(notes)


def _load(profile: ProfileRecord, source: Store) -> _Load:
    if digest(profile.compiled) != profile.digest:
        raise RecordDamagedError(f"the digest of profile {profile.profile_id} is not that of its tables")
    evidence = source.evidence(profile.profile_id)
    return _Load(bundle_of(profile), tuple(each for each in evidence if each.kind is EvidenceKind.CANARY))


def _store(load: _Load, target: Store) -> bool:
    added = target.import_bundle(load.bundle)
    for check in load.checks:
        target.add_check(load.bundle.profile_id, check)
    return added


def _kept(local: Store, device: DeviceFacts, error: DataError, notes: tuple[str, ...]) -> Pulled:
    try:
        profile = profile_in_use(local, device)
    except NoProfileError:
        raise error from None
    matched = _fit_here(local, profile, device)
    return Pulled(device, profile.profile_id, matched.tier, matched.warnings, kept=error.message, notes=notes)


def _fit_here(local: Store, profile: ProfileRecord, device: DeviceFacts) -> Fit:
    """How a profile of this host's database fits a device that it was found for."""
    evidence = local.evidence(profile.profile_id)
    checks = (Check.from_json(one.verdict, one.detail) for one in evidence if one.kind is EvidenceKind.CANARY)
    comparable = bool(local.finished_blocks(profile.sweep_id))
    matched = fit(profile.device, device, latest(checks, device), comparable=comparable)
    assert matched is not None
    return matched
