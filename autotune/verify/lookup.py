"""Which profile a canary is of, what was found of it before, and how what it finds is kept."""

from collections.abc import Collection
from datetime import UTC, datetime

from pega_tune.autotune.verify.verification import Verdict, Verification
from pega_tune.errors import DataError
from pega_tune.kernels.facts import DeviceFacts
from pega_tune.profiles.policy.admissible import usable_policy
from pega_tune.profiles.policy.checks import Check, changed_since, latest
from pega_tune.profiles.policy.dating import is_ahead
from pega_tune.profiles.policy.errors import PolicyFormatError
from pega_tune.profiles.policy.matching import TIERS, fit, sweep_command
from pega_tune.profiles.policy.terms import ProfileState
from pega_tune.profiles.store.records import EvidenceKind, EvidenceRecord, ProfileRecord
from pega_tune.profiles.store.store import Store


class NoProfileError(DataError):
    """No published profile fits the device."""

    code = "no-profile"


def profile_in_use(store: Store, device: DeviceFacts, without: Collection[str] = ()) -> ProfileRecord:
    """The profile from which `Auto` answers for a device: by tier, and within a tier the newest that is usable.

    Args:
        store: where to look.
        device: facts of the device.
        without: ids of profiles that are passed over.

    Raises:
        NoProfileError: there is none; the message says why the best of those that fit is not usable.
        DataError: the database refuses.
    """
    published = (each for each in store.profiles() if each.state is ProfileState.PUBLISHED)
    wanted = (each for each in published if each.profile_id not in without)
    fitting = [(TIERS.index(found.tier), each) for each in wanted if (found := fit(each.device, device)) is not None]
    now = datetime.now(UTC)
    # Sorting is stable: the store has the newest in front.
    fitting.sort(key=lambda pair: (pair[0], is_ahead(pair[1].created_at, now)))
    skipped = []
    for _, profile in fitting:
        try:
            usable_policy(profile.compiled, profile.digest, device)
        except PolicyFormatError as error:
            skipped.append(f": profile {profile.profile_id} was skipped: {error.message}")
        else:
            return profile
    why = f"no published profile fits {device.uuid}{''.join(skipped[:1])}"
    raise NoProfileError(why, f"run {sweep_command(device)}")


def changed_fields(store: Store, profile: ProfileRecord, device: DeviceFacts) -> tuple[str, ...]:
    """Names of the staleness fields that have changed since a profile was measured, or was last found to hold.

    Raises:
        DataError: the database refuses.
    """
    canaries = (one for one in store.evidence(profile.profile_id) if one.kind is EvidenceKind.CANARY)
    checks = (Check.from_json(canary.verdict, canary.detail) for canary in canaries)
    return changed_since(profile.device, device, latest(checks, device))


def keep(url: str, verification: Verification) -> str:
    """Stores the verdict, so that `Auto` knows that the profile holds on the device as it is now, or has drifted.

    What is inconclusive changes nothing, and is not stored.

    Returns:
        Why it could not be stored, one line; empty if all is well.
    """
    if verification.verdict is Verdict.INCONCLUSIVE:
        return ""
    verdict = str(verification.verdict)
    device = verification.device
    check = Check(device.uuid, device.staleness, verdict, device.provenance.host)
    record = EvidenceRecord(EvidenceKind.CANARY, verification.at, verdict=verdict, detail=check.to_json())
    try:
        with Store.open(url, create=False) as store:
            store.add_check(verification.profile_id, record)
    except DataError as error:
        return error.message
    return ""
