"""What goes into the store and comes out of it: frozen, no database type in sight."""

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from pega_tune.kernels.facts import DeviceFacts, Link
from pega_tune.kernels.plan import AnyPlan
from pega_tune.kernels.shape import TransferShape
from pega_tune.profiles.policy.terms import Colocation, ProfileState


class SweepState(StrEnum):
    """How far a sweep has come."""

    RUNNING = "running"
    INTERRUPTED = "interrupted"
    FINISHED = "finished"
    FAILED = "failed"


class Metric(StrEnum):
    """What a series of samples measures; all are seconds.

    Beside decode there is one sample per burst of `STALL`, `EXTRA`, `COMPLETION` and `BURST_PERIOD`, which reaches to
    the next submission; one per decode step of `STEP` and of `STEP_END`, the time of its end if the burst periods are
    laid end to end from 0; one per missed deadline of `MISSED`, which reaches to the submission after it; and one per
    segment of `HOST_CPU`, for an average burst. `BASELINE_STEP` is the same in all cells of a block.
    """

    TRANSFER = "transfer"
    PREPARE = "prepare"
    SUBMIT = "submit"
    DEVICE = "device"
    HOST_CPU = "host-cpu"
    SM = "sm"
    SPAN = "span"
    MOVING = "moving"
    STEP = "step"
    STEP_END = "step-end"
    BASELINE_STEP = "baseline-step"
    STALL = "stall"
    EXTRA = "extra"
    COMPLETION = "completion"
    BURST_PERIOD = "burst-period"
    MISSED = "missed"


class EvidenceKind(StrEnum):
    """What kind of thing speaks for a profile, or against it."""

    CELL = "cell"
    CANARY = "canary"
    VERIFY = "verify"


class BlockFlag(StrEnum):
    """What was wrong while a block ran; it is kept all the same."""

    THROTTLED = "throttled"
    CONTENDED = "contended"
    SLOW_LINK = "slow-link"
    NO_TELEMETRY = "no-telemetry"
    SERIALISED = "serialised"


@dataclass(frozen=True, slots=True)
class MeasurementRecord:
    """Raw samples of one metric of one cell.

    Attributes:
        metric: what was measured, once per cell.
        samples: in the order taken, none dropped; seconds, all finite.
        status: `ok`, or why nothing may be claimed from the samples, one word such as `too-few`.
        flags: what is odd about them, one word each such as `outliers`.
    """

    metric: Metric
    samples: tuple[float, ...]
    status: str = "ok"
    flags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CellRecord:
    """One candidate of a block.

    Attributes:
        name: the candidate's name, unique within the block.
        kind: `plan`, `static` or `ceiling`.
        plan: how it moved the bytes.
        status: `ok`, `mismatch`, `unsupported`, `crashed`, `timed-out` or `invalid`.
        verified: every byte was compared and right.
        detail: why the status is not `ok`, one line.
        measurements: one record per metric; empty if the cell failed before it was timed.
    """

    name: str
    kind: str
    plan: AnyPlan
    status: str
    verified: bool
    detail: str = ""
    measurements: tuple[MeasurementRecord, ...] = ()


@dataclass(frozen=True, slots=True)
class BlockRecord:
    """One finished block; it is stored whole, in one transaction, or not at all.

    Attributes:
        key: names the block within its sweep.
        shape: what was moved.
        colocation: where decode ran.
        seed: of order, layout and data; below 2^63.
        seconds: wall time that the block took.
        cells: its candidates, in their order.
        flags: what was wrong while it ran.
        sm_clock_hz, link, temperature_c: as sampled under load; None if unknown.
        throttle_reasons: NVML names; empty if none.
        telemetry_note: why telemetry is missing; empty if it is not.
        period_s, decode: burst period, the longest if each candidate had its own, and decode workload of a serving
            block; None for a transfer block.
    """

    key: str
    shape: TransferShape
    colocation: Colocation
    seed: int
    seconds: float
    cells: tuple[CellRecord, ...]
    flags: tuple[BlockFlag, ...] = ()
    sm_clock_hz: int | None = None
    link: Link | None = None
    temperature_c: int | None = None
    throttle_reasons: tuple[str, ...] = ()
    telemetry_note: str = ""
    period_s: float | None = None
    decode: str | None = None


@dataclass(frozen=True, slots=True)
class SweepRecord:
    """One run of the tuner on one device.

    Attributes:
        sweep_id: short unique id.
        device: the device's facts when the sweep began.
        preset: `quick`, `standard` or `thorough`.
        seed: from which every block's seed follows; below 2^63.
        request: the rest of what was asked for, canonical JSON; enough to plan the same blocks again.
        method_version: version of the measuring method.
        kernel_digest: identifies the copy kernels' code.
        environment: variables and package versions that bear on timing, canonical JSON.
        planned_blocks: blocks that a whole sweep has.
        state: how far it has come.
        started_at: aware, UTC.
        seconds: wall time spent so far, resumed runs added up.
        reasons: why the state is what it is.
        pid, host: the process that runs it, to tell a dead sweep from a live one.
    """

    sweep_id: str
    device: DeviceFacts
    preset: str
    seed: int
    request: str
    method_version: int
    kernel_digest: str
    environment: str
    planned_blocks: int
    state: SweepState
    started_at: datetime
    seconds: float = 0.0
    reasons: tuple[str, ...] = ()
    pid: int | None = None
    host: str | None = None


@dataclass(frozen=True, slots=True)
class SweepSummary:
    """A sweep with the counts of what it has stored."""

    sweep: SweepRecord
    blocks: int
    cells: int
    profile_id: str | None


@dataclass(frozen=True, slots=True)
class FitRecord:
    """A fitted curve, or why there is none.

    Attributes:
        family: the plan family, or the plan's key.
        direction: of the transfers.
        colocation: where decode ran.
        model: name of the formula.
        parameters: by name, in SI units; empty if there is no fit.
        residual: relative root mean square residual; None if there is no fit.
        reason: why there is no fit; empty if there is one.
    """

    family: str
    direction: str
    colocation: Colocation
    model: str
    parameters: dict[str, float] = field(default_factory=dict)
    residual: float | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class ProfileRecord:
    """What a sweep learnt, compiled.

    Attributes:
        profile_id: short unique id.
        sweep_id: where it was learnt.
        device: facts of the device it is for.
        state: published profiles alone are used.
        reasons: why it is not published; if it is, what it knows nothing of.
        created_at: aware, UTC.
        compiled: the tables, as `pega_tune.profiles.policy.compiled` writes them.
        digest: SHA-256 of `compiled`, hex.
        kernel_digest, method_version: of its sweep.
        fits: curves behind the tables.
    """

    profile_id: str
    sweep_id: str
    device: DeviceFacts
    state: ProfileState
    reasons: tuple[str, ...]
    created_at: datetime
    compiled: bytes
    digest: str
    kernel_digest: str
    method_version: int
    fits: tuple[FitRecord, ...] = ()


@dataclass(frozen=True, slots=True)
class EvidenceRecord:
    """One thing that a profile rests on.

    Attributes:
        kind: a measured cell, or a later check.
        recorded_at: aware, UTC.
        block_key, cell: the cell, by its block's key and its name; None for a later check.
        verdict, detail: what a later check found; empty for a cell.
    """

    kind: EvidenceKind
    recorded_at: datetime
    block_key: str | None = None
    cell: str | None = None
    verdict: str = ""
    detail: str = ""
