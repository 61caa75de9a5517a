"""What can be asked of a look-up: checked here, whoever asks."""

from dataclasses import dataclass
from operator import index
from typing import SupportsIndex, TypeAlias, TypedDict

from pega_tune.kernels.shape import Direction
from pega_tune.profiles.policy.choose import DEFAULT_BUDGET, DEFAULT_PERIOD_S, Demand
from pega_tune.profiles.policy.errors import QuestionError
from pega_tune.profiles.policy.terms import Colocation, Hint, Objective, Runtime, parse_word

Words: TypeAlias = tuple[str, str, float, float, float | None, str | None, str]
"""A question as it is asked: direction, objective, budget, period_s, step_s, colocation, runtime."""

ALIGNMENTS = frozenset((1, 2, 4, 8, 16))
RANGES_PER_RUN = 16  # from so many ranges per host run on, the tables of `Hint.HOST_RUNS` hold

MANY_PER_RUN, ONE_RUN, PITCH = 1, 2, 4
"""What is known of how ranges lie; the sum is what is known in all, from 0 to `ALL_KNOWN`."""
ALL_KNOWN = MANY_PER_RUN + ONE_RUN + PITCH

STRONGEST_FIRST = ((PITCH, Hint.STRIDED), (ONE_RUN, Hint.HOST_ORDERED), (MANY_PER_RUN, Hint.HOST_RUNS))
"""What has to be known for the tables of a hint to hold."""


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked, whatever the shape, in checked words.

    Attributes:
        direction: which way.
        demand: what is asked of the plan.
        colocation: where decode runs; None leaves it to the profile.
        runtime: which plans the caller can run.
    """

    direction: Direction
    demand: Demand
    colocation: Colocation | None
    runtime: Runtime

    @classmethod
    def parse(cls, words: Words) -> "Question":
        """The question that the words ask.

        Raises:
            QuestionError: an unknown word, or a number out of its range.
        """
        direction, objective, budget, period_s, step_s, colocation, runtime = words
        return cls(
            parse_word(Direction, direction),
            Demand(parse_word(Objective, objective), budget, period_s, step_s),
            None if colocation is None else parse_word(Colocation, colocation),
            parse_word(Runtime, runtime),
        )


class Terms(TypedDict, total=False):
    """The keywords of a look-up that hold for every shape; what is left out has its default."""

    objective: str
    budget: float
    period_s: float
    step_s: float | None
    colocation: str | None
    runtime: str


class Asked(Terms, total=False):
    """All keywords of a look-up."""

    host_runs: int | None
    alignment: int | None
    pitch: int | None


def words_of(direction: str, terms: Terms) -> Words:
    """The words of a question, in their order."""
    return (
        direction,
        terms.get("objective", Objective.BALANCED),
        terms.get("budget", DEFAULT_BUDGET),
        terms.get("period_s", DEFAULT_PERIOD_S),
        terms.get("step_s"),
        terms.get("colocation"),
        terms.get("runtime", Runtime.FULL),
    )


def whole(name: str, value: SupportsIndex) -> int:
    """A count as it was given, if it is a whole number.

    Raises:
        QuestionError: it is none; True and False are none either.
    """
    try:
        if not isinstance(value, bool):
            return index(value)
    except TypeError:
        pass
    raise QuestionError(f"{name} is a whole number, not {value!r}")


def known_of(
    merged_ranges: int, average_range_bytes: int, host_runs: int | None, alignment: int | None, pitch: int | None
) -> int:
    """What is known of how the ranges of a shape lie: a sum of the constants above. The counts are checked already.

    Raises:
        QuestionError: it cannot be.
    """
    known = 0
    if host_runs is not None:
        if not 1 <= host_runs <= merged_ranges:
            raise QuestionError(f"host runs are 1 to the number of ranges, not {host_runs}")
        if merged_ranges >= RANGES_PER_RUN * host_runs:
            known = MANY_PER_RUN
        if host_runs == 1:
            known += ONE_RUN
    if pitch is not None:
        if pitch < average_range_bytes:
            raise QuestionError(f"pitch is at least the size of a range, {average_range_bytes} bytes, not {pitch}")
        known += PITCH
    if alignment is not None and alignment not in ALIGNMENTS:
        raise QuestionError(f"alignment is one of {', '.join(map(str, sorted(ALIGNMENTS)))}, not {alignment}")
    return known
