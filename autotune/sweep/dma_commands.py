"""The largest single DMA command of a plan: the few bytes of a decode step wait behind it on a copy engine."""

from typing import Final

from pega_tune.autotune.sweep.plans import SMALLEST_TILE_BYTES, legs_of
from pega_tune.kernels.plan import WARP_THREADS, AnyPlan, Backend, CopyPlan, PlanPair, Variant
from pega_tune.kernels.shape import TransferShape

# What follows is told by these modules of `kernels`, which planning does not load, since they compile native code.
_DESCRIPTOR_BYTES: Final = 24  # descriptors.DESCRIPTOR_BYTES
_LARGEST_TILE_BYTES: Final = 65_536  # descriptors.MAX_TILE_BYTES
_TILES_PER_WARP: Final = 4  # descriptors.tile_bytes
_STAGING_BYTES: Final = 128 << 20  # staging.DEFAULT_STAGING_BYTES
_PART_BYTES: Final = 16 << 20  # staging.PART_BYTES
_MAX_PARTS: Final = 4  # staging.MAX_PARTS
_STREAMING_SLOTS: Final = 8  # staging.STREAMING_SLOTS
_PART_GRAIN_BYTES: Final = 4096  # where staging cuts
_PART_SLACK_BYTES: Final = 4111  # what a part may need beyond its share: up to a grain, and an alignment to 16 bytes


def largest_dma_bytes(plan: AnyPlan, shape: TransferShape) -> int:
    """Bytes of the largest DMA command that a plan submits for equal ranges.

    Of a copy kernel that is the upload of its descriptors; those of staging are few beside its data and are left out.
    Where the shape does not tell how the ranges lie, it is the most that it can be. Of a batched copy it is the largest
    range, as if the driver joined none.
    """
    fused = isinstance(plan, PlanPair) and plan.fused
    return max(_largest(leg, shape, fused) for leg in legs_of(plan))


def _largest(leg: CopyPlan, shape: TransferShape, fused: bool) -> int:
    range_bytes = -(-shape.total_bytes // shape.merged_ranges)
    match leg.backend:
        case Backend.KERNEL:
            return _upload_bytes(leg, shape)
        case Backend.STAGED:
            return _chunk(_staged_bytes(shape, fused), leg)
        case Backend.PITCHED if shape.pitch is not None:
            rows = shape.merged_ranges if leg.chunk_bytes is None else max(1, leg.chunk_bytes // range_bytes)
            return _chunk(range_bytes * min(rows, shape.merged_ranges), leg)
    return _chunk(range_bytes, leg)


def _chunk(nbytes: int, leg: CopyPlan) -> int:
    return nbytes if leg.chunk_bytes is None else min(nbytes, leg.chunk_bytes)


def _staged_bytes(shape: TransferShape, fused: bool) -> int:
    """The largest part of the longest host run; a host run that is not known is all of the transfer."""
    total = shape.total_bytes
    buffer = _STAGING_BYTES // 2 if fused else _STAGING_BYTES
    parts = 1 if fused else max(1, min(_MAX_PARTS, total // _PART_BYTES))
    if total + (parts * _PART_SLACK_BYTES if parts > 1 else 0) > buffer:
        parts = -(-total // (buffer // (2 if fused else _STREAMING_SLOTS)))
    share = -(-total // parts)
    part = share if parts == 1 else -(-share // _PART_GRAIN_BYTES) * _PART_GRAIN_BYTES
    ranges = -(-shape.merged_ranges // (shape.host_runs or 1))
    return min(part, ranges * -(-total // shape.merged_ranges), total)


def _upload_bytes(leg: CopyPlan, shape: TransferShape) -> int:
    """Descriptors, one for each range, or for each tile of it."""
    if leg.variant is Variant.BLOCK or leg.threads is None or leg.options is None:
        return _DESCRIPTOR_BYTES * shape.merged_ranges
    warps = leg.threads // WARP_THREADS * leg.options.max_grid_blocks
    tile = shape.total_bytes // (warps * _TILES_PER_WARP) // SMALLEST_TILE_BYTES * SMALLEST_TILE_BYTES
    tile = max(SMALLEST_TILE_BYTES, min(_LARGEST_TILE_BYTES, tile))
    return _DESCRIPTOR_BYTES * shape.merged_ranges * -(-shape.total_bytes // (shape.merged_ranges * tile))
