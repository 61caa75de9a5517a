"""Which values of each axis of the plan space a sweep has measured."""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

from pega_tune.autotune.sweep.observations import usable
from pega_tune.autotune.sweep.plans import legs_of
from pega_tune.kernels.plan import CopyPlan
from pega_tune.profiles.store.records import BlockRecord, CellRecord

V = TypeVar("V", int, str)


@dataclass(frozen=True, slots=True)
class Axes:
    """For each axis, its values in ascending order, each with the number of cells measured with it.

    A cell that moves both ways counts once for each value that its two plans have. Priorities are those of kernels.

    Attributes:
        backends, variants: names.
        grids: most CTAs of a launch.
        threads: threads per CTA.
        priorities: effective stream priorities.
        chunks: descriptors per launch; empty if every transfer was one launch.
        partitions: SMs to which kernels were confined; empty if they never were.
    """

    backends: tuple[tuple[str, int], ...]
    variants: tuple[tuple[str, int], ...]
    grids: tuple[tuple[int, int], ...]
    threads: tuple[tuple[int, int], ...]
    priorities: tuple[tuple[int, int], ...]
    chunks: tuple[tuple[int, int], ...]
    partitions: tuple[tuple[int, int], ...]


def axes(blocks: Iterable[BlockRecord]) -> Axes:
    """The axes of the cells that were measured and verified, the ceiling not counted."""
    cells = [cell for block in blocks for cell in block.cells if usable(cell)]
    return Axes(
        backends=_count(cells, lambda leg: str(leg.backend)),
        variants=_count(cells, lambda leg: str(leg.variant) if leg.variant else None),
        grids=_count(cells, lambda leg: leg.options.max_grid_blocks if leg.options else None),
        threads=_count(cells, lambda leg: leg.threads),
        priorities=_count(cells, lambda leg: leg.stream_priority if leg.options else None),
        chunks=_count(cells, lambda leg: leg.options.chunk_descriptors if leg.options else None),
        partitions=_count(cells, lambda leg: leg.sm_partition),
    )


def _count(cells: Iterable[CellRecord], value: Callable[[CopyPlan], V | None]) -> tuple[tuple[V, int], ...]:
    found: Counter[V] = Counter()
    for cell in cells:
        found.update({v for leg in legs_of(cell.plan) if (v := value(leg)) is not None})
    return tuple(sorted(found.items()))
