"""What a sweep consists of: blocks that are measured one after another."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, Self, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from pega_tune.autotune.engine import Engine
    from pega_tune.profiles.store.records import BlockRecord


class Task(Protocol):
    """A block of a sweep, to be measured when those before it are."""

    @property
    def key(self) -> str:
        """Names it within its sweep."""

    @property
    def estimate_s(self) -> float:
        """Wall time that it should take, in seconds."""

    @property
    def process(self) -> int:
        """Number of the fresh process that it wants; 0 takes the one there is."""

    def after(self, before: Task | None, /) -> Self:
        """The same, with those starts in its estimate that are left to it: not what the block before it started.

        Args:
            before: measured last, in this run of the sweep; None if nothing was.
        """

    def measure(self, engine: Engine, stored: Mapping[str, BlockRecord], /) -> BlockRecord:
        """Measures it.

        Args:
            engine: what measures.
            stored: blocks of the sweep so far, by key.

        Returns:
            What is stored of it, without the wall time, which the caller knows.

        Raises:
            DeviceError: it cannot be measured.
        """


T = TypeVar("T", bound=Task)


def one_after_another(tasks: Iterable[T], before: Task | None = None) -> Iterator[T]:
    """The tasks in their order, each with the starts that are left to it."""
    for task in tasks:
        following = task.after(before)
        yield following
        before = following
