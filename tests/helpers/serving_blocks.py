"""Serving blocks, and engines that make up what they see beside decode, or misbehave."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pega_tune.autotune.engine import Measurement, TransferBlock
from pega_tune.autotune.isolation.environment import Environment
from pega_tune.autotune.measuring.serving.schedule import run_serving_block
from pega_tune.autotune.serving import BASELINE, MpsShare, Pacing, Segment, ServingBlock, ServingLimits
from pega_tune.kernels.plan import CopyPlan, direct
from pega_tune.kernels.shape import Direction, TransferShape
from pega_tune.profiles.policy.terms import Colocation
from tests.helpers.engines import BLOCK, WARP, Deed, SimulatedDevice, candidates, wait_for

STEP_S = 0.001
PACING = Pacing(period_s=0.01, bursts=2)


def serving_block(
    colocation: Colocation = Colocation.TIME_SLICED,
    plans: tuple[CopyPlan, ...] = (direct(), WARP, BLOCK),
    pacing: Pacing = PACING,
    rounds: int = 2,
    shape: TransferShape | None = None,
) -> ServingBlock:
    """A small block: the ceiling is candidate 0, the plans are 1, 2, ..."""
    shape = shape or TransferShape(64, 64 * 4096, Direction.H2D)
    limits = ServingLimits(budget_s=0.0, min_rounds=rounds, max_rounds=rounds)
    return ServingBlock("test", shape, candidates(shape.direction, *plans), colocation, limits, seed=7, pacing=pacing)


def imagined_segment(block: ServingBlock, candidate: int) -> Segment:
    """Steps of a millisecond beside bursts that take half of one."""
    period_s = block.pacing.period_s or 1.0
    bursts = 0 if candidate == BASELINE else block.pacing.bursts
    due = period_s * np.arange(1, bursts + 1)
    ends = np.arange(0.0, (block.pacing.bursts + 2) * period_s, STEP_S)
    return Segment(candidate, ends, due, due, due + STEP_S / 2, block.shape.moved_bytes, period_s)


@dataclass(frozen=True, slots=True)
class Misfortune:
    """What happens instead of the segments of a candidate."""

    candidate: int
    deed: Deed


class ImaginingEngine(SimulatedDevice):
    """Facts and conditions of the simulated H200; what it is asked for is appended to a file `log`."""

    def __init__(self, misfortunes: tuple[Misfortune, ...], folder: Path) -> None:
        super().__init__()
        self._misfortunes = misfortunes
        self._folder = folder

    def transfer(self, block: TransferBlock) -> Iterator[Measurement]:
        self._log("transfer")
        return self._sim.transfer(block)

    def beside_decode(self, block: ServingBlock) -> Iterator[Segment]:
        self._log(str(block.colocation))

        def execute(candidate: int) -> Segment:
            for misfortune in self._misfortunes:
                if misfortune.candidate == candidate:
                    self._suffer(misfortune.deed)
            return imagined_segment(block, candidate)

        return run_serving_block(block, execute)

    def _suffer(self, deed: Deed) -> None:
        if deed is Deed.EXIT:
            os._exit(3)
        assert deed is Deed.WAIT
        (self._folder / "started").touch()
        wait_for(self._folder / "released")

    def _log(self, asked: str) -> None:
        with (self._folder / "log").open("a") as log:
            log.write(f"{asked} {os.getpid()} {os.environ.get('PEGA_TUNE_TEST', '-')}\n")


@dataclass(frozen=True, slots=True)
class ImaginingFactory:
    """Builds an `ImaginingEngine`."""

    folder: Path
    misfortunes: tuple[Misfortune, ...] = ()

    def __call__(self) -> ImaginingEngine:
        return ImaginingEngine(self.misfortunes, self.folder)


def named_environment(colocation: Colocation, share: MpsShare) -> Environment:
    """One variable, which tells the share under MPS."""
    if colocation is not Colocation.MPS:
        return (("PEGA_TUNE_TEST", None),)
    return (("PEGA_TUNE_TEST", f"mps-{share.active_thread_percentage}"),)
