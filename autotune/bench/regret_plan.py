"""The blocks of a regret benchmark: what `Auto` takes at shapes that no sweep has seen, and all that may be better."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Final

from pega_tune.autotune.bench.batch import Entry
from pega_tune.autotune.bench.regret_shapes import HeldOut, held_out
from pega_tune.autotune.engine import Candidate, CandidateKind, Capabilities, SamplingLimits, TransferBlock
from pega_tune.autotune.static_rules import STATIC_RULES
from pega_tune.autotune.sweep.plans import CEILING, candidates, launched
from pega_tune.autotune.sweep.shapes import Memory
from pega_tune.errors import UsageError
from pega_tune.kernels.plan import AnyPlan, PlanPair, direct
from pega_tune.kernels.shape import Direction, TransferShape
from pega_tune.profiles.policy.auto import Auto
from pega_tune.profiles.policy.choose import DEFAULT_BUDGET
from pega_tune.profiles.policy.decision import Decision
from pega_tune.profiles.policy.terms import Colocation, Objective

AUTO: Final = "auto"
"""The rule that `Auto` is, among the rules that systems ship."""

MAX_COUNT: Final = 10_000

LIMITS: Final = SamplingLimits(
    budget_s=0.3, min_rounds=8, max_rounds=40, drop_after=2, drop_ratio=1.5, settled_width=0.01
)
"""Four rounds in each half at the least, and more where transfers are short. What is slower by half leaves after two
rounds, one of each half, or three: it is not the best, and its own regret needs no more."""

# What a block costs beside its rounds, as on an H200: see the estimates of a sweep.
_SETUP_S: Final = 0.02
_VERIFY_S: Final = 1e-3
_VERIFY_S_PER_BYTE: Final = 0.7e-9
_SECONDS_PER_BYTE: Final = 1 / 40e9
_LAUNCH_S: Final = 1e-3


@dataclass(frozen=True, slots=True)
class RegretRequest:
    """What to judge.

    Attributes:
        seed: of shapes, layouts, order and data.
        count: shapes of each direction.
        directions: which ways.
        shapes: of the user's, instead of held-out ones; those of other directions are passed over.
    """

    seed: int = 0
    count: int = 40
    directions: tuple[Direction, ...] = tuple(Direction)
    shapes: tuple[TransferShape, ...] = ()

    def __post_init__(self) -> None:
        if not 0 <= self.seed < 2**31:
            raise UsageError(f"a seed is 0 to 2^31 - 1, not {self.seed}")
        if not 1 <= self.count <= MAX_COUNT:
            raise UsageError(f"regret is measured at 1 to {MAX_COUNT:,} shapes, not {self.count}")
        if self.shapes and not self.chosen:
            raise UsageError(f"none of the shapes moves {' or '.join(self.directions)}")

    @property
    def chosen(self) -> tuple[HeldOut, ...]:
        """The shapes, one of each direction in turns, so that a part of them is as good a sample."""
        if self.shapes:
            return tuple(HeldOut.of_user(shape) for shape in self.shapes if shape.direction in self.directions)
        drawn = [tuple(islice(held_out(direction, self.seed), self.count)) for direction in self.directions]
        return tuple(one for turn in zip(*drawn, strict=True) for one in turn)


@dataclass(frozen=True, slots=True)
class PlannedShape:
    """A shape to judge `Auto` at.

    Attributes:
        held_out: the shape, and its layout.
        decision: what `Auto` answers.
        block: everything that is measured there.
        entries: the lines that come of it, `Auto`'s and one of each static rule among them; not the ceiling.
    """

    held_out: HeldOut
    decision: Decision
    block: TransferBlock
    entries: tuple[Entry, ...]

    @property
    def estimate_s(self) -> float:
        """Wall time that it should take, in seconds."""
        count, moved_bytes, limits = len(self.block.candidates), self.held_out.shape.moved_bytes, self.block.limits
        transfer_s = _LAUNCH_S + moved_bytes * _SECONDS_PER_BYTE
        rounds = min(limits.max_rounds, max(limits.min_rounds, limits.budget_s / (count * transfer_s)))
        verify_s = _VERIFY_S + _VERIFY_S_PER_BYTE * moved_bytes
        return _SETUP_S + count * (verify_s + transfer_s * rounds)


@dataclass(frozen=True, slots=True)
class RegretPlan:
    """What is going to be measured.

    Attributes:
        shapes: in the order of measuring.
        too_large: how many shapes the device or the host has too little memory for.
    """

    shapes: tuple[PlannedShape, ...]
    too_large: int

    @property
    def estimate_s(self) -> float:
        """Wall time that all of it should take, in seconds."""
        return sum(planned.estimate_s for planned in self.shapes)


def plan_regret(request: RegretRequest, auto: Auto, capabilities: Capabilities) -> RegretPlan:
    """One block per shape; shapes that memory is too small for are left out and counted."""
    memory = Memory(capabilities.device_bytes, capabilities.host_bytes)
    fitting = [one for one in request.chosen if not memory.lacks(one.shape)]
    shapes = tuple(_planned(one, request.seed, auto, capabilities) for one in fitting)
    return RegretPlan(shapes, len(request.chosen) - len(fitting))


def decide(
    auto: Auto,
    one: HeldOut,
    objective: Objective,
    colocation: Colocation = Colocation.IDLE,
    budget: float = DEFAULT_BUDGET,
) -> Decision:
    """What `Auto` answers, told all that is known of the ranges."""
    shape = one.shape
    return auto.decide(
        shape.merged_ranges,
        shape.total_bytes,
        shape.direction,
        objective=objective,
        budget=budget,
        colocation=colocation,
        host_runs=shape.host_runs,
        alignment=shape.alignment,
        pitch=shape.pitch,
    )


def rivals(auto: Auto, one: HeldOut, capabilities: Capabilities) -> Iterator[AnyPlan]:
    """What may be better than `Auto`'s choice: what it takes for other ends, and the plan space."""
    shape = one.shape
    for objective in Objective:
        for colocation in Colocation:
            yield decide(auto, one, objective, colocation).plan
        yield auto.decide(
            shape.merged_ranges, shape.total_bytes, shape.direction, objective=objective, colocation=Colocation.IDLE
        ).plan
    known = candidates(shape, capabilities, full=False, dense=True)
    yield from (candidate.plan for candidate in known if candidate.name != CEILING)


