"""Which profile of a host's own database answers for a device: the one that `decide` takes."""

from dataclasses import dataclass
from datetime import datetime

from pega_tune.autotune.verify.lookup import NoProfileError, profile_in_use
from pega_tune.kernels.facts import DeviceFacts
from pega_tune.profiles.policy.checks import latest
from pega_tune.profiles.policy.matching import TIERS, fit, sweep_command
from pega_tune.profiles.policy.reader import find_profile
from pega_tune.profiles.policy.terms import Tier
from pega_tune.profiles.store.store import Store
from pega_tune.profiles.store.verdicts import checks_of


@dataclass(frozen=True, slots=True)
class Answering:
    """A profile that answers.

    Attributes:
        profile_id: its id.
        created_at: aware, UTC.
        tier: how well it fits.
        warnings: why it is suspect, and which better ones cannot be used; a sentence each.
    """

    profile_id: str
    created_at: datetime
    tier: Tier
    warnings: tuple[str, ...]

    def preferred_to(self, measured: DeviceFacts, device: DeviceFacts) -> str:
        """Why it answers for a device, and not another sound one that was `measured` and fits, in a few words."""
        matched = fit(measured, device)
        if matched is None or TIERS.index(self.tier) < TIERS.index(matched.tier):
            return "fits better"
        return "is newer"


def answering(store: Store, device: DeviceFacts) -> Answering:
    """The profile in a host's database that answers for a device.

    Raises:
        NoProfileError: none does.
        DataError: the database refuses.
    """
    if store.path is None:
        return _on_a_server(store, device)  # `decide` does not look there, but others may be told
    found = find_profile(store.path, device)
    if found.profile is None:
        why = found.unused or f"no published profile fits {device.uuid}"
        raise NoProfileError("; ".join((*found.warnings, why)), "" if found.unused else f"run {sweep_command(device)}")
    return Answering(found.profile.profile_id, found.profile.created_at, found.tier, found.all_warnings)


def _on_a_server(store: Store, device: DeviceFacts) -> Answering:
    profile = profile_in_use(store, device)
    comparable = bool(store.finished_blocks(profile.sweep_id))
    check = latest(checks_of(store.evidence(profile.profile_id)), device)
    matched = fit(profile.device, device, check, comparable=comparable)
    assert matched is not None
    return Answering(profile.profile_id, profile.created_at, matched.tier, matched.warnings)
