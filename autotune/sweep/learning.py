"""What a sweep has learnt so far, compiled once for all who ask."""

from collections.abc import Iterable

from pega_tune.autotune.sweep.keys import confirms
from pega_tune.autotune.sweep.policy import Learnt, compile_policy
from pega_tune.profiles.store.records import BlockRecord


class Learner:
    """Compiles the blocks of a sweep's first pass, anew only when there are others."""

    def __init__(self) -> None:
        self._keys: frozenset[str] | None = None
        self._learnt: Learnt | None = None

    def learn(self, blocks: Iterable[BlockRecord]) -> Learnt:
        """What the blocks teach; those of the second pass are left out. Blocks of one sweep are told by their keys."""
        first = [block for block in blocks if not confirms(block.key)]
        keys = frozenset(block.key for block in first)
        if self._learnt is None or keys != self._keys:
            self._keys, self._learnt = keys, compile_policy(first)
        return self._learnt
