"""How closely a stored device fits the one in front of us."""

from dataclasses import dataclass

from pega_tune.kernels.facts import DeviceFacts, Match
from pega_tune.profiles.policy.checks import DRIFTED, Check, changed_since
from pega_tune.profiles.policy.terms import Tier

TIERS = (Tier.BOARD, Tier.CLASS, Tier.FAMILY)
"""The tiers that a database can answer at, best first."""

NOT_COMPARABLE = "its measurements are not here to compare with"


@dataclass(frozen=True, slots=True)
class Fit:
    """A match.

    Attributes:
        tier: how close it is.
        warnings: why it is suspect; a sentence each.
    """

    tier: Tier
    warnings: tuple[str, ...] = ()


def fit(
    profile: DeviceFacts, device: DeviceFacts, check: Check | None = None, *, comparable: bool = True
) -> Fit | None:
    """How well a profile measured on `profile` fits `device`; None if it must not be used.

    A simulated profile fits the simulated device of the same name alone, and that device has no other; likewise with
    replayed ones. A link that is known to differ is a miss at every tier, as the link is what the times are made of.

    Args:
        profile: of the device that was measured.
        device: that is here.
        check: the last one of the profile on it; None if there was none.
        comparable: whether what was measured is at hand, so that the profile can be verified.
    """
    unreal = any(facts.simulated or facts.replayed for facts in (profile, device))
    if unreal and profile.uuid != device.uuid:
        return None
    tier = _tier(profile, device)
    if tier is None or (unreal and tier is not Tier.BOARD):
        return None
    warnings = []
    if tier is Tier.FAMILY:
        warnings.append("measured on the same silicon in another host or configuration")
    if profile.identity.max_link is None or device.identity.max_link is None:
        warnings.append("suspect: whether the PCIe link is the same is not known")
    if check is not None and check.verdict == DRIFTED:
        warnings.append(f"it has drifted, as verify found: run {sweep_command(device)} again")
    elif changed := changed_since(profile, device, check):
        since = "measured" if check is None else "verified"
        advice = verify_command(device) if comparable else f"{sweep_command(device)}, as {NOT_COMPARABLE}"
        warnings.append(f"suspect: {', '.join(changed)} changed since it was {since}: run {advice}")
    return Fit(tier, tuple(warnings))


def verify_command(device: DeviceFacts) -> str:
    """The command that finds out whether the profile of a device still holds."""
    return f"pega-tune verify --device {device.uuid}"


def sweep_command(device: DeviceFacts) -> str:
    """The command that measures a device, which need be neither the first of its host nor a real one."""
    return f"pega-tune sweep --device {device.uuid}"


def _tier(profile: DeviceFacts, device: DeviceFacts) -> Tier | None:
    links = {profile.identity.max_link, device.identity.max_link} - {None}
    if len(links) > 1:
        return None
    if profile.identity.match(device.identity) is not Match.MISS:
        return Tier.BOARD if profile.uuid == device.uuid else Tier.CLASS
    known = profile.identity.pci_device_id is not None
    return Tier.FAMILY if known and profile.family_id == device.family_id else None
