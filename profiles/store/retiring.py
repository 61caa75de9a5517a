"""Profiles taken out of use, and out of the database, inside a transaction that the caller holds."""

import json
from datetime import datetime

from sqlalchemy import delete, exists, select
from sqlalchemy.orm import Session

from pega_tune.profiles.policy.terms import ProfileState
from pega_tune.profiles.store import models, queries
from pega_tune.profiles.store.bundles import IMPORTED
from pega_tune.profiles.store.errors import ValueRefusedError
from pega_tune.profiles.store.values import encode_json

LONGEST_REASON = 500


def retire(session: Session, profile_id: str, reason: str, now: datetime) -> bool:
    """Makes a published profile a retired one, and says so in front of its reasons; False if it was already.

    Raises:
        NotFoundError: there is no such profile, or more than one.
        ValueRefusedError: it was never published, or the reason is no line of text.
    """
    if not reason.isprintable() or len(reason) > LONGEST_REASON:
        raise ValueRefusedError(f"a reason is one line of at most {LONGEST_REASON} characters")
    row = _found(session, profile_id)
    if row.state == ProfileState.RETIRED:
        return False
    _require_was_published(row)
    when = f"retired on {now:%Y-%m-%d}"
    row.state = str(ProfileState.RETIRED)
    row.reasons = _reasons(f"{when}: {reason}" if reason else when, *json.loads(row.reasons))
    return True


def unretire(session: Session, profile_id: str) -> bool:
    """Makes a retired profile a published one again; False if it was already.

    Raises:
        NotFoundError: there is no such profile, or more than one.
        ValueRefusedError: it was never published.
    """
    row = _found(session, profile_id)
    if row.state == ProfileState.PUBLISHED:
        return False
    _require_was_published(row)
    row.state, row.reasons = str(ProfileState.PUBLISHED), _reasons(*json.loads(row.reasons)[1:])
    return True


def remove(session: Session, profile_id: str) -> None:
    """Deletes a profile, and the sweep that stands for one elsewhere if no other profile is of it.

    Raises:
        NotFoundError: there is no such profile, or more than one.
        ValueRefusedError: it is published.
    """
    row = _found(session, profile_id)
    if row.state == ProfileState.PUBLISHED:
        raise ValueRefusedError(
            f"profile {row.profile_id} is in use", f"retire it first: pega-tune profiles retire {row.profile_id}"
        )
    sweep_id = row.sweep_id
    session.execute(delete(models.Profile).where(models.Profile.profile_id == row.profile_id))
    stands_for_one = (
        models.Sweep.sweep_id == sweep_id,
        models.Sweep.preset == IMPORTED,
        ~exists(select(models.Block.block_id).where(models.Block.sweep_id == sweep_id)),
        ~exists(select(models.Profile.profile_id).where(models.Profile.sweep_id == sweep_id)),
    )
    session.execute(delete(models.Sweep).where(*stands_for_one))


def _reasons(*reasons: str) -> str:
    return encode_json(reasons, "profile.reasons")


def _found(session: Session, profile_id: str) -> models.Profile:
    found = queries.unique(session, models.Profile.profile_id, profile_id)
    return session.get_one(models.Profile, found, with_for_update=True)


def _require_was_published(row: models.Profile) -> None:
    if row.state not in (ProfileState.PUBLISHED, ProfileState.RETIRED):
        raise ValueRefusedError(
            f"profile {row.profile_id} is a {row.state}: it was never in use", "pega-tune profiles rm removes it"
        )