def static_plans(shape: TransferShape) -> Mapping[str, AnyPlan]:
    """What each rule that systems ship does with a shape."""
    return {rule.name: rule.plan(shape) for rule in STATIC_RULES}


def compared(
    choice: AnyPlan, others: Iterable[AnyPlan], shape: TransferShape
) -> tuple[tuple[Candidate, ...], tuple[Entry, ...]]:
    """Candidates, each launch once, and the entries that they measure.

    Args:
        choice: what `Auto` takes.
        others: plans to compare it with, beside the static rules.
        shape: what is moved.
    """
    first: dict[AnyPlan, Candidate] = {}
    entries = []
    for name, kind, plan in _named(choice, others, shape):
        launch = launched(plan, shape)
        known = launch in first
        candidate = first.setdefault(launch, Candidate(name, kind, plan))
        if not known or name == AUTO or kind is CandidateKind.STATIC:
            entries.append(Entry(name, kind, plan, candidate.name))
    return tuple(first.values()), tuple(entries)


def _named(
    choice: AnyPlan, others: Iterable[AnyPlan], shape: TransferShape
) -> Iterator[tuple[str, CandidateKind, AnyPlan]]:
    yield AUTO, CandidateKind.PLAN, choice
    for plan in dict.fromkeys(others):
        yield plan.key, CandidateKind.PLAN, plan
    for name, plan in static_plans(shape).items():
        yield name, CandidateKind.STATIC, plan


def _planned(one: HeldOut, seed: int, auto: Auto, capabilities: Capabilities) -> PlannedShape:
    decision, shape = decide(auto, one, Objective.THROUGHPUT), one.shape
    chosen, entries = compared(decision.plan, rivals(auto, one, capabilities), shape)
    whole = PlanPair(direct(), direct()) if shape.direction is Direction.BOTH else direct()
    ceiling = Candidate(CEILING, CandidateKind.CEILING, whole)
    block = TransferBlock(f"regret/{one.key}", shape, (ceiling, *chosen), LIMITS, seed, layout=one.layout)
    return PlannedShape(one, decision, block, entries)
