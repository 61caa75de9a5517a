"""Profiles of the store as bundles, and back. A bundle holds tables alone: blocks and fits stay where they are."""

import shlex
from dataclasses import dataclass, replace
from datetime import datetime

from sqlalchemy.orm import Session

from pega_tune.profiles.bundle.document import Bundle
from pega_tune.profiles.policy.compiled import decode, digest
from pega_tune.profiles.policy.dating import is_ahead
from pega_tune.profiles.policy.terms import ProfileState
from pega_tune.profiles.store import models, ownership
from pega_tune.profiles.store.errors import ImportConflictError
from pega_tune.profiles.store.host import HostView
from pega_tune.profiles.store.mapping import board_row, device_row, profile_record, profile_row, sweep_row
from pega_tune.profiles.store.queries import link_cells, remember_class, remember_device
from pega_tune.profiles.store.records import ProfileRecord, SweepRecord, SweepState
from pega_tune.profiles.store.values import settled

IMPORTED = "imported"
"""What stands for the preset of a sweep that was measured elsewhere."""


def bundle_of(record: ProfileRecord) -> Bundle:
    """What travels of a profile.

    Raises:
        PolicyFormatError: its tables are damaged or of another version.
    """
    return Bundle(
        profile_id=record.profile_id,
        sweep_id=record.sweep_id,
        state=record.state,
        reasons=record.reasons,
        created_at=record.created_at,
        device=record.device,
        kernel_digest=record.kernel_digest,
        method_version=record.method_version,
        compiled=record.compiled,
        policy=decode(record.compiled),
    )


def record_of(bundle: Bundle) -> ProfileRecord:
    """The profile of a bundle as it is stored; without fits, which do not travel."""
    return ProfileRecord(
        profile_id=bundle.profile_id,
        sweep_id=bundle.sweep_id,
        device=bundle.device,
        state=bundle.state,
        reasons=bundle.reasons,
        created_at=bundle.created_at,
        compiled=bundle.compiled,
        digest=digest(bundle.compiled),
        kernel_digest=bundle.kernel_digest,
        method_version=bundle.method_version,
    )


@dataclass(frozen=True, slots=True)
class Place:
    """Where a bundle goes to.

    Attributes:
        label: what messages call the database.
        host: the machine that writes to it.
    """

    label: str
    host: HostView


def add_bundle(session: Session, bundle: Bundle, place: Place) -> bool:
    """Stores the profile of a bundle, and what has to be there for it; False if it is there already.

    One that is there and retired stays retired.

    Raises:
        ImportConflictError: another profile or another sweep has its id, it is in use there and the bundle says that it
            is retired, or it was made in the future.
    """
    record = record_of(bundle)
    require_past(bundle, place.host.now())
    there = session.get(models.Profile, record.profile_id)
    if there is not None:
        _require_same(profile_record(there), record, place)
        return False
    _add_board(session, bundle)
    _require_sweep(session, bundle, place)
    row = profile_row(record)
    session.add(row)
    session.flush()
    link_cells(session, row)  # of a sweep that is here after all
    return True


def require_past(bundle: Bundle, now: datetime) -> None:
    """Refuses what was made in the future: it would be the newest one for good.

    Raises:
        ImportConflictError: as said.
    """
    if is_ahead(bundle.created_at, now):
        made, here = (moment.isoformat(sep=" ", timespec="minutes") for moment in (bundle.created_at, now))
        raise ImportConflictError(
            f"profile {bundle.profile_id} was made in the future, at {made}; here it is {here}",
            "check the clocks of both hosts",
        )


def _require_same(there: ProfileRecord, record: ProfileRecord, place: Place) -> None:
    """Refuses another profile under an id that is taken; what it advises is what the store takes."""
    if _as_made(there, record) == record:
        return
    name = record.profile_id
    profiles = f"pega-tune --db {shlex.quote(place.label)} profiles"
    in_use = there.state is ProfileState.PUBLISHED
    if in_use and record.state is ProfileState.RETIRED and _as_made(record, there) == replace(there, fits=()):
        raise ImportConflictError(
            f"profile {name} is in use in {place.label}, and this is the same one, retired",
            f"`{profiles} retire {name}` takes it out of use there, too",
        )
    first = f"`{profiles} retire {name}` and then " if in_use else ""
    raise ImportConflictError(
        f"there is another profile {name} in {place.label}",
        f"if it is not wanted, {first}`{profiles} rm {name}` removes it",
    )


def _as_made(there: ProfileRecord, record: ProfileRecord) -> ProfileRecord:
    """A stored profile without what does not travel, and as it was before it was retired."""
    if there.state is ProfileState.RETIRED:
        there = replace(there, state=record.state, reasons=record.reasons)
    return replace(there, fits=())


def _add_board(session: Session, bundle: Bundle) -> None:
    device = bundle.device
    if session.get(models.Board, device.uuid) is not None:
        # Whoever measured here knows better where the board is; it may have been of another class in another host.
        remember_class(session, device_row(device))
        return
    remember_device(session, device_row(device), board_row(device, bundle.created_at))


def _require_sweep(session: Session, bundle: Bundle, place: Place) -> None:
    """The sweep that the profile refers to: the one in the database, or one without blocks that stands for it."""
    there = session.get(models.Sweep, bundle.sweep_id)
    if there is None:
        row = sweep_row(_sweep(bundle))
        ownership.touch(row, place.host)
        session.add(settled(row))
        session.flush()
    elif (there.board_uuid, there.kernel_digest, there.method_version) != (
        bundle.device.uuid,
        bundle.kernel_digest,
        bundle.method_version,
    ):
        raise ImportConflictError(
            f"there is another sweep {bundle.sweep_id} in {place.label}, which did not measure this profile",
            "import into another database",
        )


def _sweep(bundle: Bundle) -> SweepRecord:
    return SweepRecord(
        sweep_id=bundle.sweep_id,
        device=bundle.device,
        preset=IMPORTED,
        seed=0,
        request="{}",
        method_version=bundle.method_version,
        kernel_digest=bundle.kernel_digest,
        environment="{}",
        planned_blocks=0,
        state=SweepState.FINISHED,
        started_at=bundle.created_at,
        reasons=(f"measured elsewhere: profile {bundle.profile_id} was imported without its blocks",),
    )
