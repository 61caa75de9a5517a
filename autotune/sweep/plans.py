"""The plan space: which copy plans are worth measuring at a shape, on a device with certain capabilities."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from pega_tune.autotune.engine import Candidate, CandidateKind, Capabilities
from pega_tune.kernels.plan import (
    MAX_GRID_BLOCKS,
    WARP_THREADS,
    AnyPlan,
    Backend,
    CopyPlan,
    KernelOptions,
    PlanPair,
    Variant,
    direct,
    kernel,
)
from pega_tune.kernels.shape import Direction, TransferShape
from pega_tune.kernels.worthwhile import worthwhile
from pega_tune.profiles.policy.terms import Runtime

CEILING = "ceiling"
STATIC_KERNEL = "pegaflow-kernel"
BLOCK_THREADS = 256

# The warp kernel cuts ranges into tiles of at least this size, and into larger ones only if there are more tiles than
# warps: so two plans that are taken for the same launch are the same. The block kernel takes ranges whole.
SMALLEST_TILE_BYTES = 4096

# Above so many ranges a DMA leg costs milliseconds, and no pair with one can win.
MIXED_RANGES = 1024

Grids = dict[int, tuple[int, ...]]  # by threads per CTA

CORE_WARP: Grids = {1024: (1, 2, 8, 32), 256: (1, 8, 32, 128)}
CORE_BLOCK: Grids = {256: (8, 64, 512)}
WIDE_WARP: Grids = {1024: (1, 2, 4, 8, 16, 32), 512: (2, 16), 256: (1, 4, 8, 16, 32, 64, 128)}
WIDE_BLOCK: Grids = {256: (1, 8, 16, 32, 64, 128, 256, 512, 2048)}
FULL_WARP: Grids = {1024: (4, 16, 64), 512: (2, 16), 256: (4, 16, 64, 256), 128: (16,)}
# A CTA has more threads than a range of less than 2 KiB has words of 16 bytes, unless it is small.
FULL_BLOCK: Grids = {1024: (64,), 512: (64, 512), 256: (16, 128, 256, 2048), 128: (16, 64)}
CROSS: Grids = dict.fromkeys((128, 256, 512, 1024), tuple(1 << k for k in range(15)))
# The gather of a staged plan runs at the speed of device memory, which takes many CTAs, for tens of microseconds.
STAGED_KERNELS = ((264, 256), (32, 1024))  # grid, threads
# Without chunks, and with the chunks between which the few bytes of a decode step find room on the copy engine.
DMA_CHUNKS = (None, 4 << 20)
FINE_DMA_CHUNKS = (2 << 20,)
KERNEL_CHUNKS = (2048, 1024)  # descriptors per launch, as the report has them
PRIORITY_PLANS = ((Variant.WARP, 2, 1024), (Variant.WARP, 32, 256))
# Wide enough to be among the fastest, so that a partition narrows them; where it has an SM for each CTA it does not.
PARTITION_PLANS = ((Variant.WARP, 128, 256), (Variant.WARP, 32, 256))
PARTITION_SMS = (8, 16, 32, 64)
# Kernels, which do not care how ranges lie: one narrow enough to spare decode, two that are among the fastest.
HINTED_RIVALS = ((Variant.WARP, 1, 1024), (Variant.WARP, 32, 256), (Variant.BLOCK, 512, 256))


def pegaflow_kernel() -> CopyPlan:
    """The kernel that PegaFlow launches today: one CTA of 256 threads per range, grid `min(ranges, 65535)`.

    Source: pegaflow's `TransferMode::Kernel` defaults.
    """
    return kernel(Variant.BLOCK, MAX_GRID_BLOCKS, BLOCK_THREADS)


def allowed(runtime: Runtime, plan: AnyPlan) -> bool:
    """Whether the runtime can run the plan (every leg of it)."""
    return all(_leg_allowed(runtime, leg) for leg in legs_of(plan))


def legs_of(plan: AnyPlan) -> tuple[CopyPlan, ...]:
    """The plan itself, or load and save of a pair."""
    return (plan.load, plan.save) if isinstance(plan, PlanPair) else (plan,)


def launched_ctas(leg: CopyPlan, shape: TransferShape) -> int:
    """CTAs that the kernel of one leg launches at this shape; 0 if copy engines do it alone."""
    return min(leg.options.max_grid_blocks, useful_ctas(leg, shape)) if leg.options else 0


def useful_ctas(leg: CopyPlan, shape: TransferShape) -> int:
    """CTAs for which one leg has work at this shape, whatever its grid; 0 if copy engines do it alone."""
    if leg.threads is None:
        return 0
    if leg.variant is Variant.BLOCK:
        return shape.merged_ranges
    tiles = shape.merged_ranges * -(-shape.average_range_bytes // SMALLEST_TILE_BYTES)
    return -(-tiles // (leg.threads // WARP_THREADS))


def launched(plan: AnyPlan, shape: TransferShape) -> AnyPlan:
    """The plan with its grids cut to the work that the shape has: equal for plans that launch the same."""
    if isinstance(plan, PlanPair):
        return replace(plan, load=_cut(plan.load, shape), save=_cut(plan.save, shape))
    return _cut(plan, shape)


def resident_threads(plan: AnyPlan, shape: TransferShape) -> int:
    """Threads that the plan keeps on the SMs at this shape; 0 if copy engines do it alone."""
    return sum(leg.resident_threads_of(launched_ctas(leg, shape)) for leg in legs_of(plan))


def candidates(
    shape: TransferShape, capabilities: Capabilities, *, full: bool, dense: bool, hints: bool = False
) -> tuple[Candidate, ...]:
    """What to compare at a shape: the ceiling, what systems ship today, and plans, each launch once.

    Args:
        shape: what is moved.
        capabilities: of the device; nothing is planned that it cannot run.
        full: every axis, priorities too; else the core set.
        dense: the full set crosses all grids with all thread counts, and the core set is wider.
        hints: with what may spare others and never speeds up: the overlap flag, launches in chunks, finer chunks of DMA
            and, in the full set, SM partitions.
    """
    singles = _full(capabilities, dense) if full else _core(capabilities, dense)
    singles += _sparing(shape, capabilities) if hints else []
    singles += _confined(shape, capabilities) if full and hints else []
    singles += _structured(shape, capabilities, DMA_CHUNKS + FINE_DMA_CHUNKS if hints else DMA_CHUNKS)
    mixed = shape.direction is Direction.BOTH and shape.merged_ranges <= MIXED_RANGES
    return _candidates(shape, singles, _mixed(capabilities) if mixed else ())


def _candidates(shape: TransferShape, singles: Sequence[CopyPlan], mixed: Sequence[AnyPlan]) -> tuple[Candidate, ...]:
    """The ceiling, then each launch once: the plans, in both directions at once if the shape is, and others."""
    both = shape.direction is Direction.BOTH
    plans: list[AnyPlan] = [PlanPair(p, p) if both else p for p in singles]
    if both:
        plans += [PlanPair(p, p, fused=True) for p in singles if p.backend is Backend.STAGED]
    plans += mixed
    ceiling: AnyPlan = PlanPair(direct(), direct()) if both else direct()
    static = _static(both)
    chosen = [Candidate(CEILING, CandidateKind.CEILING, ceiling)]
    for plan in _distinct(plans, shape):
        if plan == static:
            chosen.append(Candidate(STATIC_KERNEL, CandidateKind.STATIC, plan))
        else:
            chosen.append(Candidate(plan.key, CandidateKind.PLAN, plan))
    return tuple(chosen)


def hinted_candidates(shape: TransferShape, capabilities: Capabilities) -> tuple[Candidate, ...]:
    """What to compare at a shape of which more is known than counts: plans that live on it, and their best rivals.

    Args:
        shape: what is moved, with its host runs and pitch.
        capabilities: of the device; nothing is planned that it cannot run.

    Returns:
        Nothing if no plan lives on what is known.
    """
    structured = _structured(shape, capabilities, DMA_CHUNKS)
    if not structured:
        return ()
    rivals = [CopyPlan(Backend.BATCH), pegaflow_kernel(), *(kernel(*words) for words in HINTED_RIVALS)]
    if shape.merged_ranges <= MIXED_RANGES:
        rivals.append(direct())
    chosen = [plan for plan in structured if (plan.options is None or plan.threads == STAGED_KERNELS[0][1])]
    return _candidates(shape, [*_runnable(rivals, capabilities), *chosen], ())


def _static(both: bool) -> AnyPlan:
    return PlanPair(pegaflow_kernel(), pegaflow_kernel()) if both else pegaflow_kernel()


def _core(capabilities: Capabilities, wide: bool) -> list[CopyPlan]:
    warp, block = (WIDE_WARP, WIDE_BLOCK) if wide else (CORE_WARP, CORE_BLOCK)
    return _runnable(
        [
            direct(),
            CopyPlan(Backend.BATCH),
            pegaflow_kernel(),
            *_grid(Variant.WARP, warp),
            *_grid(Variant.BLOCK, block),
        ],
        capabilities,
    )


def _full(capabilities: Capabilities, cross: bool) -> list[CopyPlan]:
    warp, block = (CROSS, CROSS) if cross else (FULL_WARP, FULL_BLOCK)
    plans = [*_core(capabilities, cross), *_grid(Variant.WARP, warp), *_grid(Variant.BLOCK, block)]
    plans += [kernel(*words, p) for words in PRIORITY_PLANS for p in capabilities.priorities if p]
    return _runnable(plans, capabilities)


def _sparing(shape: TransferShape, capabilities: Capabilities) -> list[CopyPlan]:
    whole = (pegaflow_kernel(), kernel(Variant.WARP, 1, 1024))
    chunked = [_in_launches(p, n) for p in whole for n in KERNEL_CHUNKS if n < shape.merged_ranges]
    return _runnable([CopyPlan(Backend.BATCH, prefer_overlap=True), *chunked], capabilities)


def _confined(shape: TransferShape, capabilities: Capabilities) -> list[CopyPlan]:
    sizes = capabilities.partitions.sizes
    partitions = dict.fromkeys(sizes.rounded(sms) for sms in PARTITION_SMS) if sizes else {}
    wide = [kernel(*words) for words in PARTITION_PLANS]
    confined = [replace(p, sm_partition=sms) for p in wide for sms in partitions if sms < launched_ctas(p, shape)]
    return _runnable(confined, capabilities)


def _in_launches(plan: CopyPlan, descriptors: int) -> CopyPlan:
    """The plan in launches of so many descriptors, each of which waits for the one before."""
    assert plan.options is not None
    return replace(plan, options=replace(plan.options, chunk_descriptors=descriptors))


def _structured(shape: TransferShape, capabilities: Capabilities, dma_chunks: tuple[int | None, ...]) -> list[CopyPlan]:
    """Plans that live on what is known of the ranges: a stride, or host runs that are few enough to stage."""
    chunks = [chunk for chunk in dma_chunks if chunk is None or chunk < shape.total_bytes]
    plans: list[CopyPlan] = []
    if shape.pitch is not None:
        plans += [CopyPlan(Backend.PITCHED, chunk_bytes=chunk) for chunk in chunks]
    if shape.host_runs is not None and worthwhile(shape):
        plans += [
            CopyPlan(Backend.STAGED, Variant.WARP, threads, KernelOptions(grid), chunk)
            for grid, threads in STAGED_KERNELS
            for chunk in chunks
        ]
    return _runnable(plans, capabilities)


def _mixed(capabilities: Capabilities) -> list[AnyPlan]:
    """One direction on a copy engine, the other on the SMs."""
    kernels = _runnable([kernel(Variant.WARP, 32, 256)], capabilities)
    engines = _runnable([direct()], capabilities)
    pairs = [(k, e) for k in kernels for e in engines]
    return [PlanPair(load, save) for k, e in pairs for load, save in ((k, e), (e, k))]


def _grid(variant: Variant, grids: Grids) -> Iterator[CopyPlan]:
    return (kernel(variant, grid, threads) for threads, widths in grids.items() for grid in widths)


def _runnable(plans: Iterable[CopyPlan], capabilities: Capabilities) -> list[CopyPlan]:
    """The plans that the device can run, without repetitions, in their order."""
    return [
        plan
        for plan in dict.fromkeys(plans)
        if plan.backend in capabilities.backends and (plan.threads or 0) <= capabilities.max_threads
    ]


def _distinct(plans: Iterable[AnyPlan], shape: TransferShape) -> list[AnyPlan]:
    """The first plan of each launch."""
    first: dict[AnyPlan, AnyPlan] = {}
    for plan in plans:
        first.setdefault(launched(plan, shape), plan)
    return list(first.values())


def _cut(leg: CopyPlan, shape: TransferShape) -> CopyPlan:
    ctas = launched_ctas(leg, shape)
    return replace(leg, options=KernelOptions(ctas, leg.options.chunk_descriptors)) if leg.options else leg


def _leg_allowed(runtime: Runtime, plan: CopyPlan) -> bool:
    if runtime is Runtime.FULL or plan in (direct(), pegaflow_kernel()):
        return True
    if runtime is Runtime.PEGAFLOW or plan.options is None:
        return False
    options = replace(plan.options, max_grid_blocks=MAX_GRID_BLOCKS, chunk_descriptors=None)
    return plan.backend is Backend.KERNEL and replace(plan, options=options) == pegaflow_kernel()
