"""How much a sweep measures: three sizes, by the wall time they take on a fast device."""

from dataclasses import dataclass

from pega_tune.autotune.engine import SamplingLimits
from pega_tune.errors import UsageError

MIB = 1 << 20


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
        dense: whether a full block crosses all grids with all thread counts, and core blocks are wide.
        limits: when one block stops.
    """

    name: str
    budget_s: float
    octaves: int
    sparse_bytes: int
    stride: int
    max_total_bytes: int
    full_shapes: int
    dense: bool
    limits: SamplingLimits


# `quick` leaves 10 s of a minute to a process that starts, compiles the tables and ends.
PRESETS = (
    Preset("quick", 50.0, 2, 16 * MIB, 3, 64 * MIB, 1, dense=False, limits=SamplingLimits(budget_s=0.15)),
    Preset("standard", 285.0, 2, 64 * MIB, 2, 256 * MIB, 2, dense=True, limits=SamplingLimits(budget_s=0.4)),
    Preset("thorough", 525.0, 1, 16 * MIB, 3, 256 * MIB, 2, dense=True, limits=SamplingLimits(0.6, 9, 60)),
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
