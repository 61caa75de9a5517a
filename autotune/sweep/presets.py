"""How much a sweep measures: three sizes, by the wall time they take on a fast device."""

from dataclasses import dataclass

from pega_tune.autotune.engine import SamplingLimits
from pega_tune.autotune.layouts import NamedLayout
from pega_tune.errors import UsageError
from pega_tune.profiles.policy.terms import Colocation

MIB = 1 << 20


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
    """

    colocations: tuple[Colocation, ...]
    layouts: tuple[NamedLayout, ...]
    candidates: int
    bursts: int
    rounds: int
    finalists: int = 0
    final_rounds: int = 0
    processes: int = 0


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
        limits: when one block stops.
        serving: what is measured beside decode.
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
    limits: SamplingLimits
    serving: ServingPreset


_LAYOUTS = tuple(map(NamedLayout.parse, ("shuffled", "host-ordered", "strided")))
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
        limits=SamplingLimits(budget_s=0.15),
        serving=ServingPreset(_BOTH_WAYS[:1], _LAYOUTS[:1], candidates=3, bursts=25, rounds=4),
    ),
    Preset(
        name="standard",
        budget_s=288.0,
        octaves=2,
        sparse_bytes=16 * MIB,
        stride=5,
        max_total_bytes=256 * MIB,
        full_shapes=1,
        dense=True,
        wide=False,
        limits=SamplingLimits(budget_s=0.2),
        serving=ServingPreset(
            _BOTH_WAYS, _LAYOUTS, candidates=9, bursts=10, rounds=3, finalists=2, final_rounds=2, processes=5
        ),
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
        limits=SamplingLimits(budget_s=0.5, min_rounds=9, max_rounds=60),
        serving=ServingPreset(
            _BOTH_WAYS, _LAYOUTS, candidates=12, bursts=10, rounds=4, finalists=2, final_rounds=2, processes=5
        ),
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
