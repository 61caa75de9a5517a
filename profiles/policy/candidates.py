"""The profiles in an SQLite database that fit a device, best first. Their tables are not read here."""

import json
import sqlite3
from dataclasses import dataclass
from datetime import UTC, datetime

from pega_tune.kernels.facts import DeviceFacts
from pega_tune.profiles.policy.checks import Check, latest
from pega_tune.profiles.policy.dating import is_ahead, newness
from pega_tune.profiles.policy.matching import TIERS, Fit, fit, sweep_command
from pega_tune.profiles.policy.stored import Standing
from pega_tune.profiles.policy.terms import ProfileState

# The blob is not among these columns: SQLite would read all of it for every candidate row.
_CANDIDATES = """
    SELECT profile_id, state, facts, created_at, EXISTS (SELECT 1 FROM block WHERE block.sweep_id = profile.sweep_id)
    FROM profile
    WHERE simulated = :simulated AND (board_uuid = :uuid OR class_id = :class_id OR family_id = :family_id)
"""
_CHECKS = """
    SELECT verdict, detail FROM evidence WHERE profile_id = ? AND cell_id IS NULL AND kind = 'canary'
    ORDER BY evidence_id
"""
_UNUSED = """
    SELECT profile.reasons, sweep.sweep_id, sweep.state FROM profile LEFT JOIN sweep USING (sweep_id)
    WHERE profile_id = ?
"""
_RESUMABLE = ("interrupted", "failed")


@dataclass(frozen=True, slots=True)
class Candidate:
    """A profile that fits.

    Attributes:
        profile_id: its id.
        state: whether it may be used.
        device: facts of the device that it was measured on.
        created_at: aware.
        fit: how well it fits.
        ahead: it is dated in the future.
    """

    profile_id: str
    state: ProfileState
    device: DeviceFacts
    created_at: datetime
    fit: Fit
    ahead: bool

    @property
    def standing(self) -> Standing:
        """What may change of it."""
        dated = (f"it is dated {self.created_at.date()}, which is in the future",) if self.ahead else ()
        return Standing(self.profile_id, self.fit.tier, (*self.fit.warnings, *dated))

    def usable(self, *, allow_drafts: bool) -> bool:
        """Whether answers may come from it."""
        if self.state is ProfileState.RETIRED:
            return False
        return allow_drafts or self.state is ProfileState.PUBLISHED


def find_candidates(connection: sqlite3.Connection, device: DeviceFacts, warnings: list[str]) -> list[Candidate]:
    """The profiles that fit, by tier, and within a tier the newest first; `warnings` gets one for each broken row."""
    keys = {
        "simulated": device.simulated,
        "uuid": device.uuid,
        "class_id": device.class_id,
        "family_id": device.family_id,
    }
    now = datetime.now(UTC)
    candidates = []
    for profile_id, state, facts, created_at, comparable in connection.execute(_CANDIDATES, keys):
        try:
            known = DeviceFacts.from_json(json.loads(facts))
            check = _last_check(connection, profile_id, device)
            matched = fit(known, device, check, comparable=bool(comparable))
            created = datetime.fromisoformat(created_at)
            created = created if created.tzinfo else created.replace(tzinfo=UTC)
            if matched is not None:
                ahead = is_ahead(created, now)
                candidates.append(Candidate(profile_id, ProfileState(state), known, created, matched, ahead))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            warnings.append(f"profile {profile_id} was skipped: its row is malformed ({error})")
    # Sorting is stable: the newest first, and then by tier.
    candidates.sort(key=lambda candidate: newness(candidate.created_at, now), reverse=True)
    candidates.sort(key=lambda candidate: TIERS.index(candidate.fit.tier))
    return candidates


def why_unused(connection: sqlite3.Connection, candidate: Candidate, device: DeviceFacts) -> str:
    """Says of a profile that fits a device why it is not used, and how to go on there."""
    reasons, sweep_id, sweep_state = connection.execute(_UNUSED, (candidate.profile_id,)).fetchone()
    try:
        why = "; ".join(json.loads(reasons))
    except (ValueError, TypeError):
        why = "its reasons cannot be read"
    resume = f"pega-tune sweep --resume {sweep_id} --budget TIME"
    begun_here = sweep_state in _RESUMABLE and candidate.device.uuid == device.uuid
    resumable = begun_here and candidate.state is not ProfileState.RETIRED
    advice = f"go on with {resume}" if resumable else f"run {sweep_command(device)} again"
    kind = "is a draft" if candidate.state is ProfileState.DRAFT else f"is {candidate.state}"
    return f"profile {candidate.profile_id} {kind} and is not used ({why}): {advice}"


def _last_check(connection: sqlite3.Connection, profile_id: str, device: DeviceFacts) -> Check | None:
    """The newest check of a profile on this device."""
    rows = connection.execute(_CHECKS, (profile_id,))
    return latest((Check.from_json(verdict, detail) for verdict, detail in rows), device)
