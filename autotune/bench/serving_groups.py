"""What is put beside decode: the rules that systems ship, and the options of the report, one group per question."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from pega_tune.autotune.engine import Capabilities
from pega_tune.autotune.serving import MpsShare
from pega_tune.autotune.static_rules import STATIC_RULES
from pega_tune.autotune.sweep.plans import STAGED_KERNELS, pegaflow_kernel
from pega_tune.kernels.plan import AnyPlan, Backend, CopyPlan, KernelOptions, PlanPair, Variant, direct, kernel
from pega_tune.kernels.shape import Direction, TransferShape
from pega_tune.kernels.worthwhile import worthwhile

MIB: Final = 1 << 20
KERNEL_CHUNKS: Final = (4096, 2048, 1024)
DMA_CHUNKS: Final = (None, 8 * MIB, 4 * MIB, 2 * MIB)
BLOCK_GRIDS: Final = (8, 16, 32, 64, 128, 256, 384, 512, 1024)
WARP_GRIDS: Final = (1, 2, 4, 16)
PARTITION_SMS: Final = (8, 16, 32, 64, 128)
MPS_SHARES: Final = (MpsShare(10), MpsShare(25), MpsShare(50), MpsShare(client_priority=1))
SLEEPS_S: Final = (25e-6, 50e-6, 100e-6)


class Group(StrEnum):
    """One question to the device; its rows are measured beside each other and a baseline of their own."""

    RULES = "rules"
    BEST = "best"
    GRIDS = "grids"
    CHUNKS = "chunks"
    DMA_CHUNKS = "dma-chunks"
    ENQUEUE_ONLY = "enqueue-only"
    PRIORITIES = "priorities"
    PARTITIONS = "partitions"
    HYBRID = "hybrid"
    SLEEP = "sleep"
    DIRECTIONS = "directions"
    DECODE_PRIORITY = "decode-priority"
    MPS_SHARES = "mps-shares"


@dataclass(frozen=True, slots=True)
class Setting:
    """One thing to run beside decode.

    Attributes:
        name: of its row.
        plan: a pair if the shape moves both ways.
        static: whether it is a rule that a system ships.
    """

    name: str
    plan: AnyPlan
    static: bool = False


def settings(group: Group, shape: TransferShape, capabilities: Capabilities) -> tuple[Setting, ...]:
    """The settings of a group that the device can run at a shape.

    `BEST` has none of its own: what is best must be measured first. `SLEEP`, `DIRECTIONS`, `DECODE_PRIORITY` and
    `MPS_SHARES` have blocks that differ in how they are paced, in their direction, in their decode, and in what MPS
    grants the transfers; these are their plans, there and in the main block, which has none of these differences.
    """
    made = _MAKERS[group](shape, capabilities) if group in _MAKERS else iter(())
    return tuple(setting for setting in made if _runs(setting.plan, capabilities))


def _rules(shape: TransferShape, _capabilities: Capabilities) -> Iterator[Setting]:
    for rule in STATIC_RULES:
        yield Setting(rule.name, rule.plan(shape), static=True)


def _grids(shape: TransferShape, _capabilities: Capabilities) -> Iterator[Setting]:
    for grid in BLOCK_GRIDS:
        yield _alike(kernel(Variant.BLOCK, grid, 256), shape)
    for grid in WARP_GRIDS:
        yield _alike(kernel(Variant.WARP, grid, 1024), shape)


def _chunks(shape: TransferShape, _capabilities: Capabilities) -> Iterator[Setting]:
    for count in KERNEL_CHUNKS:
        yield _alike(_chunked_kernel(count), shape)


def _enqueue_only(shape: TransferShape, _capabilities: Capabilities) -> Iterator[Setting]:
    yield _alike(replace(_chunked_kernel(2048), backpressure=False), shape)


def _dma_chunks(shape: TransferShape, _capabilities: Capabilities) -> Iterator[Setting]:
    """Whatever moves large pieces by DMA here, whole and in parts."""
    for chunk_bytes in DMA_CHUNKS:
        if chunk_bytes is not None and chunk_bytes >= shape.total_bytes:
            continue
        if shape.pitch is not None:
            yield _alike(CopyPlan(Backend.PITCHED, chunk_bytes=chunk_bytes), shape)
        if shape.host_runs is not None and worthwhile(shape):
            grid, threads = STAGED_KERNELS[0]
            plan = CopyPlan(Backend.STAGED, Variant.WARP, threads, KernelOptions(grid), chunk_bytes)
            yield _alike(plan, shape)
            if shape.direction is Direction.BOTH:
                yield _named(PlanPair(plan, plan, fused=True))
        if shape.merged_ranges == 1:
            yield _alike(replace(direct(), chunk_bytes=chunk_bytes), shape)


def _priorities(shape: TransferShape, capabilities: Capabilities) -> Iterator[Setting]:
    for priority in capabilities.priorities[:1] + capabilities.priorities[1:][-1:]:  # the weakest and the strongest
        yield _alike(replace(pegaflow_kernel(), stream_priority=priority), shape)
        yield _alike(kernel(Variant.BLOCK, 32, 256, priority), shape)


def _partitions(shape: TransferShape, _capabilities: Capabilities) -> Iterator[Setting]:
    for count in PARTITION_SMS:
        yield _alike(replace(pegaflow_kernel(), sm_partition=count), shape)


def _hybrid(shape: TransferShape, _capabilities: Capabilities) -> Iterator[Setting]:
    if shape.direction is Direction.BOTH:
        yield _named(PlanPair(pegaflow_kernel(), direct()))
        yield _named(PlanPair(direct(), pegaflow_kernel()))


def _sleep(shape: TransferShape, _capabilities: Capabilities) -> Iterator[Setting]:
    yield _alike(_chunked_kernel(2048), shape)


def _directions(shape: TransferShape, _capabilities: Capabilities) -> Iterator[Setting]:
    for plan in (pegaflow_kernel(), direct()):
        yield _alike(plan, shape)


def _decode_priority(shape: TransferShape, _capabilities: Capabilities) -> Iterator[Setting]:
    yield _alike(pegaflow_kernel(), shape)
    yield _alike(kernel(Variant.BLOCK, 32, 256), shape)
    yield _alike(replace(pegaflow_kernel(), sm_partition=8), shape)


def _mps_shares(shape: TransferShape, _capabilities: Capabilities) -> Iterator[Setting]:
    yield _alike(pegaflow_kernel(), shape)
    yield _alike(kernel(Variant.WARP, 16, 1024), shape)


_MAKERS: Final[Mapping[Group, Callable[[TransferShape, Capabilities], Iterator[Setting]]]] = {
    Group.RULES: _rules,
    Group.GRIDS: _grids,
    Group.CHUNKS: _chunks,
    Group.DMA_CHUNKS: _dma_chunks,
    Group.ENQUEUE_ONLY: _enqueue_only,
    Group.PRIORITIES: _priorities,
    Group.PARTITIONS: _partitions,
    Group.HYBRID: _hybrid,
    Group.SLEEP: _sleep,
    Group.DIRECTIONS: _directions,
    Group.DECODE_PRIORITY: _decode_priority,
    Group.MPS_SHARES: _mps_shares,
}


def _chunked_kernel(count: int) -> CopyPlan:
    whole = pegaflow_kernel()
    assert whole.options is not None
    return replace(whole, options=KernelOptions(whole.options.max_grid_blocks, count))


def _alike(plan: CopyPlan, shape: TransferShape) -> Setting:
    """The same plan in each direction of the shape."""
    return _named(PlanPair(plan, plan) if shape.direction is Direction.BOTH else plan)


def _named(plan: AnyPlan) -> Setting:
    return Setting(plan.key, plan)


def _runs(plan: AnyPlan, capabilities: Capabilities) -> bool:
    legs = (plan.load, plan.save) if isinstance(plan, PlanPair) else (plan,)
    return all(leg.backend in capabilities.backends and (leg.threads or 0) <= capabilities.max_threads for leg in legs)
