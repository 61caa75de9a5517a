"""Runs sweeps: measures block after block, stores each at once, and publishes what was learnt."""

from collections.abc import Generator
from dataclasses import dataclass, field, replace

from pega_tune.autotune.engine import Capabilities, Engine
from pega_tune.autotune.sweep.environment import Clock, Owner, SystemClock, environment_json
from pega_tune.autotune.sweep.events import SweepEvent
from pega_tune.autotune.sweep.planner import SweepPlan, plan_sweep
from pega_tune.autotune.sweep.request import SweepRequest
from pega_tune.autotune.sweep.runner import Run
from pega_tune.errors import DeviceError, UsageError
from pega_tune.profiles.store.ids import new_id
from pega_tune.profiles.store.records import SweepRecord, SweepState
from pega_tune.profiles.store.store import Store

METHOD_VERSION = 4
"""Version of how blocks are measured and tables compiled; a sweep is never finished by another method."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Where a sweep takes the time from, and which process owns it; by default this host and this process."""

    clock: Clock = field(default_factory=SystemClock)
    owner: Owner = field(default_factory=Owner)


def run_sweep(
    request: SweepRequest, engine: Engine, store: Store, around: Surroundings | None = None
) -> Generator[SweepEvent, None, None]:
    """Measures what is asked for and stores a profile; nothing happens before the first event is taken.

    Every finished block is durable before its event. When the time is used up, measuring ends and the profile is
    partial; when the engine is lost, likewise. When the caller is interrupted, or stops taking events, the sweep is
    marked as interrupted. The engine is closed in any case.

    Raises:
        DeviceError: before anything is stored: the device is busy, has too little memory or is not usable.
        DataError: the database refuses.
    """
    around = around or Surroundings()
    try:
        capabilities = _free_device(engine, request)
        _require_decode(engine, request)
        plan = plan_sweep(request, capabilities)
        sweep = _record(request, engine, capabilities, plan, around)
        store.add_sweep(sweep)
        yield from Run(sweep, plan, engine, store, around.clock).events()
    finally:
        engine.close()


@dataclass(frozen=True, slots=True)
class Resumption:
    """Which sweep is to go on, and what may differ from how it was begun: nothing that a block depends on.

    Attributes:
        sweep_id: id of the sweep, or a unique prefix.
        budget_s: time for the missing blocks, in seconds; None leaves what the sweep was begun with.
        allow_busy: whether the device may be in use by others now; one begun so may be in any case.
    """

    sweep_id: str
    budget_s: float | None = None
    allow_busy: bool = False


def resume_sweep(
    resumption: Resumption, engine: Engine, store: Store, around: Surroundings | None = None
) -> Generator[SweepEvent, None, None]:
    """Measures what is missing of a sweep that was interrupted or ran out of time; else as `run_sweep`.

    Args:
        resumption: which sweep.
        engine: for the same device.
        store: where the sweep is.
        around: where the time comes from and who runs it.

    Raises:
        UsageError: it was measured on another device, with other kernels or another method.
        DeviceError: as `run_sweep`.
        DataError: there is no such sweep, another process runs it, nothing is missing, or the database refuses.
    """
    around = around or Surroundings()
    try:
        sweep = store.sweep(resumption.sweep_id).sweep
        request = _adapted(SweepRequest.from_json(sweep.request), resumption)
        capabilities = _free_device(engine, request)
        _require_same(sweep, engine, capabilities)
        plan = plan_sweep(request, capabilities)
        store.claim(sweep.sweep_id, around.owner.pid, around.owner.host)
        yield from Run(sweep, plan, engine, store, around.clock).events()
    finally:
        engine.close()


def _adapted(request: SweepRequest, resumption: Resumption) -> SweepRequest:
    budget_s = request.budget_s if resumption.budget_s is None else resumption.budget_s
    return replace(request, budget_s=budget_s, allow_busy=request.allow_busy or resumption.allow_busy)


def _free_device(engine: Engine, request: SweepRequest) -> Capabilities:
    """The capabilities of a device that nobody else uses, or that may be shared.

    Raises:
        DeviceError: other processes use it, and the request does not allow that.
    """
    capabilities = engine.capabilities()
    others = capabilities.other_processes
    if others and not request.allow_busy:
        pids = ", ".join(map(str, others))
        raise DeviceError(
            f"the device is in use by other processes (process id {pids}): times would not be its own",
            "end them, or measure all the same with --allow-busy",
        )
    return capabilities


def _require_decode(engine: Engine, request: SweepRequest) -> None:
    """Refuses what could only be found missing when all else has been measured.

    Raises:
        UsageError: a simulated device has no model of what is to decode.
    """
    if engine.facts.simulated and request.decode_spec is not None:
        request.decode_spec.require_simulable()


def _require_same(sweep: SweepRecord, engine: Engine, capabilities: Capabilities) -> None:
    pairs = (
        ("device", sweep.device.uuid, engine.facts.uuid),
        ("version of the copy kernels", sweep.kernel_digest, capabilities.kernel_digest),
        ("measuring method", sweep.method_version, METHOD_VERSION),
    )
    for what, stored, here in pairs:
        if stored != here:
            raise UsageError(
                f"sweep {sweep.sweep_id} was begun with another {what}: {stored}, not {here}", "start a new sweep"
            )


def _record(
    request: SweepRequest, engine: Engine, capabilities: Capabilities, plan: SweepPlan, around: Surroundings
) -> SweepRecord:
    return SweepRecord(
        sweep_id=new_id(),
        device=engine.facts,
        preset=request.preset,
        seed=request.seed,
        request=request.capped(capabilities.device_bytes, capabilities.host_bytes).to_json(),
        method_version=METHOD_VERSION,
        kernel_digest=capabilities.kernel_digest,
        environment=environment_json(),
        planned_blocks=len(plan.blocks),
        state=SweepState.RUNNING,
        started_at=around.clock.now(),
        pid=around.owner.pid,
        host=around.owner.host,
    )
