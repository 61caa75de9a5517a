"""The whole plan space, for transfers without decode: a committed file, so that what is exhaustive is in writing.

Axes that times without decode do not tell apart are left out: priorities act against other kernels only, and how the
host waits is no part of a transfer's way. So are SM partitions, of which every device has its own: without decode they
bound a launch as a smaller grid does.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from itertools import product
from typing import Any, Final

from pega_tune.autotune.sweep.plans import pegaflow_kernel
from pega_tune.kernels.plan import Backend, CopyPlan, KernelOptions, PlanPair, Variant, direct, kernel

FILE: Final = "exhaustive_plans.json"

GRIDS: Final = tuple(1 << k for k in range(15))
THREADS: Final = (128, 256, 512, 1024)
LAUNCHES: Final = (None, 2048, 1024)  # descriptors of each
LAUNCHED_GRIDS: Final = (2, 8, 32, 128, 512)  # those of kernels in several launches
LAUNCHED_THREADS: Final = (256, 1024)
DMA_CHUNKS: Final = (None, 16 << 20, 4 << 20, 2 << 20)
STAGED_GRIDS: Final = (8, 32, 128, 264, 512)
STAGED_THREADS: Final = (256, 1024)
MIXED_GRIDS: Final = (2, 8, 32, 128)  # of kernels beside a copy engine in the other direction
VLLM_KERNEL: Final = kernel(Variant.BLOCK, 12, 128)  # the one rule of `static_rules` that is on none of these grids


@dataclass(frozen=True, slots=True)
class PlanSet:
    """Plans, each once.

    Attributes:
        single: for one direction; for both at once, each of them is a pair of equal ones.
        pairs: for both directions at once: launches that they share, and pairs of different plans.
    """

    single: tuple[CopyPlan, ...]
    pairs: tuple[PlanPair, ...]

    def to_json(self) -> str:
        """The set as JSON, a plan on each line."""
        parts = (("single", self.single), ("pairs", self.pairs))
        blocks = (f' "{name}": [\n' + ",\n".join(map(_line, plans)) + "\n ]" for name, plans in parts)
        return "{\n" + ",\n".join(blocks) + "\n}\n"

    @classmethod
    def from_json(cls, text: str) -> "PlanSet":
        """Inverse of `to_json`."""
        data: dict[str, list[dict[str, Any]]] = json.loads(text)
        return cls(tuple(map(CopyPlan.from_json, data["single"])), tuple(map(PlanPair.from_json, data["pairs"])))


def generate() -> PlanSet:
    """Every plan, from the axes."""
    single = dict.fromkeys((*_engines(), pegaflow_kernel(), VLLM_KERNEL, *_kernels(), *_launches(), *_staged()))
    fused = (PlanPair(plan, plan, fused=True) for plan in _staged())
    return PlanSet(tuple(single), (*fused, *_mixed()))


@cache
def plan_set() -> PlanSet:
    """The committed set."""
    return PlanSet.from_json((files("pega_tune.autotune") / "data" / FILE).read_text("utf-8"))


def _line(plan: CopyPlan | PlanPair) -> str:
    return "  " + json.dumps(plan.to_json(), separators=(",", ":"))


def _engines() -> Iterator[CopyPlan]:
    """Copy engines alone, whole and in chunks."""
    for backend, chunk in product((Backend.DIRECT, Backend.BATCH, Backend.PITCHED), DMA_CHUNKS):
        yield CopyPlan(backend, chunk_bytes=chunk)
    for chunk in DMA_CHUNKS:
        yield CopyPlan(Backend.BATCH, chunk_bytes=chunk, prefer_overlap=True)


def _kernels() -> Iterator[CopyPlan]:
    for variant, threads, grid in product(Variant, THREADS, GRIDS):
        yield kernel(variant, grid, threads)


def _launches() -> Iterator[CopyPlan]:
    """Kernels that take a transfer in several launches, and the one that PegaFlow has."""
    kinds = [(v, t, g) for v, t, g in product(Variant, LAUNCHED_THREADS, LAUNCHED_GRIDS)]
    whole = pegaflow_kernel()
    assert whole.options is not None
    for (variant, threads, grid), chunk in product(
        [*kinds, (Variant.BLOCK, 256, whole.options.max_grid_blocks)], LAUNCHES
    ):
        yield CopyPlan(Backend.KERNEL, variant, threads, KernelOptions(grid, chunk))


def _staged() -> Iterator[CopyPlan]:
    for grid, threads, chunk in product(STAGED_GRIDS, STAGED_THREADS, DMA_CHUNKS):
        yield CopyPlan(Backend.STAGED, Variant.WARP, threads, KernelOptions(grid), chunk)


def _mixed() -> Iterator[PlanPair]:
    """One direction on a copy engine, the other one on the SMs."""
    for engine, threads, grid in product((direct(), CopyPlan(Backend.BATCH)), LAUNCHED_THREADS, MIXED_GRIDS):
        copies = kernel(Variant.WARP, grid, threads)
        yield PlanPair(copies, engine)
        yield PlanPair(engine, copies)
