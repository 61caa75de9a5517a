"""What later checks of a profile found, and how those of several databases come together."""

from collections.abc import Iterable, Mapping
from datetime import datetime

from sqlalchemy.orm import Session

from pega_tune.profiles.policy.checks import Check
from pega_tune.profiles.policy.dating import is_ahead
from pega_tune.profiles.store import queries
from pega_tune.profiles.store.mapping import evidence_row
from pega_tune.profiles.store.records import EvidenceKind, EvidenceRecord
from pega_tune.profiles.store.values import readable


def checks_of(evidence: Iterable[EvidenceRecord]) -> tuple[Check, ...]:
    """The checks among what speaks for a profile, in their order.

    Raises:
        RecordDamagedError: one cannot be read.
    """
    return tuple(_check(record) for record in evidence if record.kind is EvidenceKind.CANARY)


def newest(evidence: Iterable[EvidenceRecord], now: datetime) -> dict[str, EvidenceRecord]:
    """The newest check of each device, by its UUID.

    One that is dated in the future is left out: it would be the newest for good.

    Raises:
        RecordDamagedError: one cannot be read.
    """
    found: dict[str, EvidenceRecord] = {}
    for record in evidence:
        if record.kind is not EvidenceKind.CANARY or is_ahead(record.recorded_at, now):
            continue
        board = _check(record).board
        # Of equal ones the last: whoever recorded them knew their order.
        if board not in found or record.recorded_at >= found[board].recorded_at:
            found[board] = record
    return found


def merge(session: Session, profile_id: str, checks: Mapping[str, EvidenceRecord]) -> int:
    """Adds those checks, by device, that are newer than all that are here of the same device; how many were.

    Readers take the one that was recorded last for the newest, so that an older one must not come after it.

    Raises:
        RecordDamagedError: one that is here cannot be read.
    """
    here: dict[str, datetime] = {}
    for record in queries.evidence_of(session, profile_id):
        if record.kind is EvidenceKind.CANARY:
            board = _check(record).board
            here[board] = max(record.recorded_at, here.get(board, record.recorded_at))
    news = [check for board, check in checks.items() if board not in here or check.recorded_at > here[board]]
    session.add_all(evidence_row(profile_id, check) for check in news)
    return len(news)


def _check(record: EvidenceRecord) -> Check:
    with readable("what a check of a profile found"):
        return Check.from_json(record.verdict, record.detail)
