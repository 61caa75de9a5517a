"""Whether a second pass, in a fresh process, bears out what the tables of the first one choose.

What counts is the loss: the time of the choice over that of the best plan of the second pass, less 1. The best is found
in one half of the rounds and timed in the other one, both ways round, so that no plan is best by luck: without a true
loss, its expectation is 0, and noise may make it negative.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil, inf
from statistics import fmean, median
from typing import Final

from pega_tune.autotune.measuring.statistics import median_interval
from pega_tune.autotune.sweep.choices import cell_of, chosen_at
from pega_tune.autotune.sweep.keys import confirms
from pega_tune.autotune.sweep.observations import transfer_samples, usable
from pega_tune.autotune.sweep.shapes import describe
from pega_tune.kernels.plan import AnyPlan
from pega_tune.kernels.shape import TransferShape
from pega_tune.profiles.policy.table import CompiledPolicy
from pega_tune.profiles.store.records import BlockRecord, CellRecord

MAX_LOSS: Final = 0.03
"""What a second pass may find lost on average, as a fraction of the best plan's time."""

PROCESS_MARGIN: Final = 0.05
"""Relative difference of times that two processes on the same device may have: copy engines, addresses and placement
differ from one to the next, which is not in the noise inside a block."""

FAR_LOSS: Final = 0.25
"""What no single choice may be certain to lose."""

ODD_SHAPES: Final = 0.1
"""Part of the shapes, at least one of them, that may disagree: two sweeps of one device agree at most shapes, not at
all of them, and least where plans are nearly equal, which is where a second pass looks."""

_HALVES: Final = 2


@dataclass(frozen=True, slots=True)
class Loss:
    """What the choice loses at one shape, as fractions of the best plan's time.

    Attributes:
        shape: what was moved.
        plan: the choice of the tables.
        best: the fastest plan of the second pass, over all rounds.
        margin: relative difference of times that is noise.
        estimate: median over the rounds; None if the choice could not be measured.
        low: what it is at least, at 95 %; None likewise, or of too few rounds.
    """

    shape: TransferShape
    plan: AnyPlan
    best: AnyPlan | None
    margin: float
    estimate: float | None
    low: float | None

    @property
    def certain(self) -> bool:
        """Whether the choice is not equivalent to the best plan, beyond doubt."""
        return self._least > max(self.margin, PROCESS_MARGIN)

    @property
    def hopeless(self) -> bool:
        """Whether it is so far from the best plan that it should not have been chosen, or does not work at all."""
        return self._least > FAR_LOSS

    @property
    def _least(self) -> float:
        if self.estimate is None:
            return inf
        return self.estimate if self.low is None else self.low


def second_pass(policy: CompiledPolicy, blocks: Iterable[BlockRecord]) -> tuple[Loss, ...]:
    """The loss at each shape that was measured twice, in the order measured."""
    return tuple(loss for block in blocks if confirms(block.key) and (loss := _loss(policy, block)) is not None)


def disagreements(losses: Sequence[Loss]) -> tuple[str, ...]:
    """Why the second pass does not bear out the first one, a line each; empty if it does.

    On average no more than `MAX_LOSS` may be lost. Only `ODD_SHAPES` may be certain to lose more than both the noise
    and `PROCESS_MARGIN`, and none more than `FAR_LOSS`.
    """
    certain = [loss for loss in losses if loss.certain]
    hopeless = [loss for loss in losses if loss.hopeless]
    wrong = certain if len(certain) > ceil(ODD_SHAPES * len(losses)) else hopeless
    if wrong or not losses:
        return tuple(map(_words, wrong))
    mean = mean_loss(losses)
    if mean <= MAX_LOSS:
        return ()
    worst = max(losses, key=lambda loss: loss.estimate or 0.0)
    return (f"a second pass finds {mean:.1%} lost on average, more than {MAX_LOSS:.0%}; most of all: {_words(worst)}",)


def mean_loss(losses: Sequence[Loss]) -> float:
    """Cross-regret: the mean over the shapes where the choice could be measured; 0 without any."""
    return fmean(known) if (known := [loss.estimate for loss in losses if loss.estimate is not None]) else 0.0


def _loss(policy: CompiledPolicy, block: BlockRecord) -> Loss | None:
    chosen = next(iter(chosen_at(policy, {block.key: block.shape})), None)
    if chosen is None:
        return None
    cells = [cell for cell in block.cells if usable(cell)]
    best = min(cells, key=lambda cell: median(transfer_samples(cell)), default=None)
    mine = cell_of(block, chosen.plan)
    ratios = _ratios(mine, cells) if mine else ()
    interval = median_interval(ratios)
    return Loss(
        shape=block.shape,
        plan=chosen.plan,
        best=best.plan if best else None,
        margin=chosen.margin,
        estimate=median(ratios) - 1 if ratios else None,
        low=interval.low - 1 if interval else None,
    )


def _ratios(mine: CellRecord, cells: Sequence[CellRecord]) -> tuple[float, ...]:
    """Times of a cell over those of the best one, round by round, the best being found in the other half."""
    times = transfer_samples(mine)
    ratios: list[float] = []
    for half in range(_HALVES):
        known = [cell for cell in cells if transfer_samples(cell)[half::_HALVES]]
        best = transfer_samples(min(known, key=lambda cell: median(transfer_samples(cell)[half::_HALVES])))
        others = list(zip(times, best, strict=False))[1 - half :: _HALVES]
        ratios += [one / other for one, other in others]
    return tuple(ratios)


def _words(loss: Loss) -> str:
    where = describe(loss.shape)
    if loss.estimate is None or loss.best is None:
        return f"{where}: {loss.plan.key}, which the tables choose, could not be measured in a second pass"
    return f"{where}: a second pass finds {loss.plan.key} {loss.estimate:.1%} slower than {loss.best.key}"
