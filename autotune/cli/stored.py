"""Profiles by their ids: those in the database, and those that are shipped, which answers name as well."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pega_tune.autotune.cli.session import Session
    from pega_tune.profiles.store.records import ProfileRecord


@dataclass(frozen=True, slots=True)
class Named:
    """A profile that somebody named.

    Attributes:
        record: the profile.
        shipped: it is not in the database.
    """

    record: ProfileRecord
    shipped: bool = False


def profile_named(session: Session, profile_id: str) -> Named:
    """The profile in the database with this id, or beginning so, else the one that is shipped under the whole id.

    Raises:
        DataError: there is none, more than one begins so, or the database is refused.
    """
    from pega_tune.profiles.store.errors import DatabaseRefusedError, NotFoundError

    try:
        with session.read_store() as store:
            return Named(store.profile(profile_id))
    except (NotFoundError, DatabaseRefusedError):
        shipped = _shipped(profile_id)
        if shipped is None:
            raise
    session.output.note(f"profile {profile_id} is shipped with pega-tune, and not in the database")
    return Named(shipped, shipped=True)


def _shipped(profile_id: str) -> ProfileRecord | None:
    from pega_tune.profiles.bundle.packaged import packaged_bundles
    from pega_tune.profiles.policy.sources import PACKAGED
    from pega_tune.profiles.store.bundles import record_of

    bundles = (bundle for bundle in packaged_bundles(PACKAGED) if bundle.profile_id == profile_id)
    return next(map(record_of, bundles), None)
