"""What a fleet knows: for each class of devices its profile, whether it is still true, and who differs."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

from pega_tune.kernels.facts import DeviceFacts, stale_fields
from pega_tune.profiles.policy.checks import DRIFTED, Check, changed_since, latest
from pega_tune.profiles.policy.dating import is_ahead
from pega_tune.profiles.policy.terms import ProfileState
from pega_tune.profiles.store.records import ProfileRecord
from pega_tune.profiles.store.store import Store
from pega_tune.profiles.store.verdicts import checks_of


@dataclass(frozen=True, slots=True)
class Member:
    """One device of a class, as it was when it last measured for it, or else was last verified.

    Attributes:
        host: where it is, by its name; empty if that is not known.
        board: its UUID.
        changed: staleness fields in which it differs from what the profile was measured or verified on; empty if none
            does, or there is no profile.
        drifted: the profile was found not to hold on it.
    """

    host: str
    board: str
    changed: tuple[str, ...] = ()
    drifted: bool = False

    @property
    def differs(self) -> bool:
        """Whether what the profile says may not be true here."""
        return self.drifted or bool(self.changed)


@dataclass(frozen=True, slots=True)
class ClassOverview:
    """One class of devices.

    Attributes:
        class_id: which.
        name: of the device, as its driver calls it.
        simulated: it is a model.
        profile: the newest published one; None if there is none.
        members: devices that measured for it, or on which the profile was verified; by host.
        ahead: the profile is dated in the future, which no sound one is.
    """

    class_id: str
    name: str
    simulated: bool
    profile: ProfileRecord | None
    members: tuple[Member, ...]
    ahead: bool = False

    @property
    def suspect(self) -> bool:
        """Whether the profile may not be true on some of the devices."""
        return self.ahead or any(member.differs for member in self.members)


def overview(store: Store) -> tuple[ClassOverview, ...]:
    """Every class of which a device has measured, or has a profile; by name.

    Raises:
        DataError: the database refuses.
    """
    published = [profile for profile in store.profiles() if profile.state is ProfileState.PUBLISHED]
    seen = [(summary.sweep.started_at, summary.sweep.device) for summary in store.sweeps()]
    seen += [(profile.created_at, profile.device) for profile in published]
    boards = _newest(seen)
    classes = sorted(
        {facts.class_id: facts for facts in boards}.values(), key=lambda f: (f.provenance.name, f.class_id)
    )
    return tuple(_class(store, facts, published, boards) for facts in classes)


def _newest(seen: Iterable[tuple[datetime, DeviceFacts]]) -> tuple[DeviceFacts, ...]:
    """The facts of each device as it was last seen."""
    return tuple({facts.uuid: facts for _, facts in sorted(seen, key=lambda pair: pair[0])}.values())


def _class(
    store: Store, facts: DeviceFacts, published: list[ProfileRecord], boards: tuple[DeviceFacts, ...]
) -> ClassOverview:
    now = datetime.now(UTC)
    own = (each for each in published if each.device.class_id == facts.class_id)
    # Of equal ones the first: the store has the newest in front.
    profile = max(own, key=lambda each: not is_ahead(each.created_at, now), default=None)
    checks = checks_of(store.evidence(profile.profile_id)) if profile else ()
    members = [_measured(each, profile, latest(checks, each)) for each in boards if each.class_id == facts.class_id]
    if profile:
        members += _verified(profile, checks, {each.uuid for each in boards})
    ahead = profile is not None and is_ahead(profile.created_at, now)
    by_host = tuple(sorted(members, key=lambda member: (member.host, member.board)))
    return ClassOverview(facts.class_id, facts.provenance.name, facts.simulated, profile, by_host, ahead)


def _measured(device: DeviceFacts, profile: ProfileRecord | None, check: Check | None) -> Member:
    host = device.provenance.host
    if profile is None:
        return Member(host, device.uuid)
    drifted = check is not None and check.verdict == DRIFTED
    return Member(host, device.uuid, changed_since(profile.device, device, check), drifted)


def _verified(profile: ProfileRecord, checks: Iterable[Check], known: Collection[str]) -> list[Member]:
    """Devices that have measured nothing of their own: all that is known of them is what the last check found."""
    last = {check.board: check for check in checks if check.board not in known}
    return [_as_checked(profile, check) for check in last.values()]


def _as_checked(profile: ProfileRecord, check: Check) -> Member:
    if check.verdict != DRIFTED:
        return Member(check.host, check.board)
    changed = stale_fields(profile.device.staleness, check.staleness)
    return Member(check.host, check.board, changed, drifted=True)
