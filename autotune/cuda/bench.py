"""What transfers are run and verified on, from one block to the next."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from pega_tune.autotune.cuda.abilities import Abilities
from pega_tune.autotune.cuda.buffers import Buffers, Need
from pega_tune.autotune.cuda.lanes import Lane, LaneRun
from pega_tune.autotune.cuda.layout import Layout, odd_ranges
from pega_tune.autotune.cuda.timing import Timing, time_transfer
from pega_tune.autotune.cuda.verifying import Leg, Verifier
from pega_tune.kernels.context import PrimaryContext
from pega_tune.kernels.plan import CopyPlan
from pega_tune.kernels.shape import Direction

_ODD_SEED: Final = 408


@dataclass(frozen=True, slots=True)
class DirectedRun:
    """One direction of a transfer.

    Attributes:
        direction: which way.
        layout: where the ranges lie.
        run: moves them.
    """

    direction: Direction
    layout: Layout
    run: LaneRun


@dataclass(frozen=True, slots=True)
class Bench:
    """Lanes with their memory.

    Attributes:
        context: where everything lives.
        lanes: one per direction.
        buffers: their memory.
        verifier: compares bytes.
        abilities: what can run.
    """

    context: PrimaryContext
    lanes: Mapping[Direction, Lane]
    buffers: Buffers
    verifier: Verifier
    abilities: Abilities

    def reserve(self, need: Need, directions: tuple[Direction, ...]) -> None:
        """Gives the lanes of these directions slabs that satisfy the need; runs made before are void.

        Raises:
            MemoryLimitError: there is not so much memory.
        """
        self.buffers.reserve(dict.fromkeys(directions, need))
        for direction in directions:
            self.lanes[direction].attach(self.buffers[direction])

    def run(self, direction: Direction, layout: Layout, plan: CopyPlan) -> DirectedRun:
        """A transfer of the ranges of a layout in one direction."""
        lane = self.lanes[direction]
        return DirectedRun(direction, layout, lane.run(lane.slabs.batch(layout), plan))

    def verify(self, runs: tuple[DirectedRun, ...], seed: int) -> str:
        """Runs a transfer between fresh data and poison; what is wrong, or nothing."""
        legs = [Leg(run.direction, self.lanes[run.direction], run.layout) for run in runs]
        return self.verifier.verify(legs, self.buffers.mirror, seed, lambda: self.time(runs))

    def time(self, runs: tuple[DirectedRun, ...], meanwhile: Callable[[], None] | None = None) -> Timing:
        """Runs a transfer, as `time_transfer`."""
        return time_transfer([run.run for run in runs], meanwhile=meanwhile)


class OddTransfers:
    """Verifies plans on awkward ranges: every size from 1 to 4097, every pair of alignments, guards between.

    Each plan is verified once per direction and engine.

    Attributes:
        need: what must have been reserved for the direction.
    """

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self._layout = odd_ranges(_ODD_SEED)
        self._verdicts: dict[tuple[Direction, CopyPlan], str] = {}
        self.need: Final = Need.of(len(self._layout.nbytes), self._layout.extent_bytes)

    def verify(self, direction: Direction, plan: CopyPlan) -> str:
        """What is wrong, or nothing."""
        key = (direction, plan)
        if key not in self._verdicts:
            wrong = self._bench.verify((self._bench.run(direction, self._layout, plan),), len(self._verdicts))
            self._verdicts[key] = f"odd sizes and addresses: {wrong}" if wrong else ""
        return self._verdicts[key]
