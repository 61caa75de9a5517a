"""Questions whose answers `Auto` gives while a file is written, and the file when it checks itself."""

from collections.abc import Iterator, Sequence
from itertools import cycle

from pega_tune.kernels.plan import PlanPair
from pega_tune.kernels.shape import MAX_BYTES, Direction
from pega_tune.profiles.emit.listing import Ints, Vectors
from pega_tune.profiles.emit.pool import Pool, place
from pega_tune.profiles.policy.answer import RULE_FRAME, Chosen, frame_of
from pega_tune.profiles.policy.auto import Auto
from pega_tune.profiles.policy.chain import answering
from pega_tune.profiles.policy.choose import DEFAULT_BUDGET, DEFAULT_PERIOD_S
from pega_tune.profiles.policy.decision import Decision
from pega_tune.profiles.policy.grid import Frame
from pega_tune.profiles.policy.question import RANGES_PER_RUN
from pega_tune.profiles.policy.stored import StoredProfile
from pega_tune.profiles.policy.table import Table, centres
from pega_tune.profiles.policy.terms import Colocation, Hint, Objective, Runtime

TERMS = ((DEFAULT_BUDGET, DEFAULT_PERIOD_S, None), (0.02, 0.02, 0.005), (0.5, 1.0, 0.02))
"""Budget, period_s and step_s that are asked for, one after the other."""

Shape = tuple[int, int, int, int]
"""Merged ranges, total bytes, host runs and pitch; 0 where not known."""


def edge_shapes(frame: Frame, hint: Hint = Hint.NONE) -> Iterator[Shape]:
    """Shapes at every edge -1, 0 and +1, of the cells and of what was measured, that a hint's table is asked for."""
    ranges, sizes = _middle(frame.range_edges, frame.ranges), _middle(frame.size_edges, frame.sizes)
    nbytes = frame.nbytes
    pairs = [(edge, _beside(edge, sizes, frame.sizes, nbytes)) for edge in _around(*frame.range_edges, *frame.ranges)]
    pairs += [(_beside(edge, ranges, frame.ranges, nbytes), edge) for edge in _around(*frame.size_edges, *frame.sizes)]
    pairs += [(1, total) for total in _around(*frame.nbytes)]
    pairs += [(ranges, total // ranges + more) for total in frame.nbytes for more in (-1, 0, 1)]
    for count, size in pairs:
        for total_bytes in {count * size, count * size + count - 1}:  # both ends of the same average
            if 1 <= count <= total_bytes <= MAX_BYTES:
                yield count, total_bytes, *_layout(hint, count, size)


def _around(*edges: int) -> Iterator[int]:
    return (edge + step for edge in dict.fromkeys(edges) for step in (-1, 0, 1) if edge + step)


def _middle(edges: Ints, measured: Ints) -> int:
    """A value inside what was measured, and in the midst of its cell if there is one."""
    low, high = measured
    inside = [centre for centre in centres(edges) if low <= centre <= high]
    return inside[len(inside) // 2] if inside else low


def _beside(edge: int, middle: int, measured: Ints, nbytes: Ints) -> int:
    """The value nearest to a middle that was measured beside an edge; the middle itself if none was."""
    low, high = max(measured[0], -(-nbytes[0] // edge)), min(measured[1], nbytes[1] // edge)
    return min(max(middle, low), high) if low <= high else middle


def _layout(hint: Hint, count: int, size: int) -> tuple[int, int]:
    if hint is Hint.STRIDED:
        return 0, size + 1
    if hint is Hint.HOST_RUNS:
        return max(1, count // RANGES_PER_RUN), 0
    return int(hint is Hint.HOST_ORDERED), 0


def _answering(profile: StoredProfile) -> Iterator[tuple[Table, Colocation]]:
    """The tables of a profile, and the colocations in which they are asked: their own, and those they are lent to."""
    tables = {(t.direction, t.colocation, t.runtime, t.hint): t for t in profile.policy.tables}
    for (direction, colocation, runtime, hint), table in tables.items():
        yield table, colocation
        if hint is Hint.NONE:
            found = answering(tables, direction, colocation, runtime)
            assert found
            yield from ((found.by_hint[lent], colocation) for lent in Hint if lent in found.lent)


class VectorMaker:
    """Asks, and tells answers by the places of things in a pool."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._questions: dict[Ints, int] = {}
        self._shapes: list[Ints] = []

    def vectors(self, profiles: Sequence[StoredProfile], runtime: Runtime | None) -> Vectors:
        """Those for every table of the profiles, and for the rule."""
        for index, profile in enumerate(profiles):
            auto = Auto.from_profile(profile)
            for table, colocation in _answering(profile):
                if runtime in (None, table.runtime):
                    self._ask_table(index, auto, table, colocation)
            self._ask_rule(index, auto, runtime)
        rows = tuple(question[:5] for question in self._questions)
        terms = tuple(TERMS[question[5]] for question in self._questions)
        return Vectors(rows, tuple((b, p, s or 0.0) for b, p, s in terms), tuple(self._shapes))

    def _ask_table(self, profile: int, auto: Auto, table: Table, colocation: Colocation) -> None:
        key = (place(table.direction, Direction), place(colocation, Colocation), place(table.runtime, Runtime))
        self._ask(profile, auto, key, edge_shapes(frame_of(table), table.hint))

    def _ask_rule(self, profile: int, auto: Auto, only: Runtime | None) -> None:
        """With the colocation left to the profile, which answers what it can."""
        for direction in range(len(Direction)):
            for at, runtime in enumerate(Runtime):
                if only in (None, runtime):
                    self._ask(profile, auto, (direction, -1, at), edge_shapes(RULE_FRAME))

    def _ask(self, profile: int, auto: Auto, key: tuple[int, int, int], shapes: Iterator[Shape]) -> None:
        direction, colocation, runtime = key
        asked = cycle((objective, terms) for terms in range(len(TERMS)) for objective in range(len(Objective)))
        for shape, (objective, terms) in zip(shapes, asked, strict=False):
            question = (profile, direction, objective, colocation, runtime, terms)
            budget, period_s, step_s = TERMS[terms]
            ranges, total_bytes, runs, pitch = shape
            decision = auto.decide(
                ranges,
                total_bytes,
                list(Direction)[direction],
                objective=list(Objective)[objective],
                budget=budget,
                period_s=period_s,
                step_s=step_s,
                colocation=None if colocation < 0 else list(Colocation)[colocation],
                runtime=list(Runtime)[runtime],
                host_runs=runs or None,
                pitch=pitch or None,
            )
            number = self._questions.setdefault(question, len(self._questions))
            self._shapes.append((number, *shape, *self._answer(decision)))

    def _answer(self, decision: Decision) -> Ints:
        measured = decision.predicted_for is not None
        words = place(decision.colocation, Colocation), place(decision.hint, Hint)
        return self._option(decision), int(measured), int(decision.budget_met), *words

    def _option(self, decision: Decision) -> int:
        basis, plan = decision.basis, decision.plan
        if isinstance(basis, Chosen):
            return self._pool.add_option(basis.choice.option)
        return self._pool.add_rule(plan.load if isinstance(plan, PlanPair) else plan)
