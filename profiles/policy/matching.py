"""How closely a stored device fits the one in front of us."""

from dataclasses import dataclass

from pega_tune.kernels.facts import DeviceFacts, Match, stale_fields
from pega_tune.profiles.policy.terms import Tier

TIERS = (Tier.BOARD, Tier.CLASS, Tier.FAMILY)
"""The tiers that a database can answer at, best first."""


@dataclass(frozen=True, slots=True)
class Fit:
    """A match.

    Attributes:
        tier: how close it is.
        warnings: why it is suspect; a sentence each.
    """

    tier: Tier
    warnings: tuple[str, ...] = ()


def fit(profile: DeviceFacts, device: DeviceFacts) -> Fit | None:
    """How well a profile measured on `profile` fits `device`; None if it must not be used.

    A simulated profile fits the simulated device of the same name alone, and that device has no other. A link that is
    known to differ is a miss at every tier, as the link is what the times are made of.
    """
    if (profile.simulated or device.simulated) and profile.uuid != device.uuid:
        return None
    tier = _tier(profile, device)
    if tier is None or (device.simulated and tier is not Tier.BOARD):
        return None
    warnings = []
    if tier is Tier.FAMILY:
        warnings.append("measured on the same silicon in another host or configuration")
    if profile.identity.max_link is None or device.identity.max_link is None:
        warnings.append("suspect: whether the PCIe link is the same is not known")
    if stale := stale_fields(profile.staleness, device.staleness):
        warnings.append(f"suspect: {', '.join(stale)} changed since it was measured: run pega-tune sweep again")
    return Fit(tier, tuple(warnings))


def _tier(profile: DeviceFacts, device: DeviceFacts) -> Tier | None:
    links = {profile.identity.max_link, device.identity.max_link} - {None}
    if len(links) > 1:
        return None
    if profile.identity.match(device.identity) is not Match.MISS:
        return Tier.BOARD if profile.uuid == device.uuid else Tier.CLASS
    known = profile.identity.pci_device_id is not None
    return Tier.FAMILY if known and profile.family_id == device.family_id else None
