"""Rules that systems ship today, as plans: to compare with, never to choose from.

None of them has seen the device. Only the choice of backend, grid and chunks is theirs: what runs it is our
implementation of the backend, with accesses of 16 bytes where the addresses allow, wherever theirs are narrower.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from pega_tune.autotune.sweep.plans import STATIC_KERNEL, pegaflow_kernel
from pega_tune.kernels.plan import AnyPlan, Backend, CopyPlan, KernelOptions, PlanPair, Variant, direct, kernel
from pega_tune.kernels.shape import Direction, TransferShape

CHUNK_BYTES: Final = 64 << 20  # pegaflow, pull request 422
SMALL_RANGE_BYTES: Final = 28 << 10  # vLLM, THRESHOLD_BYTES
LEAST_RANGES: Final = 16  # vLLM, MIN_N
SMALL_RANGE_CTAS: Final = 12  # vLLM, NUM_SMS
TRITON_THREADS: Final = 128  # of a program, unless it asks for more than Triton's default of 4 warps


@dataclass(frozen=True, slots=True)
class StaticRule:
    """A rule of one system.

    Attributes:
        name: of its candidate.
        source: who ships it, and what of it a copy plan does not express.
        leg: the plan of one direction of a shape.
    """

    name: str
    source: str
    leg: Callable[[TransferShape, Direction], CopyPlan]

    def plan(self, shape: TransferShape) -> AnyPlan:
        """What the rule does with a shape: a pair if it moves both ways."""
        if shape.direction is Direction.BOTH:
            return PlanPair(self.leg(shape, Direction.H2D), self.leg(shape, Direction.D2H))
        return self.leg(shape, shape.direction)


def _always(plan: CopyPlan) -> Callable[[TransferShape, Direction], CopyPlan]:
    def leg(_shape: TransferShape, _direction: Direction) -> CopyPlan:
        return plan

    return leg


def _chunked(shape: TransferShape, _direction: Direction) -> CopyPlan:
    if shape.total_bytes <= CHUNK_BYTES:
        return pegaflow_kernel()
    whole = pegaflow_kernel()
    assert whole.options is not None
    options = KernelOptions(whole.options.max_grid_blocks, max(1, CHUNK_BYTES // shape.average_range_bytes))
    return CopyPlan(Backend.KERNEL, whole.variant, whole.threads, options, backpressure=False)


def _by_range_size(shape: TransferShape, direction: Direction) -> CopyPlan:
    small = shape.average_range_bytes < SMALL_RANGE_BYTES and shape.merged_ranges >= LEAST_RANGES
    if direction is Direction.H2D and small:
        return kernel(Variant.BLOCK, SMALL_RANGE_CTAS, TRITON_THREADS)
    return CopyPlan(Backend.BATCH)


STATIC_RULES: Final = (
    StaticRule(
        "pegaflow-direct",
        "PegaFlow, `pegaflow-core/src/transfer/memcpy.rs`: the default for models without MLA",
        _always(direct()),
    ),
    StaticRule(
        STATIC_KERNEL,
        "PegaFlow, `pegaflow-core/src/transfer/kernel.rs`: for models with MLA; raw ranges, 256 threads, full grid",
        _always(pegaflow_kernel()),
    ),
    StaticRule(
        "pegaflow-64mib-launches",
        "PegaFlow, pull request 422 (not merged): launches of 64 MiB, enqueued without waiting",
        _chunked,
    ),
    StaticRule(
        "one-batch-call",
        "vLLM, `csrc/libtorch_stable/cache_kernels.cu` (`swap_blocks_batch`), and PegaFlow before its change 278",
        _always(CopyPlan(Backend.BATCH)),
    ),
    StaticRule(
        "vllm-28kib",
        "vLLM, `vllm/v1/kv_offload/cpu/swap_blocks_triton.py`: loads of 16 ranges or more below 28 KiB by 12 CTAs, all "
        "else, and every save, by one batch call; its words have 8 bytes",
        _by_range_size,
    ),
    StaticRule(
        "sglang-quota-2",
        "SGLang HiCache, `sgl-kernel/csrc/kvcacheio/transfer.cu`: 2 blocks of 32 warps, a warp per item; its words "
        "have 8 bytes, which a plan does not express: here they have 16 where aligned",
        _always(kernel(Variant.WARP, 2, 1024)),
    ),
    StaticRule(
        "flexkv-4-ctas",
        "FlexKV, `FLEXKV_TRANSFER_NUM_CTA_H2D` and `_D2H`: 4 CTAs of 1024 threads, a CTA per block",
        _always(kernel(Variant.BLOCK, 4, 1024)),
    ),
    StaticRule(
        "tokenspeed-grid-32",
        "tokenspeed, `TOKENSPEED_KV_ALL_LAYER_GRID_CAP`: 32 programs, each of which takes whole items",
        _always(kernel(Variant.BLOCK, 32, TRITON_THREADS)),
    ),
)
