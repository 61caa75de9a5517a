"""The bundles that are shipped: profiles of well-known devices, for hosts that have measured nothing themselves."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from pega_tune.kernels.facts import DeviceFacts
from pega_tune.profiles.bundle.document import Bundle
from pega_tune.profiles.bundle.errors import BundleError
from pega_tune.profiles.bundle.files import read_bundle
from pega_tune.profiles.policy.admissible import require_sms
from pega_tune.profiles.policy.errors import PolicyFormatError
from pega_tune.profiles.policy.matching import TIERS, Fit, fit
from pega_tune.profiles.policy.stored import Found
from pega_tune.profiles.policy.terms import ProfileState, Tier


def find_packaged(folder: Path, device: DeviceFacts) -> Found:
    """The bundle that fits a real device best: by tier, and within a tier the newest.

    Args:
        folder: of bundles, named by `file_name`; only those of the device's family are read.
        device: facts of the device to run on.

    Returns:
        At best one at tier `bundled`, whatever it fits by; its warnings say where it comes from, and name bundles
        that cannot be read.
    """
    warnings: list[str] = []
    fitting: list[tuple[Bundle, Fit]] = []
    for path in sorted(folder.glob(f"{_family(device)}-*.json")):
        try:
            bundle = read_bundle(path)
            require_sms(bundle.policy, device)
        except (BundleError, PolicyFormatError) as error:
            warnings.append(f"a bundled profile was skipped: {error.message}")
            continue
        matched = fit(bundle.device, device, comparable=False)
        if matched and bundle.state is ProfileState.PUBLISHED and not bundle.device.simulated:
            fitting.append((bundle, matched))
    if not fitting:
        return Found(None, Tier.RULE, tuple(warnings))
    fitting.sort(key=lambda pair: pair[0].created_at, reverse=True)
    bundle, matched = min(fitting, key=lambda pair: TIERS.index(pair[1].tier))
    return Found(bundle.stored, Tier.BUNDLED, (_origin(bundle), *matched.warnings, *warnings))


def packaged_bundles(folder: Path) -> Iterator[Bundle]:
    """All bundles of the folder that can be read."""
    for path in sorted(folder.glob("*.json")):
        with suppress(BundleError):
            yield read_bundle(path)


def file_name(device: DeviceFacts) -> str:
    """What the bundle of a device is called in the folder of `find_packaged`."""
    return f"{_family(device)}-{device.class_id}.json"


def _family(device: DeviceFacts) -> str:
    # Only letters and digits, as the facts may come from anywhere and the name meets a file system.
    return "".join(sign if sign.isalnum() else "-" for sign in device.family_id)


def _origin(bundle: Bundle) -> str:
    known = bundle.device.identity.host_cpu
    beside = f" in a host with {known}" if known else ""
    return f"bundled profile {bundle.profile_id} answers: it was measured on an {bundle.device.provenance.name}{beside}"
