"""How well two sweeps of one device agree: the choices of each, judged by the measured times of the other. Pure.

At every shape of the lattice that both have measured (shuffled, without decode), each sweep's `Auto` is asked for
`throughput`. The two choices are *alike* if they launch the same there. They are *equivalent* if the ratio of their
times, the geometric mean of both sweeps', differs from 1 by no more than the margin that was shipped, the larger of the
two tables' own: each sweep flatters its own choice, and the mean of both flatters neither. The *cross-regret* of a
choice is its `cross_regret` among the times of the other sweep.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import exp, log
from statistics import fmean, median

from pega_tune.autotune.bench.regret_statistics import Halves, Spread, cross_regret
from pega_tune.autotune.engine import CandidateKind
from pega_tune.autotune.sweep.keys import block_key
from pega_tune.autotune.sweep.observations import transfer_samples, usable
from pega_tune.autotune.sweep.plans import launched
from pega_tune.kernels.plan import AnyPlan
from pega_tune.kernels.shape import TransferShape
from pega_tune.profiles.policy.auto import Auto
from pega_tune.profiles.policy.terms import Colocation, Objective, Runtime
from pega_tune.profiles.store.records import BlockRecord


@dataclass(frozen=True, slots=True)
class Learnt:
    """What one sweep measured, and who answers from it.

    Attributes:
        auto: from its profile.
        blocks: all that it has stored.
    """

    auto: Auto
    blocks: tuple[BlockRecord, ...]

    def margin(self, shape: TransferShape) -> float:
        """Relative difference of times that its table calls noise; 0 without a table."""
        profile = self.auto.profile
        table = profile.policy.find(shape.direction, Colocation.IDLE, Runtime.FULL) if profile else None
        return 0.0 if table is None else table.margin

    def choice(self, shape: TransferShape) -> AnyPlan:
        """What its `Auto` takes, as it is launched at the shape."""
        counts = shape.merged_ranges, shape.total_bytes, shape.direction
        answer = self.auto.decide(*counts, objective=Objective.THROUGHPUT, colocation=Colocation.IDLE)
        return launched(answer.plan, shape)


@dataclass(frozen=True, slots=True)
class CellAgreement:
    """One shape of the lattice.

    Attributes:
        shape: which.
        choices: of the first sweep and of the second, as launched.
        margin: within which two times are equal.
        ratio: time of the first choice over that of the second, by both sweeps; None if no sweep has timed both.
        regrets: of each choice in the sweep that did not make it; None if that has not timed it.
    """

    shape: TransferShape
    choices: tuple[AnyPlan, AnyPlan]
    margin: float
    ratio: float | None
    regrets: tuple[float | None, float | None]

    @property
    def alike(self) -> bool:
        """Whether both launch the same."""
        return self.choices[0] == self.choices[1]

    @property
    def agrees(self) -> bool:
        """Whether they are alike or equivalent."""
        return self.alike or (self.ratio is not None and abs(log(self.ratio)) <= log(1 + self.margin))


@dataclass(frozen=True, slots=True)
class Agreement:
    """Two sweeps.

    Attributes:
        cells: every shape that both have measured.
    """

    cells: tuple[CellAgreement, ...]

    @property
    def share(self) -> float:
        """Shapes at which they agree, as a fraction; 0 if there are none."""
        return fmean(cell.agrees for cell in self.cells) if self.cells else 0.0

    @property
    def alike(self) -> float:
        """Shapes at which they launch the same, as a fraction; 0 if there are none."""
        return fmean(cell.alike for cell in self.cells) if self.cells else 0.0

    @property
    def cross_regret(self) -> Spread | None:
        """Over both ways and all shapes; None if no choice could be judged."""
        return Spread.of([regret for cell in self.cells for regret in cell.regrets if regret is not None])

    @property
    def unjudged(self) -> int:
        """Choices that the other sweep has not timed at their shape."""
        return sum(regret is None for cell in self.cells for regret in cell.regrets)


def agreement(first: Learnt, second: Learnt) -> Agreement:
    """Compares two sweeps at every shape of the lattice that both have measured."""
    there = {block.shape: block for block in _lattice(second.blocks)}
    pairs = ((block, there[block.shape]) for block in _lattice(first.blocks) if block.shape in there)
    return Agreement(tuple(_compared((first, one), (second, other)) for one, other in pairs))


def _lattice(blocks: Sequence[BlockRecord]) -> Iterator[BlockRecord]:
    """Those without decode, a layout or a confirmation in their key."""
    return (block for block in blocks if block.key == block_key(block.shape, Colocation.IDLE))


def _compared(one: tuple[Learnt, BlockRecord], other: tuple[Learnt, BlockRecord]) -> CellAgreement:
    (first, here), (second, there) = one, other
    shape = here.shape
    mine, theirs = first.choice(shape), second.choice(shape)
    by_first, by_second = _times(here), _times(there)
    known = [times for times in (by_first, by_second) if mine in times and theirs in times]
    ratio = exp(fmean(log(median(times[mine]) / median(times[theirs])) for times in known)) if known else None
    regrets = _regret(mine, by_second), _regret(theirs, by_first)
    margin = max(first.margin(shape), second.margin(shape))
    return CellAgreement(shape, (mine, theirs), margin, ratio, regrets)


def _times(block: BlockRecord) -> Mapping[AnyPlan, tuple[float, ...]]:
    """Transfer times by what is launched; the ceiling moves no ranges and is none of them."""
    found = {}
    for cell in block.cells:
        samples = transfer_samples(cell)
        if cell.kind != CandidateKind.CEILING and usable(cell) and len(samples) > 1:
            found[launched(cell.plan, block.shape)] = samples
    return found


def _regret(choice: AnyPlan, times: Mapping[AnyPlan, tuple[float, ...]]) -> float | None:
    halves = {plan: known for plan, samples in times.items() if (known := Halves.of(samples)) is not None}
    return cross_regret(halves[choice], tuple(halves.values())) if choice in halves else None
