"""The half of a store that keeps profiles, and what speaks for them."""

import hashlib
from collections.abc import Iterable

from sqlalchemy.orm import Session

from pega_tune.profiles.bundle.document import Bundle
from pega_tune.profiles.store import models, queries, retiring, verdicts
from pega_tune.profiles.store.bundles import Place, add_bundle
from pega_tune.profiles.store.errors import ValueRefusedError
from pega_tune.profiles.store.mapping import evidence_row, profile_record, profile_row
from pega_tune.profiles.store.records import EvidenceKind, EvidenceRecord, ProfileRecord
from pega_tune.profiles.store.store_part import StorePart


class ProfileStore(StorePart):
    """Profiles, and their evidence."""

    def add_profile(self, record: ProfileRecord) -> None:
        """Stores a profile with its fits, resting on all verified cells of its sweep that measured a plan.

        Raises:
            NotFoundError: there is no such sweep.
            ValueRefusedError: `digest` is not that of `compiled`.
        """
        if hashlib.sha256(record.compiled).hexdigest() != record.digest:
            raise ValueRefusedError(f"the digest of profile {record.profile_id} is not that of its tables")

        def work(session: Session) -> None:
            there = session.get(models.Profile, record.profile_id)
            if there is not None and profile_record(there) == record:
                return  # the connection was lost as it was saved
            queries.required_sweep(session, record.sweep_id)
            self._remember(session, record.device)
            row = profile_row(record)
            session.add(row)
            session.flush()
            queries.link_cells(session, row)

        self._transactions.write(work)

    def import_bundle(self, bundle: Bundle) -> bool:
        """Stores a profile that was measured elsewhere; False, and nothing is changed, if it is there already.

        Raises:
            ImportConflictError: another profile or another sweep has its id, or it was made in the future.
        """
        place = Place(self._transactions.label, self._host)
        return self._transactions.write(lambda session: add_bundle(session, bundle, place))

    def profile(self, profile_id: str) -> ProfileRecord:
        """A profile by its id or a unique beginning of it.

        Raises:
            NotFoundError: there is no such profile, or more than one.
        """

        def work(session: Session) -> ProfileRecord:
            found = queries.unique(session, models.Profile.profile_id, profile_id)
            (row,) = queries.profile_rows(session, models.Profile.profile_id == found)
            return profile_record(row)

        return self._transactions.read(work)

    def profiles(self) -> tuple[ProfileRecord, ...]:
        """All profiles, the newest first."""
        return self._transactions.read(lambda session: tuple(map(profile_record, queries.profile_rows(session))))

    def retire(self, profile_id: str, reason: str = "", *, undo: bool = False) -> bool:
        """Takes a published profile out of use, or a retired one into use again. False if it was so already.

        Raises:
            NotFoundError: there is no such profile, or more than one.
            ValueRefusedError: it was never published, or the reason is no line of text.
        """

        def work(session: Session) -> bool:
            if undo:
                return retiring.unretire(session, profile_id)
            return retiring.retire(session, profile_id, reason, self._host.now())

        return self._transactions.write(work)

    def remove_profile(self, profile_id: str) -> None:
        """Deletes a profile with its fits and its evidence; a sweep that measured here stays, with all its blocks.

        Raises:
            NotFoundError: there is no such profile, or more than one.
            ValueRefusedError: it is published, so that answers come from it.
        """
        # Not repeatable: what is gone the second time was there the first.
        self._transactions.write(lambda session: retiring.remove(session, profile_id), repeatable=False)

    def evidence(self, profile_id: str) -> tuple[EvidenceRecord, ...]:
        """What a profile rests on, in the order recorded; empty if there is no such profile."""
        return self._transactions.read(lambda session: queries.evidence_of(session, profile_id))

    def add_check(self, profile_id: str, record: EvidenceRecord) -> None:
        """Stores what a later check of a profile found; the profile itself stays as it was made.

        Raises:
            NotFoundError: there is no such profile.
            ValueRefusedError: the record is of a cell, which speaks for a profile from the beginning or not at all.
        """
        if record.kind is EvidenceKind.CELL:
            raise ValueRefusedError(f"a check of profile {profile_id} is no cell")

        def work(session: Session) -> None:
            found = queries.unique(session, models.Profile.profile_id, profile_id)
            if record not in queries.evidence_of(session, found):
                session.add(evidence_row(found, record))

        self._transactions.write(work)

    def take_checks(self, profile_id: str, records: Iterable[EvidenceRecord]) -> int:
        """Stores the checks that another database has of a profile: of each device the newest, if it is news here.

        Returns:
            How many were.

        Raises:
            NotFoundError: there is no such profile.
            RecordDamagedError: one of them, or of those that are here, cannot be read.
        """
        newest = verdicts.newest(records, self._host.now())

        def work(session: Session) -> int:
            found = queries.unique(session, models.Profile.profile_id, profile_id)
            return verdicts.merge(session, found, newest)

        return self._transactions.write(work)
