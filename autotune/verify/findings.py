"""What the doctor says of the profiles of this machine's devices; one whose device has changed is verified at once."""

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from typing import Final, TypeAlias

from pega_tune.autotune.devices import find_device
from pega_tune.autotune.findings import Finding, Status
from pega_tune.autotune.isolated import IsolatedEngine
from pega_tune.autotune.verify.canary import Terms, load_subject, verify
from pega_tune.autotune.verify.lookup import NoProfileError, changed_fields, keep, profile_in_use
from pega_tune.autotune.verify.verification import Verdict, Verification
from pega_tune.errors import DataError, DeviceError
from pega_tune.kernels.facts import DeviceFacts
from pega_tune.profiles.policy.matching import sweep_command, verify_command
from pega_tune.profiles.store.records import ProfileRecord
from pega_tune.profiles.store.store import Store

BUDGET_S: Final = 8.0

Canary: TypeAlias = Callable[[Store, ProfileRecord, DeviceFacts], Verification]
"""Verifies a profile on a device; raises `DeviceError`."""


def profile_findings(devices: Iterable[DeviceFacts], url: str, canary: Canary | None = None) -> Iterator[Finding]:
    """A finding for each device: which profile answers for it, and whether it is still true.

    Args:
        devices: in CUDA's order.
        url: of the database; a check that is made is stored there, if it can be written.
        canary: verifies; None measures on the device.
    """
    for ordinal, facts in enumerate(devices):
        try:
            yield _finding(f"GPU {ordinal}", facts, url, canary or run_canary)
        except NoProfileError as error:
            yield Finding("profile", Status.WARNING, f"GPU {ordinal}: {error.message}", error.hint)
        except DataError:
            return  # there is no database yet, or the finding about it says what is wrong


def run_canary(store: Store, profile: ProfileRecord, facts: DeviceFacts) -> Verification:
    """Measures on the device, in a process of its own.

    Raises:
        DeviceError: the device is not usable.
        DataError: the database cannot be read.
    """
    begin_s = time.monotonic()
    choice = find_device(facts.uuid)
    subject = load_subject(store, profile)
    with closing(IsolatedEngine(choice.factory, choice.timeouts)) as engine:
        return verify(subject, engine, Terms(begin_s + BUDGET_S, begin_s))


def _finding(name: str, facts: DeviceFacts, url: str, canary: Canary) -> Finding:
    with Store.open(url, create=False, read_only=True) as store:
        profile = profile_in_use(store, facts)
        changed = changed_fields(store, profile, facts)
        measured_here = bool(store.finished_blocks(profile.sweep_id))
        what = f"{name}: profile {profile.profile_id}"
        if not changed:
            return Finding("profile", Status.OK, f"{what}, nothing has changed since")
        since = f"{what}: {', '.join(changed)} changed since"
        try:
            found = canary(store, profile, facts)
        except DeviceError as error:
            detail = f"{since}, and it could not be verified: {error.message}"
            return Finding("profile", Status.WARNING, detail, error.hint)
    keep(url, found)
    if found.verdict is Verdict.HOLDS:
        return Finding("profile", Status.OK, f"{since}; measured again, it holds")
    again = found.verdict is Verdict.DRIFTED or not measured_here
    hint = f"run {sweep_command(facts) if again else verify_command(facts)}"
    reasons = "; ".join(found.reasons)
    return Finding("profile", Status.WARNING, f"{since}; measured again: {found.verdict} ({reasons})", hint)
