"""The launches of a step: its kernels, and the grids that they have. Standard library only."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from pega_tune.kernels.decode.geometry import (
    MOST_PARTS,
    PRODUCT_SHARED_PERCENT,
    PRODUCT_THREADS,
    ROW_THREADS,
    THREADS,
    UNIT_BYTES,
    WARP,
)
from pega_tune.kernels.decode.models import StepKind


class StepKernel(StrEnum):
    """A kernel of `kernels.decode.kernels`, by its name."""

    NORMALISE = "normalise"
    MULTIPLY_VECTOR = "multiply_vector"
    ADD_PARTS = "add_parts"
    READ_CACHE = "read_cache"
    MERGE = "merge"
    MULTIPLY = "multiply"
    COMBINE = "combine"
    SCALE = "scale"
    PICK = "pick"
    FILL = "fill"


_ROW_KERNELS: Final = StepKernel.NORMALISE, StepKernel.COMBINE, StepKernel.SCALE
_PRODUCTS: Final = {
    StepKind.DECODE: (
        StepKernel.MULTIPLY_VECTOR,
        StepKernel.ADD_PARTS,
        StepKernel.READ_CACHE,
        StepKernel.MERGE,
    ),
    StepKind.PREFILL: (StepKernel.MULTIPLY,),
}


def kernels_of(kind: StepKind) -> tuple[StepKernel, ...]:
    """The kernels that steps of a kind launch, and the one that fills their memory."""
    return *_ROW_KERNELS, StepKernel.PICK, StepKernel.FILL, *_PRODUCTS[kind]


def threads_of(kernel: StepKernel) -> int:
    """Threads of a CTA."""
    if kernel in _ROW_KERNELS or kernel is StepKernel.READ_CACHE:
        return ROW_THREADS
    if kernel is StepKernel.ADD_PARTS:
        return MOST_PARTS * WARP
    return PRODUCT_THREADS if kernel is StepKernel.MULTIPLY_VECTOR else THREADS


def shared_bytes_of(kernel: StepKernel, most_bytes: int) -> int:
    """Dynamic shared memory of a CTA, in units, where a CTA may have so much."""
    percent = PRODUCT_SHARED_PERCENT if kernel is StepKernel.MULTIPLY_VECTOR else 0
    return percent * most_bytes // 100 // UNIT_BYTES * UNIT_BYTES


@dataclass(frozen=True, slots=True)
class Launch:
    """One kernel of a step.

    Attributes:
        kernel: which.
        blocks: CTAs of `threads_of(kernel)` threads.
        arguments: all int64.
        parts: of a product, each of which has as many CTAs; the second dimension of the grid.
        cluster: CTAs of a cluster, along the first dimension, of which `blocks` is a multiple; where a device has none,
            they begin one by one.
    """

    kernel: StepKernel
    blocks: int
    arguments: tuple[int, ...]
    parts: int = 1
    cluster: int = 1
