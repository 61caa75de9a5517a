"""How much a sweep measures: three sizes, by the wall time they take on a fast device."""

from dataclasses import dataclass, replace

from pega_tune.autotune.engine import SamplingLimits
from pega_tune.autotune.layouts import NamedLayout
from pega_tune.errors import UsageError
from pega_tune.profiles.policy.terms import Colocation

MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class SmallSurveys:
    """Surveys of transfers that copy engines, too, end within a period: what those cost decode is seen nowhere else.

    Attributes:
        counts: of each, in both directions at once: ranges, and bytes of one.
        candidates: most plans of each.
        rounds: segments of each plan.
    """

    counts: tuple[tuple[int, int], ...]
    candidates: int
    rounds: int


@dataclass(frozen=True, slots=True)
class ServingPreset:
    """How much a sweep measures beside decode.

    Attributes:
        colocations: where decode runs, unless the user says otherwise.
        layouts: of the first canonical shape, in both directions at once.
        candidates: most plans of a survey.
        bursts: in a segment.
        rounds: segments of each plan in a survey.
        finalists: plans that are measured again in fresh processes.
        final_rounds: their segments in each process.
        processes: how many fresh processes; 0 leaves it at the survey.
        small: surveys of other shapes, of shuffled ranges and without finalists; None for none.
    """

    colocations: tuple[Colocation, ...]
    layouts: tuple[NamedLayout, ...]
    candidates: int
    bursts: int
    rounds: int
    finalists: int = 0
    final_rounds: int = 0
    processes: int = 0
    small: SmallSurveys | None = None

    @property
    def of_small(self) -> "ServingPreset":
        """How much is measured of the small shapes."""
        if self.small is None:
            return self
        alone = replace(self, finalists=0, final_rounds=0, processes=0, small=None)
        return replace(alone, candidates=self.small.candidates, rounds=self.small.rounds)


@dataclass(frozen=True, slots=True)
class ConfirmPreset:
    """How much of a sweep is measured again in a fresh process, beside the canonical shape of each direction.

    Attributes:
        boundary: shapes of each direction where the plan changes from one to the next.
        middle: shapes where it does not.
    """

    boundary: int
    middle: int

    @property
    def shapes(self) -> int:
        """Shapes of each direction."""
        return 1 + self.boundary + self.middle


@dataclass(frozen=True, slots=True)
class Preset:
    """The size of a sweep.

    Attributes:
        name: as the user writes it.
        budget_s: wall time that measuring may take, in seconds.
        octaves: distance between neighbouring shapes, in octaves of ranges and of range size.
        sparse_bytes: of the lattice points of equal total bytes, from so many bytes per direction on, only every
            `stride`-th is measured, because one of them costs as much as ten small ones.
        stride: see there.
        max_total_bytes: most bytes per direction of a shape.
        full_shapes: how many of the canonical shapes get every axis of the plan space.
        dense: whether a full block crosses all grids with all thread counts.
        wide: whether the other blocks have more grids, too.
        hinted: whether ranges are measured in other layouts than shuffled ones at several shapes.
        limits: when one block stops.
        serving: what is measured beside decode.
        confirm: what is measured again, to tell whether it holds.
    """

    name: str
    budget_s: float
    octaves: int
    sparse_bytes: int
    stride: int
    max_total_bytes: int
    full_shapes: int
    dense: bool
    wide: bool
    hinted: bool
    limits: SamplingLimits
    serving: ServingPreset
    confirm: ConfirmPreset


_LAYOUTS = tuple(map(NamedLayout.parse, ("shuffled", "host-ordered", "strided")))
# On an H200 these take 1 and 5 ms by one command per range: two runs of that kind, from which its cost is known up to
# the longer one, of ranges no larger.
_SMALL = SmallSurveys(counts=((256, 16_384), (1024, 16_384)), candidates=4, rounds=3)
_BOTH_WAYS = (Colocation.TIME_SLICED, Colocation.SAME_CONTEXT)

# Each budget leaves 11 s or more of whole minutes: what an H200 takes to start, to compile the tables and to end.
PRESETS = (
    Preset(
        name="quick",
        budget_s=49.0,
        octaves=2,
        sparse_bytes=4 * MIB,
        stride=7,
        max_total_bytes=64 * MIB,
        full_shapes=1,
        dense=False,
        wide=False,
        hinted=False,
        limits=SamplingLimits(budget_s=0.15),
        serving=ServingPreset(_BOTH_WAYS[:1], _LAYOUTS[:1], candidates=3, bursts=25, rounds=4),
        confirm=ConfirmPreset(boundary=2, middle=0),
    ),
    Preset(
        name="standard",
        budget_s=285.0,
        octaves=2,
        sparse_bytes=16 * MIB,
        stride=5,
        max_total_bytes=256 * MIB,
        full_shapes=1,
        dense=True,
        wide=False,
        hinted=True,
        limits=SamplingLimits(budget_s=0.2),
        serving=ServingPreset(
            _BOTH_WAYS,
            _LAYOUTS,
            candidates=7,
            bursts=10,
            rounds=3,
            finalists=2,
            final_rounds=2,
            processes=5,
            small=_SMALL,
        ),
        confirm=ConfirmPreset(boundary=3, middle=2),
    ),
    Preset(
        name="thorough",
        budget_s=528.0,
        octaves=1,
        sparse_bytes=8 * MIB,
        stride=6,
        max_total_bytes=256 * MIB,
        full_shapes=2,
        dense=True,
        wide=True,
        hinted=True,
        limits=SamplingLimits(budget_s=0.5, min_rounds=9, max_rounds=60),
        serving=ServingPreset(
            _BOTH_WAYS,
            _LAYOUTS,
            candidates=12,
            bursts=10,
            rounds=4,
            finalists=2,
            final_rounds=2,
            processes=5,
            small=replace(_SMALL, candidates=5, rounds=4),
        ),
        confirm=ConfirmPreset(boundary=3, middle=2),
    ),
)


def find_preset(name: str) -> Preset:
    """The preset called `name`.

    Raises:
        UsageError: there is none.
    """
    for preset in PRESETS:
        if preset.name == name:
            return preset
    raise UsageError(f"there is no preset {name!r}", f"choose one of: {', '.join(p.name for p in PRESETS)}")
