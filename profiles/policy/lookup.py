"""The tables of a profile, made ready for the questions that are asked of them.

Objective, budget, period and step are applied here: the answers to one question are made as they are asked for, and
kept for the next time (see `grid` on threads). So many questions are kept at most; one more, and all are forgotten.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from pega_tune.kernels.shape import Direction, TransferShape
from pega_tune.profiles.policy.answer import RULE_FRAME, RuleAnswers, TableAnswers, frame_of
from pega_tune.profiles.policy.decision import Decision, Origin
from pega_tune.profiles.policy.grid import Axes, Cells, Frame, Grid, Source, chains
from pega_tune.profiles.policy.question import Question, Words, known_of
from pega_tune.profiles.policy.table import Table
from pega_tune.profiles.policy.terms import Colocation, Hint, Runtime

DEFAULT_COLOCATION = Colocation.TIME_SLICED
MAX_QUESTIONS = 64

Grids: TypeAlias = tuple[Grid, ...]
"""Answers to a question, by what is known of how ranges lie (the sums of `question.STRONGEST_FIRST`)."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Frames that answer together, whatever is asked.

    Attributes:
        frames: by hint.
        chains: by what is known, the hints to look at.
        axes: of each chain.
    """

    frames: Mapping[Hint, Frame]
    chains: tuple[tuple[Hint, ...], ...]
    axes: Mapping[tuple[Hint, ...], Axes]

    @classmethod
    def over(cls, frames: Mapping[Hint, Frame]) -> "Layout":
        """That of the frames; one of `Hint.NONE` is among them."""
        known = chains(frames)
        return cls(frames, known, {chain: Axes.of([frames[hint] for hint in chain]) for chain in set(known)})

    def grids(self, sources: Mapping[Hint, Source]) -> Grids:
        """Answers of the sources, none made yet."""
        cells = {hint: Cells(source) for hint, source in sources.items()}
        grids = {chain: Grid(tuple(cells[hint] for hint in chain), axes) for chain, axes in self.axes.items()}
        return tuple(grids[chain] for chain in self.chains)


RULE_LAYOUT = Layout.over({Hint.NONE: RULE_FRAME})


class Lookup:
    """What a profile, or without one the rule, answers.

    Attributes:
        answers: those made so far, by question.
    """

    __slots__ = ("_layouts", "_origin", "_tables", "_warnings", "answers")

    def __init__(self, tables: tuple[Table, ...], origin: Origin, warnings: tuple[str, ...]) -> None:
        """Takes tables of one profile.

        Args:
            tables: its tables.
            origin: the profile; that of the rule if there is none.
            warnings: what may be wrong with every answer.
        """
        self.answers: dict[Words, Grids] = {}
        self._origin = origin
        self._warnings = warnings
        self._tables: dict[tuple[Direction, Colocation, Runtime], dict[Hint, Table]] = {}
        for table in tables:
            self._tables.setdefault((table.direction, table.colocation, table.runtime), {})[table.hint] = table
        self._layouts = {
            key: Layout.over({hint: frame_of(table) for hint, table in by_hint.items()})
            for key, by_hint in self._tables.items()
            if Hint.NONE in by_hint  # else there is nothing to fall back on
        }

    def ask(self, words: Words, shape: TransferShape) -> Decision:
        """The answer for a shape.

        Raises:
            QuestionError: the words or the shape make no sense.
        """
        ranges, size = shape.merged_ranges, shape.average_range_bytes
        known = known_of(ranges, size, shape.host_runs, shape.alignment, shape.pitch)
        return self.prepared(words)[known].answer(ranges, size)

    def prepared(self, words: Words) -> Grids:
        """The answers to a question, whatever the shape.

        Raises:
            QuestionError: the words make no sense.
        """
        question = Question.parse(words)
        answers = self.answers.get(words)
        if answers is None:
            answers = self._grids(question)
            if len(self.answers) >= MAX_QUESTIONS:
                self.answers.clear()
            self.answers[words] = answers
        return answers

    def _grids(self, question: Question) -> Grids:
        if self._origin.profile_id is None:
            return RULE_LAYOUT.grids({Hint.NONE: RuleAnswers(question, self._warnings)})
        direction, runtime, warnings = question.direction, question.runtime, self._warnings
        wanted = question.colocation or DEFAULT_COLOCATION
        key = (direction, wanted, runtime)
        if key not in self._layouts:
            key = (direction, Colocation.IDLE, runtime)
            if key not in self._layouts:
                missing = f"the profile has no table for {direction}, {runtime}: the rule answers"
                return RULE_LAYOUT.grids({Hint.NONE: RuleAnswers(question, (*warnings, missing))})
            warnings += (f"{wanted} was not measured: what was measured without decode (idle) answers",)
        layout = self._layouts[key]
        return layout.grids(
            {
                hint: TableAnswers(question, table, layout.frames[hint], self._origin, warnings)
                for hint, table in self._tables[key].items()
            }
        )
