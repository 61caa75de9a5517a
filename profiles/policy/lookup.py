"""The tables of a profile, made ready for the questions that are asked of them.

Objective, budget, period and step are applied here: the answers to one question are made as they are asked for, and
kept for the next time (see `grid` on threads). So many questions are kept at most; one more, and all are forgotten.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from pega_tune.kernels.shape import Direction, TransferShape
from pega_tune.profiles.policy.answer import RULE_FRAME, RuleAnswers, TableAnswers, frame_of
from pega_tune.profiles.policy.chain import DEFAULT_COLOCATION, Answering, Chain, TableKey, answering, chains
from pega_tune.profiles.policy.decision import Decision, Origin
from pega_tune.profiles.policy.grid import Axes, Cells, Frame, Grid, Source
from pega_tune.profiles.policy.question import Question, Words, known_of
from pega_tune.profiles.policy.table import Table
from pega_tune.profiles.policy.terms import Colocation, Hint, Runtime

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
    chains: tuple[Chain[Hint], ...]
    axes: Mapping[Chain[Hint], Axes]

    @classmethod
    def over(cls, frames: Mapping[Hint, Frame], lent: frozenset[Hint] = frozenset()) -> "Layout":
        """That of the frames; one of `Hint.NONE` is among them."""
        known = chains(frames, lent)
        return cls(frames, known, {chain: Axes.of([frames[hint] for hint in chain]) for chain in set(known)})

    @classmethod
    def of(cls, found: Answering[Table]) -> "Layout":
        """That of the tables that answer a question."""
        return cls.over({hint: frame_of(table) for hint, table in found.by_hint.items()}, found.lent)

    def grids(self, sources: Mapping[Hint, Source]) -> Grids:
        """Answers of the sources, none made yet."""
        cells = {hint: Cells(source) for hint, source in sources.items()}
        grids = {chain: Grid(chain.map(cells.__getitem__), axes) for chain, axes in self.axes.items()}
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
        self._tables: dict[TableKey, Table] = {(t.direction, t.colocation, t.runtime, t.hint): t for t in tables}
        self._layouts: dict[tuple[Direction, Colocation, Runtime], Layout] = {}

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
        found = answering(self._tables, question.direction, question.colocation, question.runtime)
        if found is None:
            missing = f"the profile has no table for {question.direction}, {question.runtime}: the rule answers"
            return RULE_LAYOUT.grids({Hint.NONE: RuleAnswers(question, (*self._warnings, missing))})
        key = (question.direction, found.colocation, question.runtime)
        layout = self._layouts.get(key) or self._layouts.setdefault(key, Layout.of(found))
        sources = {
            hint: self._source(question, table, layout.frames[hint], hint in found.lent)
            for hint, table in found.by_hint.items()
        }
        return layout.grids(sources)

    def _source(self, question: Question, table: Table, frame: Frame, lent: bool) -> TableAnswers:
        wanted = question.colocation or DEFAULT_COLOCATION
        warnings = self._warnings
        if table.colocation is not wanted:
            what = f" with ranges that lie so ({table.hint})" if lent else ""
            warnings += (f"{wanted} was not measured{what}: what was measured without decode (idle) answers",)
        return TableAnswers(question, table, frame, self._origin, warnings, lent)
