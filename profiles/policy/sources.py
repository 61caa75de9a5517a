"""Where a profile comes from: the database, else the bundles that are shipped; or the bundle that a caller names."""

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

from pega_tune.errors import DeviceError
from pega_tune.kernels.facts import DeviceFacts
from pega_tune.profiles.policy.admissible import require_sms
from pega_tune.profiles.policy.errors import ProfileDatabaseError, QuestionError
from pega_tune.profiles.policy.matching import fit, sweep_command
from pega_tune.profiles.policy.reader import BUSY_TIMEOUT_S, check_database, find_profile
from pega_tune.profiles.policy.settings import database_url, sqlite_path, visible_devices
from pega_tune.profiles.policy.stored import Found
from pega_tune.profiles.policy.terms import ProfileState, Tier

PACKAGED = Path(__file__).parent / "bundled"
"""The bundles that are shipped."""

_UNCHECKED = "nobody checked that the bundle fits this device: load it with the facts of the device"

Probe: TypeAlias = Callable[[], tuple[DeviceFacts, ...]]


def probe_devices() -> tuple[DeviceFacts, ...]:
    """The GPUs of this host, in the order of CUDA."""
    from pega_tune.kernels.probe import list_devices  # late: most callers bring their facts, or need none

    return list_devices(visible_devices())


@dataclass(frozen=True, slots=True)
class Sources:
    """Where to look.

    Attributes:
        path: the database file.
        allow_drafts: use profiles that are not published, too.
        packaged: folder of bundles to fall back on.
        busy_timeout_s: how long to wait for a writer, in seconds.
    """

    path: Path
    allow_drafts: bool = False
    packaged: Path = PACKAGED
    busy_timeout_s: float = BUSY_TIMEOUT_S

    def find(self, device: DeviceFacts) -> Found:
        """The best stored profile, else the best packaged one; `unused` says what is missing where there is none.

        Raises:
            ProfileDatabaseError: as `find_profile`.
        """
        stored = find_profile(self.path, device, allow_drafts=self.allow_drafts, busy_timeout_s=self.busy_timeout_s)
        if stored.profile is not None:
            return stored
        # Late: whoever has a profile needs no bundle.
        from pega_tune.profiles.bundle.packaged import find_packaged

        packaged = find_packaged(self.packaged, device)
        unused = stored.unused or f"no profile fits {device.uuid} in {self.path}: run {sweep_command(device)}"
        warnings = (*stored.warnings, *packaged.warnings)
        if packaged.profile is None:
            return replace(stored, warnings=warnings, unused=unused)
        return replace(packaged, warnings=(unused, *warnings))


@dataclass(frozen=True, slots=True)
class Subject:
    """Whom a profile is looked for.

    Attributes:
        device: facts of the device; None if there is none.
        notes: what is to be said of the choice, a sentence each.
    """

    device: DeviceFacts | None
    notes: tuple[str, ...] = ()


def find_subject(facts: DeviceFacts | None, path: Path, probe: Probe) -> Subject:
    """The device with these facts, or without them the first that `probe` lists.

    Raises:
        ProfileDatabaseError: the database at `path` would be refused for every device.
    """
    if facts is not None:
        return Subject(facts)
    check_database(path)  # a wrong path is an error without a GPU, too
    try:
        devices = probe()
    except DeviceError as error:
        return Subject(None, (f"the rule answers: {error.message}",))
    if not devices:
        return Subject(None, ("the rule answers: no device is visible",))
    several = f"the first of {len(devices)} devices answers: {devices[0].uuid}"
    return Subject(devices[0], (several,) if len(devices) > 1 else ())


def database_path(db: str | Path | None) -> Path:
    """The SQLite file that `db` names; None takes `PEGA_TUNE_DB`, else the file in the per-user data directory.

    Raises:
        QuestionError: it is no database at all.
        ProfileDatabaseError: it is not SQLite.
    """
    if db is not None:
        require_file(db)
    url = database_url(None if db is None else str(db))
    path = sqlite_path(url)
    if path is None:
        scheme = url.partition("://")[0]
        raise ProfileDatabaseError(
            f"profiles are looked up in SQLite, not {scheme}",
            "bring them into a file: `pega-tune --db FILE fleet pull --fleet URL`, or `pega-tune db backup FILE`",
        )
    return path


def require_facts(facts: object) -> None:
    """Refuses what is neither facts of a device nor None.

    Raises:
        QuestionError: as said.
    """
    if facts is not None and not isinstance(facts, DeviceFacts):
        raise QuestionError(
            f"a device is told by its DeviceFacts, not by {facts!r}",
            "pega_tune.autotune.devices.find_device('sim:h200').facts gives those of a simulated device",
        )


def require_file(file: object) -> None:
    """Refuses what can name no file.

    Raises:
        QuestionError: as said.
    """
    if not isinstance(file, str | Path):
        raise QuestionError(f"a file is told by a path or a URL, not by {file!r}")


def packaged_folder(packaged: object) -> Path:
    """The folder of bundled profiles that `packaged` names.

    Raises:
        QuestionError: there is no such folder, or none that can be read.
    """
    if not isinstance(packaged, str | Path):
        raise QuestionError(f"a folder is told by a path, not by {packaged!r}")
    try:
        os.listdir(packaged)
    except (OSError, ValueError) as error:  # the latter of a path with a null in it
        reason = error.strerror if isinstance(error, OSError) else error
        raise QuestionError(
            f"there is no folder of bundled profiles at {str(packaged)!r}: {reason}",
            "name a folder of exported bundles, or leave `packaged` out",
        ) from None
    return Path(packaged)


def load_bundle(path: Path, device: DeviceFacts | None, *, allow_drafts: bool, trust: Path | None = None) -> Found:
    """The profile in a bundle, if it may be used.

    Args:
        path: the file.
        device: facts of the device to run on; None checks nothing, and the warnings say so.
        allow_drafts: use a profile that is not published, too.
        trust: file of the public key that has to have signed it; None checks no signature.

    Raises:
        BundleError: not a bundle, damaged, not published, not signed as it must be, or of a device that does not fit.
        KeyFileError: `trust` holds no such key.
        CryptographyMissingError: signatures cannot be checked here.
        PolicyFormatError: of a device that fits, but has more SMs, of which a plan makes use.
    """
    from pega_tune.profiles.bundle.errors import BundleError
    from pega_tune.profiles.bundle.files import read_bundle
    from pega_tune.profiles.bundle.keys import read_trusted_key

    bundle = read_bundle(path, None if trust is None else read_trusted_key(trust))
    state = bundle.state
    if state is not ProfileState.PUBLISHED and not allow_drafts:
        why = "; ".join(bundle.reasons) or "no reason is given"
        raise BundleError(f"the profile in {path} is a {state}, not published ({why})", "export a published one")
    kept = () if state is ProfileState.PUBLISHED else (f"the profile is a {state}, not published",)
    if device is None:
        simulated = (f"SIMULATED: the profile is of {bundle.device.uuid}",) if bundle.device.simulated else ()
        return Found(bundle.stored, Tier.BUNDLED, (*simulated, _UNCHECKED, *kept))
    matched = fit(bundle.device, device, comparable=False)
    if matched is None:
        raise BundleError(
            f"the profile in {path} is of {bundle.device.uuid} ({bundle.device.provenance.name}), "
            f"which does not fit {device.uuid} ({device.provenance.name})",
            "export the profile of a device like this one",
        )
    require_sms(bundle.policy, device)
    return Found(bundle.stored, matched.tier, (*matched.warnings, *kept))
