"""Whose tables answer a question, and which of them a shape: the one rule, whoever looks up."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Generic, TypeAlias, TypeVar

from pega_tune.kernels.shape import Direction
from pega_tune.profiles.policy.question import ALL_KNOWN, STRONGEST_FIRST
from pega_tune.profiles.policy.terms import Colocation, Hint, Runtime

DEFAULT_COLOCATION = Colocation.TIME_SLICED

TableKey: TypeAlias = tuple[Direction, Colocation, Runtime, Hint]

S = TypeVar("S")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Chain(Generic[T]):
    """Sources of answers, given what is known of how ranges lie.

    The first of `hinted` that covers a shape answers, else `plain`. But where `plain` does not know what its answer
    costs decode, the first of `lent` that covers the shape answers in its place: it knows no more of decode, but of the
    transfer. What was measured beside decode thus comes before what was measured without.

    Attributes:
        hinted: of the colocation, for ranges that lie in some way; the one that supposes most first.
        plain: of the colocation, however ranges lie.
        lent: measured without decode, of those hints that the colocation lacks; the one that supposes most first.
    """

    hinted: tuple[T, ...]
    plain: T
    lent: tuple[T, ...] = ()

    def __iter__(self) -> Iterator[T]:
        return iter((*self.hinted, self.plain, *self.lent))

    def map(self, made: Callable[[T], S]) -> "Chain[S]":
        """The chain of what is made of each."""
        return Chain(tuple(map(made, self.hinted)), made(self.plain), tuple(map(made, self.lent)))


@dataclass(frozen=True, slots=True)
class Answering(Generic[T]):
    """What answers a question.

    Attributes:
        colocation: whose tables do.
        by_hint: them; one of `Hint.NONE` is among them.
        lent: hints of those that are of the idle device, where the colocation is another.
    """

    colocation: Colocation
    by_hint: Mapping[Hint, T]
    lent: frozenset[Hint]


def answering(
    tables: Mapping[TableKey, T], direction: Direction, wanted: Colocation | None, runtime: Runtime
) -> Answering[T] | None:
    """What answers a question: tables of the colocation, else of the idle device; None leaves the rule.

    Args:
        tables: all of a profile.
        direction: as asked.
        wanted: the colocation that was asked for; None takes the default one.
        runtime: as asked.
    """
    for colocation in (wanted or DEFAULT_COLOCATION, Colocation.IDLE):
        own = _by_hint(tables, direction, colocation, runtime)
        if Hint.NONE in own:  # else there is nothing to fall back on
            idle = _by_hint(tables, direction, Colocation.IDLE, runtime)
            lent = {hint: table for hint, table in idle.items() if hint not in own}
            return Answering(colocation, own | lent, frozenset(lent))
    return None


def _by_hint(
    tables: Mapping[TableKey, T], direction: Direction, colocation: Colocation, runtime: Runtime
) -> dict[Hint, T]:
    keys = ((hint, (direction, colocation, runtime, hint)) for hint in Hint)
    return {hint: tables[key] for hint, key in keys if key in tables}


def chains(hints: Iterable[Hint], lent: frozenset[Hint] = frozenset()) -> tuple[Chain[Hint], ...]:
    """Where to look, by what is known of how ranges lie (the sums of `STRONGEST_FIRST`).

    Args:
        hints: of the tables that answer a question; `Hint.NONE` is among them.
        lent: which of them are.
    """
    own = frozenset(hints) - lent

    def known_among(known: int, those: frozenset[Hint]) -> tuple[Hint, ...]:
        return tuple(hint for bit, hint in STRONGEST_FIRST if known & bit and hint in those)

    return tuple(Chain(known_among(known, own), Hint.NONE, known_among(known, lent)) for known in range(ALL_KNOWN + 1))
