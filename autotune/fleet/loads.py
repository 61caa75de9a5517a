"""What goes from one database to another: a profile, and what later checks of it found, each a record of its own."""

from dataclasses import dataclass

from pega_tune.profiles.bundle.document import Bundle
from pega_tune.profiles.policy.compiled import digest
from pega_tune.profiles.store.bundles import bundle_of
from pega_tune.profiles.store.errors import RecordDamagedError
from pega_tune.profiles.store.records import EvidenceKind, EvidenceRecord, ProfileRecord
from pega_tune.profiles.store.store import Store
from pega_tune.profiles.store.verdicts import checks_of


@dataclass(frozen=True, slots=True)
class Load:
    """What is passed on: read and checked as a whole before anything of it is written.

    Attributes:
        bundle: the profile.
        checks: what later checks of it found.
    """

    bundle: Bundle
    checks: tuple[EvidenceRecord, ...]


@dataclass(frozen=True, slots=True)
class Stored:
    """What of a load was news.

    Attributes:
        added: the profile was.
        verdicts: as many checks were.
    """

    added: bool
    verdicts: int


def read_load(profile: ProfileRecord, source: Store) -> Load:
    """A profile as it is passed on.

    Raises:
        RecordDamagedError, PolicyFormatError: it is not whole.
        DataError: the database refuses.
    """
    if digest(profile.compiled) != profile.digest:
        raise RecordDamagedError(f"the digest of profile {profile.profile_id} is not that of its tables")
    evidence = source.evidence(profile.profile_id)
    checks_of(evidence)  # refuses what nobody could read there
    return Load(bundle_of(profile), tuple(each for each in evidence if each.kind is EvidenceKind.CANARY))


def store_load(load: Load, target: Store) -> Stored:
    """Writes what is news; twice is once.

    Raises:
        ImportConflictError: as `Store.import_bundle`.
        RecordDamagedError: as `Store.take_checks`.
        DataError: the database refuses.
    """
    added = target.import_bundle(load.bundle)
    return Stored(added, target.take_checks(load.bundle.profile_id, load.checks) if load.checks else 0)
