"""How much slower `Auto` is than the best plan at shapes no sweep has seen, beside every rule that systems ship."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from statistics import median

from pega_tune.autotune.bench.batch import Entry
from pega_tune.autotune.bench.regret_plan import AUTO, PlannedShape, RegretPlan
from pega_tune.autotune.bench.regret_statistics import Halves, Spread, cross_regret, noise_floor
from pega_tune.autotune.engine import CandidateKind, Engine, MemoryLimitError, Status
from pega_tune.autotune.layouts import LayoutKind
from pega_tune.autotune.measuring.cells import collect, flags_of
from pega_tune.autotune.static_rules import STATIC_RULES
from pega_tune.autotune.sweep.observations import transfer_samples
from pega_tune.autotune.sweep.plans import CEILING
from pega_tune.kernels.plan import AnyPlan
from pega_tune.kernels.shape import Direction
from pega_tune.profiles.store.records import BlockFlag, CellRecord


@dataclass(frozen=True, slots=True)
class Row:
    """One entry, measured.

    Attributes:
        name, kind, plan: as in `Entry`.
        status, detail: of its cell.
        same_as: the entry that it was measured with, because both launch the same; None if it was measured itself.
        halves: its times; None if it has not been timed in both halves of the rounds.
        time_s: median transfer time over all rounds, in seconds; None if it was not timed.
        rounds: times that it was timed.
    """

    name: str
    kind: CandidateKind
    plan: AnyPlan
    status: str
    detail: str
    same_as: str | None
    halves: Halves | None
    time_s: float | None
    rounds: int


@dataclass(frozen=True, slots=True)
class ShapeResult:
    """A measured shape.

    Attributes:
        planned: what was to be measured.
        rows: its entries.
        ceiling_s: median time of one contiguous copy per direction, in seconds; None if it was not timed.
        flags: what was wrong while it ran.
    """

    planned: PlannedShape
    rows: tuple[Row, ...]
    ceiling_s: float | None
    flags: tuple[BlockFlag, ...]

    @property
    def contenders(self) -> tuple[Halves, ...]:
        """The times of everything that may be the best."""
        return tuple(row.halves for row in self.rows if row.halves is not None)

    @property
    def floor(self) -> float | None:
        """As `noise_floor`; None if nothing was timed."""
        return noise_floor(self.contenders) if self.contenders else None

    @property
    def best(self) -> Row | None:
        """The fastest over all rounds; None if nothing was timed."""
        timed = [row for row in self.rows if row.time_s is not None]
        return min(timed, key=lambda row: row.time_s or 0.0) if timed else None

    def row(self, name: str) -> Row:
        """The entry of that name, which may be `auto` or a static rule."""
        return next(row for row in self.rows if row.name == name)

    def regret(self, name: str) -> float | None:
        """As `cross_regret`; None if the entry could not be timed."""
        halves = self.row(name).halves
        return None if halves is None else cross_regret(halves, self.contenders)


@dataclass(frozen=True, slots=True)
class RuleRegret:
    """A rule over all shapes; None if it could be timed at none."""

    rule: str
    spread: Spread | None


@dataclass(frozen=True, slots=True)
class Summary:
    """Regrets over shapes.

    Attributes:
        floor: of the noise; None without a measured shape.
        rows: `auto`, then the static rules, the best first.
        untimed: shapes at which what `Auto` took could not be timed.
    """

    floor: Spread | None
    rows: tuple[RuleRegret, ...]
    untimed: int


@dataclass(frozen=True, slots=True)
class RegretResult:
    """All that was measured.

    Attributes:
        shapes: one by one.
        too_large: shapes that memory was too small for.
        too_late: shapes for which no time was left.
    """

    shapes: tuple[ShapeResult, ...]
    too_large: int
    too_late: int

    def summary(self, direction: Direction | None = None, kind: LayoutKind | None = None) -> Summary:
        """Of one direction or of all, in layouts of one kind or of all."""
        return summarise(
            [
                shape
                for shape in self.shapes
                if direction in (None, shape.planned.held_out.shape.direction)
                and kind in (None, shape.planned.held_out.layout.kind)
            ]
        )

    @property
    def kinds(self) -> tuple[LayoutKind, ...]:
        """The layouts that there are."""
        return tuple(dict.fromkeys(shape.planned.held_out.layout.kind for shape in self.shapes))


def measure_all(
    plan: RegretPlan,
    engine: Engine,
    within_s: float,
    done: Callable[[PlannedShape], None],
    clock: Callable[[], float] = time.monotonic,
) -> RegretResult:
    """Measures shape after shape, and begins none when the time is up.

    Args:
        plan: what to measure.
        engine: what measures.
        within_s: seconds after which nothing is begun.
        done: called after each shape.
        clock: in seconds.

    Raises:
        DeviceError: the engine cannot go on.
    """
    end_s = clock() + within_s
    found: list[ShapeResult] = []
    refused = late = 0
    for planned in plan.shapes:
        if clock() >= end_s:
            late += 1
            continue
        try:
            found.append(measure(planned, engine))
        except MemoryLimitError:  # less is free now than when the engine started
            refused += 1
        done(planned)
    return RegretResult(tuple(found), plan.too_large + refused, late)


def measure(planned: PlannedShape, engine: Engine) -> ShapeResult:
    """Measures one shape.

    Raises:
        DeviceError: as `Engine.transfer`.
    """
    block = planned.block
    cells = {cell.name: cell for cell in collect(block, tuple(engine.transfer(block)))}
    rows = tuple(_row(entry, cells[entry.candidate]) for entry in planned.entries)
    flags = flags_of(engine.conditions(), engine.facts.identity.max_link)
    ceiling = transfer_samples(cells[CEILING])
    return ShapeResult(planned, rows, median(ceiling) if ceiling else None, flags)


def summarise(shapes: Sequence[ShapeResult]) -> Summary:
    """The regret of `Auto` and of every static rule over shapes."""
    regrets = {name: [r for shape in shapes if (r := shape.regret(name)) is not None] for name in _rules()}
    floors = [floor for shape in shapes if (floor := shape.floor) is not None]
    return Summary(Spread.of(floors), _ranked(regrets), len(shapes) - len(regrets[AUTO]))


def _rules() -> tuple[str, ...]:
    return (AUTO, *(rule.name for rule in STATIC_RULES))


def _ranked(regrets: Mapping[str, Sequence[float]]) -> tuple[RuleRegret, ...]:
    rows = [RuleRegret(name, Spread.of(found)) for name, found in regrets.items()]
    return tuple(sorted(rows, key=lambda row: (row.rule != AUTO, inf if row.spread is None else row.spread.mean)))


def _row(entry: Entry, cell: CellRecord) -> Row:
    # A cell that failed may have been timed before.
    samples = transfer_samples(cell) if cell.status == Status.OK else ()
    return Row(
        name=entry.name,
        kind=entry.kind,
        plan=entry.plan,
        status=cell.status,
        detail=cell.detail,
        same_as=None if entry.candidate == entry.name else entry.candidate,
        halves=Halves.of(samples),
        time_s=median(samples) if samples else None,
        rounds=len(samples),
    )
