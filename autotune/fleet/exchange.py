"""From a host's database to the one that the fleet shares, and back."""

from collections.abc import Iterable
from dataclasses import dataclass

from pega_tune.autotune.verify.lookup import NoProfileError, profile_in_use
from pega_tune.errors import DataError
from pega_tune.kernels.facts import DeviceFacts
from pega_tune.profiles.bundle.document import Bundle
from pega_tune.profiles.policy.compiled import digest
from pega_tune.profiles.policy.errors import PolicyFormatError
from pega_tune.profiles.policy.matching import fit
from pega_tune.profiles.policy.terms import ProfileState, Tier
from pega_tune.profiles.store.bundles import bundle_of
from pega_tune.profiles.store.errors import ImportConflictError, RecordDamagedError
from pega_tune.profiles.store.host import HostView
from pega_tune.profiles.store.records import EvidenceKind, EvidenceRecord, ProfileRecord
from pega_tune.profiles.store.store import Store

_LOCK_S = 10.0
_GIVE_UP_S = 20.0


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
    """

    profile: ProfileRecord
    added: bool
    refused: str = ""


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
    """

    device: DeviceFacts
    profile_id: str
    tier: Tier
    warnings: tuple[str, ...]
    added: bool = False
    kept: str = ""


def patient_host() -> HostView:
    """This machine, waiting for a database elsewhere for seconds, not minutes: there is one here to fall back on."""
    return HostView(busy_timeout_s=_LOCK_S, give_up_s=_GIVE_UP_S)


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
            raise NotPublishedError(f"profile {profile.profile_id} is a {profile.state}", "push published ones")
    chosen = named or tuple(each for each in source.profiles() if each.state is ProfileState.PUBLISHED)
    if not chosen:
        raise NotPublishedError("there is no published profile here", "run pega-tune sweep")
    return tuple(_pass_on(profile, source, fleet) for profile in chosen)


def pull(fleet_url: str, local: Store, device: DeviceFacts, host: HostView | None = None) -> Pulled:
    """Brings the fleet's best profile for a device here, or keeps the one that is here.

    Args:
        fleet_url: the shared database.
        local: this host's.
        device: facts of the device.
        host: the machine; None is this one.

    Raises:
        DataError: the fleet gives none, for whatever reason, and there is none here; or this host's database refuses.
    """
    try:
        with Store.open(fleet_url, create=False, read_only=True, host=host or patient_host()) as fleet:
            profile = profile_in_use(fleet, device)
            load = _load(profile, fleet)
    except DataError as error:
        return _kept(local, device, error)
    return _answering(profile, device, added=_store(load, local))


@dataclass(frozen=True, slots=True)
class _Load:
    """What is passed on: read and checked as a whole before anything of it is written."""

    bundle: Bundle
    checks: tuple[EvidenceRecord, ...]


def _pass_on(profile: ProfileRecord, source: Store, fleet: Store) -> Passed:
    try:
        return Passed(profile, _store(_load(profile, source), fleet))
    except (ImportConflictError, PolicyFormatError, RecordDamagedError) as error:
        return Passed(profile, added=False, refused=error.message)


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


def _kept(local: Store, device: DeviceFacts, error: DataError) -> Pulled:
    try:
        profile = profile_in_use(local, device)
    except NoProfileError:
        raise error from None
    return _answering(profile, device, kept=error.message)


def _answering(profile: ProfileRecord, device: DeviceFacts, *, added: bool = False, kept: str = "") -> Pulled:
    matched = fit(profile.device, device)
    assert matched is not None
    return Pulled(device, profile.profile_id, matched.tier, matched.warnings, added, kept)
