"""Records of sweeps, devices and profiles to rows and back; those of blocks are in `block_mapping`."""

import json
from dataclasses import asdict
from datetime import datetime

from pega_tune.kernels.facts import DeviceFacts
from pega_tune.profiles.policy.terms import Colocation, ProfileState
from pega_tune.profiles.store import models
from pega_tune.profiles.store.records import (
    EvidenceKind,
    EvidenceRecord,
    FitRecord,
    ProfileRecord,
    SweepRecord,
    SweepState,
)
from pega_tune.profiles.store.values import decode_time, encode_json, encode_time, readable, real, settled


def device_row(facts: DeviceFacts) -> models.Device:
    """The class of a device; the link takes no part in it."""
    identity = asdict(facts.identity)
    del identity["max_link"]
    return settled(
        models.Device(
            class_id=facts.class_id,
            family_id=facts.family_id,
            simulated=int(facts.simulated),
            name=facts.provenance.name,
            identity=encode_json(identity, "device.identity"),
        )
    )


def board_row(facts: DeviceFacts, seen_at: datetime) -> models.Board:
    """A device, seen where its facts say at that time."""
    return settled(
        models.Board(
            uuid=facts.uuid,
            class_id=facts.class_id,
            host=facts.provenance.host,
            seen_at=encode_time(seen_at, "board.seen_at"),
        )
    )


def sweep_row(record: SweepRecord) -> models.Sweep:
    """The row of a sweep; the store itself fills in `process_token` and `seen_at`."""
    return settled(
        models.Sweep(
            sweep_id=record.sweep_id,
            board_uuid=record.device.uuid,
            class_id=record.device.class_id,
            facts=encode_json(record.device.to_json(), "sweep.facts"),
            preset=record.preset,
            seed=record.seed,
            request=record.request,
            method_version=record.method_version,
            kernel_digest=record.kernel_digest,
            environment=record.environment,
            planned_blocks=record.planned_blocks,
            state=record.state,
            reasons=encode_json(record.reasons, "sweep.reasons"),
            started_at=encode_time(record.started_at, "sweep.started_at"),
            seconds=record.seconds,
            pid=record.pid,
            host=record.host,
        )
    )


def sweep_record(row: models.Sweep) -> SweepRecord:
    """Inverse of `sweep_row`."""
    with readable(f"sweep {row.sweep_id}"):
        return SweepRecord(
            sweep_id=row.sweep_id,
            device=DeviceFacts.from_json(json.loads(row.facts)),
            preset=row.preset,
            seed=row.seed,
            request=row.request,
            method_version=row.method_version,
            kernel_digest=row.kernel_digest,
            environment=row.environment,
            planned_blocks=row.planned_blocks,
            state=SweepState(row.state),
            started_at=decode_time(row.started_at),
            seconds=row.seconds,
            reasons=tuple(json.loads(row.reasons)),
            pid=row.pid,
            host=row.host,
        )


def profile_row(record: ProfileRecord) -> models.Profile:
    """The row of a profile, with those of its fits."""
    facts = record.device
    profile = models.Profile(
        profile_id=record.profile_id,
        sweep_id=record.sweep_id,
        state=record.state,
        reasons=encode_json(record.reasons, "profile.reasons"),
        simulated=int(facts.simulated),
        board_uuid=facts.uuid,
        class_id=facts.class_id,
        family_id=facts.family_id,
        facts=encode_json(facts.to_json(), "profile.facts"),
        created_at=encode_time(record.created_at, "profile.created_at"),
        compiled=record.compiled,
        digest=record.digest,
        kernel_digest=record.kernel_digest,
        method_version=record.method_version,
    )
    profile.fits = [_fit_row(fit) for fit in record.fits]
    return settled(profile)


def profile_record(row: models.Profile) -> ProfileRecord:
    """Inverse of `profile_row`."""
    with readable(f"profile {row.profile_id}"):
        return ProfileRecord(
            profile_id=row.profile_id,
            sweep_id=row.sweep_id,
            device=DeviceFacts.from_json(json.loads(row.facts)),
            state=ProfileState(row.state),
            reasons=tuple(json.loads(row.reasons)),
            created_at=decode_time(row.created_at),
            compiled=row.compiled,
            digest=row.digest,
            kernel_digest=row.kernel_digest,
            method_version=row.method_version,
            fits=tuple(_fit_record(fit) for fit in row.fits),
        )


def evidence_row(profile_id: str, record: EvidenceRecord) -> models.Evidence:
    """The row of a later check; what rests on a cell is linked by the store itself."""
    return settled(
        models.Evidence(
            profile_id=profile_id,
            kind=record.kind,
            recorded_at=encode_time(record.recorded_at, "evidence.recorded_at"),
            verdict=record.verdict,
            detail=record.detail,
        )
    )


def evidence_record(row: models.Evidence, block_key: str | None, cell: str | None) -> EvidenceRecord:
    """The record of a row, given what its cell is called."""
    with readable(f"evidence {row.evidence_id} of profile {row.profile_id}"):
        return EvidenceRecord(
            kind=EvidenceKind(row.kind),
            recorded_at=decode_time(row.recorded_at),
            block_key=block_key,
            cell=cell,
            verdict=row.verdict,
            detail=row.detail,
        )


def _fit_row(record: FitRecord) -> models.Fit:
    # Names are checked one by one, so that the message can say which parameter diverged.
    parameters = {name: real(value, f"fit.parameters.{name}") for name, value in record.parameters.items()}
    return settled(
        models.Fit(
            family=record.family,
            direction=record.direction,
            colocation=record.colocation,
            model=record.model,
            parameters=encode_json(parameters, "fit.parameters"),
            residual=record.residual,
            reason=record.reason,
        )
    )


def _fit_record(row: models.Fit) -> FitRecord:
    return FitRecord(
        family=row.family,
        direction=row.direction,
        colocation=Colocation(row.colocation),
        model=row.model,
        parameters=dict(json.loads(row.parameters)),
        residual=row.residual,
        reason=row.reason,
    )
