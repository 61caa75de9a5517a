"""Blocks to measure, and engines that misbehave on purpose, for tests of engines and of what holds them."""

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path

from pega_tune.autotune.engine import (
    Candidate,
    CandidateKind,
    Capabilities,
    Conditions,
    EngineLostError,
    Measurement,
    Phase,
    SamplingLimits,
    TransferBlock,
)
from pega_tune.autotune.measuring.schedule import Step, run_block
from pega_tune.autotune.sim.devices import SimFactory
from pega_tune.autotune.sim.engine import SimEngine
from pega_tune.errors import DeviceError
from pega_tune.kernels.facts import DeviceFacts
from pega_tune.kernels.plan import CopyPlan, PlanPair, Variant, direct, kernel
from pega_tune.kernels.shape import Direction, TransferShape

WARP = kernel(Variant.WARP, 2, 1024)
BLOCK = kernel(Variant.BLOCK, 64, 256)
LIMITS = SamplingLimits(budget_s=0.0, min_rounds=3, max_rounds=3)


def candidates(direction: Direction, *plans: CopyPlan) -> tuple[Candidate, ...]:
    """The ceiling, then the plans, each by its key; as pairs if both directions are moved."""
    both = direction is Direction.BOTH
    chosen = [Candidate("ceiling", CandidateKind.CEILING, PlanPair(direct(), direct()) if both else direct())]
    for plan in plans:
        chosen.append(Candidate(plan.key, CandidateKind.PLAN, PlanPair(plan, plan) if both else plan))
    return tuple(chosen)


def transfer_block(
    shape: TransferShape | None = None,
    plans: tuple[CopyPlan, ...] = (direct(), WARP, BLOCK),
    limits: SamplingLimits = LIMITS,
    seed: int = 7,
) -> TransferBlock:
    """A small block: the ceiling is candidate 0, the plans are 1, 2, ..."""
    shape = shape or TransferShape(64, 64 * 4096, Direction.H2D)
    key = f"test/{shape.direction}/{shape.merged_ranges}x{shape.total_bytes}"
    return TransferBlock(key, shape, candidates(shape.direction, *plans), limits, seed)


def unsupported_plan() -> CopyPlan:
    """A plan with a stream priority that no device has."""
    return replace(WARP, stream_priority=99)


class Deed(Enum):
    """What an engine does instead of measuring."""

    EXIT = "exit"
    LOST = "raise EngineLostError"
    REFUSE = "raise DeviceError"
    BUG = "raise ZeroDivisionError"
    WAIT = "say so in `started`, wait for `released`, then measure"


@dataclass(frozen=True, slots=True)
class Misdeed:
    """A deed and when it is done."""

    candidate: int
    deed: Deed
    phase: Phase = Phase.TIMED


class SimulatedDevice:
    """The simulated H200, but for what it measures."""

    def __init__(self) -> None:
        self._sim: SimEngine = SimFactory("h200")()

    @property
    def facts(self) -> DeviceFacts:
        return self._sim.facts

    def capabilities(self) -> Capabilities:
        return self._sim.capabilities()

    def conditions(self) -> Conditions:
        return self._sim.conditions()

    def close(self) -> None:
        self._sim.close()


class MisbehavingEngine(SimulatedDevice):
    """The simulated H200, but for its misdeeds."""

    def __init__(self, misdeeds: tuple[Misdeed, ...], folder: Path) -> None:
        super().__init__()
        self._misdeeds = misdeeds
        self._folder = folder

    def transfer(self, block: TransferBlock) -> Iterator[Measurement]:
        os.write(1, b"what an engine prints\n")
        return run_block(block, self._execute)

    def _execute(self, step: Step) -> Measurement:
        for misdeed in self._misdeeds:
            if (misdeed.candidate, misdeed.phase) == (step.candidate, step.phase):
                self._commit(misdeed.deed)
        return Measurement(step.candidate, step.phase, transfer_s=1e-3 * (1 + step.candidate))

    def _commit(self, deed: Deed) -> None:
        if deed is Deed.EXIT:
            os._exit(3)
        if deed is Deed.LOST:
            raise EngineLostError("an illegal address")
        if deed is Deed.REFUSE:
            raise DeviceError("not now", "try later")
        if deed is Deed.BUG:
            raise ZeroDivisionError("a bug of ours")
        (self._folder / "started").touch()
        while not (self._folder / "released").exists():
            time.sleep(0.002)


@dataclass(frozen=True, slots=True)
class MisbehavingFactory:
    """Builds a `MisbehavingEngine`; `folder` holds the files of `Deed.WAIT`."""

    misdeeds: tuple[Misdeed, ...]
    folder: Path = Path()

    def __call__(self) -> MisbehavingEngine:
        return MisbehavingEngine(self.misdeeds, self.folder)


@dataclass(frozen=True, slots=True)
class FailingFactory:
    """Builds nothing: raises the error, or ends the process if there is none."""

    error: Exception | None = None

    def __call__(self) -> SimEngine:
        if self.error is None:
            os._exit(9)
        raise self.error


@dataclass(frozen=True, slots=True)
class SleepingFactory:
    """Builds nothing, and takes an hour for it."""

    def __call__(self) -> SimEngine:
        time.sleep(3600)
        raise AssertionError("nobody waits that long")


@dataclass(frozen=True, slots=True)
class OnceFactory:
    """Builds the simulated engine in the first process, and takes an hour for it in every other.

    Attributes:
        marker: a file that tells them apart.
    """

    marker: Path

    def __call__(self) -> SimEngine:
        if self.marker.exists():
            return SleepingFactory()()
        self.marker.touch()
        return SimFactory("h200")()


def wait_for(path: Path) -> None:
    """Waits for a file of `Deed.WAIT`."""
    deadline = time.monotonic() + 60
    while not path.exists():
        assert time.monotonic() < deadline, f"{path.name} does not appear"
        time.sleep(0.002)
