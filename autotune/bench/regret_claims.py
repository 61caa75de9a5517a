"""Bursts beside decode that no sweep has seen, and what `Auto` claims of them."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final

from pega_tune.autotune.bench.regret_plan import decide
from pega_tune.autotune.bench.regret_shapes import HeldOut, held_out
from pega_tune.autotune.engine import Capabilities
from pega_tune.autotune.sweep.shapes import Memory
from pega_tune.errors import UsageError
from pega_tune.kernels.shape import Direction, TransferShape
from pega_tune.profiles.policy.auto import Auto
from pega_tune.profiles.policy.choose import DEFAULT_BUDGET
from pega_tune.profiles.policy.decision import Decision
from pega_tune.profiles.policy.terms import Colocation, Objective

MAX_CLAIMS: Final = 1000
CLAIMS_PER_REST: Final = 4
"""Bursts with a claim for each that is measured without one."""

_DRAWS: Final = 50  # per claim that is wanted, after which there are not so many
_BURST_S: Final = 16.0  # wall time of one burst's blocks, about
_DECODE_START_S: Final = 7.0


@dataclass(frozen=True, slots=True)
class ClaimsRequest:
    """What to check.

    Attributes:
        seed: of shapes, layouts, order and data.
        count: bursts of which `Auto` claims that it keeps the budget; a quarter as many of which it does not.
        direction: which way.
        shapes: of the user's, instead of held-out ones, whatever is claimed; those of other directions are passed over.
        colocation: where decode runs.
        budget: stall per burst, as a fraction of a decode step.
    """

    seed: int = 0
    count: int = 20
    direction: Direction = Direction.BOTH
    shapes: tuple[TransferShape, ...] = ()
    colocation: Colocation = Colocation.TIME_SLICED
    budget: float = DEFAULT_BUDGET

    def __post_init__(self) -> None:
        if not 0 <= self.seed < 2**31:
            raise UsageError(f"a seed is 0 to 2^31 - 1, not {self.seed}")
        if not 1 <= self.count <= MAX_CLAIMS:
            raise UsageError(f"1 to {MAX_CLAIMS:,} claims are checked, not {self.count}")
        if self.colocation is Colocation.IDLE:
            raise UsageError("on an idle device there is no decode to stall", "name another colocation")
        if self.shapes and not any(shape.direction is self.direction for shape in self.shapes):
            raise UsageError(f"none of the shapes moves {self.direction}")


@dataclass(frozen=True, slots=True)
class Burst:
    """A burst, and what `Auto` says of it.

    Attributes:
        held_out: its shape and layout.
        decision: `Auto`'s answer.
    """

    held_out: HeldOut
    decision: Decision


@dataclass(frozen=True, slots=True)
class ClaimsPlan:
    """What is going to be measured.

    Attributes:
        request: what was asked for.
        bursts: in the order of measuring.
        too_large: how many that were drawn memory is too small for.
        drawn: how many there were to ask `Auto` about.
    """

    request: ClaimsRequest
    bursts: tuple[Burst, ...]
    too_large: int
    drawn: int

    @property
    def claims(self) -> int:
        """Bursts of which `Auto` claims that it keeps the budget; of all that were drawn, if there are not enough."""
        return sum(burst.decision.budget_met for burst in self.bursts)

    @property
    def is_short(self) -> bool:
        """Whether there are fewer claims than were to be checked."""
        return not self.request.shapes and self.claims < self.request.count

    @property
    def estimate_s(self) -> float:
        """Wall time that all of it should take, in seconds."""
        return _DECODE_START_S + _BURST_S * len(self.bursts)


def plan_claims(request: ClaimsRequest, auto: Auto, capabilities: Capabilities) -> ClaimsPlan:
    """Draws bursts until there are enough of which `Auto` claims something; of the others it takes the first few."""
    memory = Memory(capabilities.device_bytes, capabilities.host_bytes)
    if request.shapes:
        mine = [HeldOut.of_user(shape) for shape in request.shapes if shape.direction is request.direction]
        fitting = [one for one in mine if not memory.lacks(one.shape)]
        bursts = tuple(map(_asker(request, auto), fitting))
        return ClaimsPlan(request, bursts, len(mine) - len(fitting), len(fitting))
    drawn = list(islice(held_out(request.direction, request.seed), _DRAWS * request.count))
    fitting = [one for one in drawn if not memory.lacks(one.shape)]
    return ClaimsPlan(request, tuple(_sampled(request, map(_asker(request, auto), fitting))), 0, len(fitting))


def _asker(request: ClaimsRequest, auto: Auto) -> Callable[[HeldOut], Burst]:
    def ask(one: HeldOut) -> Burst:
        return Burst(one, decide(auto, one, Objective.TAIL_BOUNDED, request.colocation, request.budget))

    return ask


def _sampled(request: ClaimsRequest, bursts: Iterable[Burst]) -> Iterator[Burst]:
    """Claims first, so that they are there if time is short."""
    wanted = max(1, request.count // CLAIMS_PER_REST)
    claims, rest = 0, list[Burst]()
    for burst in bursts:
        if not burst.decision.budget_met:
            rest.append(burst)
        elif claims < request.count:
            claims += 1
            yield burst
        if claims == request.count and len(rest) >= wanted:
            break
    yield from rest[:wanted]
