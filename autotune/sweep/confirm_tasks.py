"""The second pass of a sweep: what its tables choose, measured again beside the strongest rivals in a fresh process."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Final, Self

from pega_tune.autotune.engine import Engine, SamplingLimits, TransferBlock
from pega_tune.autotune.sweep.choices import (
    Chosen,
    among,
    block_at,
    chosen_at,
    fallback,
    rivals,
    telling,
    worth_measuring,
)
from pega_tune.autotune.sweep.keys import confirm_key, is_idle
from pega_tune.autotune.sweep.learning import Learner
from pega_tune.autotune.sweep.observations import hint_of
from pega_tune.autotune.sweep.presets import ConfirmPreset
from pega_tune.autotune.sweep.recording import Measured, block_record
from pega_tune.autotune.sweep.serving_tasks import NothingToCompareError
from pega_tune.autotune.sweep.shapes import DIRECTIONS
from pega_tune.autotune.sweep.tasks import Task, one_after_another
from pega_tune.kernels.shape import Direction, TransferShape
from pega_tune.profiles.policy.terms import Hint
from pega_tune.profiles.store.records import BlockRecord

RIVALS: Final = 3
# Enough rounds that the best of one half can be timed on the other. Transfers of microseconds, which scatter by a third
# on an H200, get more.
LIMITS: Final = SamplingLimits(budget_s=0.1, min_rounds=14, max_rounds=100)

# For the estimate before anything has run; it is scaled by what blocks take. The start is that of a process, beside
# which the tables are compiled. Source: H200, 2026-12-01, a `standard` sweep of 8a39189.
START_S: Final = 4.0
BLOCK_S: Final = 0.23
CANONICAL_BLOCK_S: Final = 0.85  # of ranges that lie in a certain way, of which the largest shape is measured

# Past any number of processes that a preset runs finalists in.
_PROCESS: Final = 1000


@dataclass(frozen=True, slots=True)
class Confirmation:
    """A block of the second pass. Its shape and its candidates follow from the blocks of the first one.

    Attributes:
        direction: which way.
        hint: what is known of how the ranges lie.
        number: from 1; the canonical shape comes first.
        preset: how many shapes there are.
        seed: of the sweep.
        learner: compiles the first pass.
        start_s: for the estimate: seconds until the fresh process is there, unless the block before runs in it.
    """

    direction: Direction
    hint: Hint
    number: int
    preset: ConfirmPreset
    seed: int
    learner: Learner = field(compare=False, repr=False)
    start_s: float = 0.0

    @property
    def key(self) -> str:
        """Names it within its sweep."""
        return confirm_key(self.direction, self.number, self.hint)

    @property
    def process(self) -> int:
        """All of the second pass runs in one process of its own."""
        return _PROCESS

    @property
    def estimate_s(self) -> float:
        """Wall time that it should take, in seconds."""
        return self.start_s + (BLOCK_S if self.hint is Hint.NONE else CANONICAL_BLOCK_S)

    def after(self, before: Task | None, /) -> Self:
        """It starts the process of the second pass, if that is not there."""
        there = before is not None and before.process == self.process
        return replace(self, start_s=0.0 if there else START_S)

    def measure(self, engine: Engine, stored: Mapping[str, BlockRecord]) -> BlockRecord:
        """Runs it.

        Raises:
            NothingToCompareError: the first pass has no such shape.
            DeviceError: as `Engine.transfer`.
        """
        chosen = self._chosen(stored)
        block = self._block(chosen, stored[chosen.key])
        measurements = tuple(engine.transfer(block))
        measured = Measured(block, measurements, engine.conditions())
        return block_record(measured, engine.facts.identity.max_link)

    def _chosen(self, stored: Mapping[str, BlockRecord]) -> Chosen:
        policy = self.learner.learn(stored.values()).policy
        chosen = chosen_at(policy, {key: block.shape for key, block in stored.items() if is_idle(key)})
        counts = (self.preset.boundary, self.preset.middle) if self.hint is Hint.NONE else (0, 0)
        telltales = telling(among(chosen, self.direction, self.hint), *counts)
        if len(telltales) < self.number:
            raise NothingToCompareError(f"there is nothing to confirm: too few shapes were measured {self.direction}")
        return telltales[self.number - 1]

    def _block(self, chosen: Chosen, first: BlockRecord) -> TransferBlock:
        strongest = islice(rivals(first, chosen.plan), RIVALS)
        return block_at(chosen, self.key, (chosen.plan, *strongest, *fallback(first)), LIMITS, self.seed)


def plan_confirmation(
    measured: Iterable[TransferShape], preset: ConfirmPreset, seed: int, learner: Learner
) -> Iterator[Confirmation]:
    """The second pass of a sweep: shapes of each direction, and one of each layout, in both directions at once.

    Args:
        measured: the shapes of the first pass, each with what its layout tells.
        preset: how many of them to measure again.
        seed: of the sweep.
        learner: compiles the first pass.
    """
    available = Counter((shape.direction, hint_of(shape)) for shape in worth_measuring(measured))
    wanted = [(direction, Hint.NONE, preset.shapes) for direction in DIRECTIONS]
    wanted += [(Direction.BOTH, hint, 1) for hint in Hint if hint is not Hint.NONE]
    yield from one_after_another(
        Confirmation(direction, hint, number, preset, seed, learner)
        for direction, hint, most in wanted
        for number in range(1, min(most, available[direction, hint]) + 1)
    )
