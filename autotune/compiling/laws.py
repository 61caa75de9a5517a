"""What the transfer time of a plan depends on: the terms of a sum whose coefficients are fitted."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pega_tune.autotune.sweep.plans import SMALLEST_TILE_BYTES, legs_of
from pega_tune.kernels.plan import MAX_THREADS_PER_SM, WARP_THREADS, AnyPlan, Backend, CopyPlan, PlanPair, Variant
from pega_tune.kernels.shape import TransferShape

Array: TypeAlias = NDArray[np.float64]

_THREAD_BYTES: Final = 128
"""Bytes that a thread of the copy kernels has in flight: 8 loads of 16 (`kernels.copy_kernels.UNROLL`)."""


@dataclass(frozen=True, slots=True)
class Law:
    """A sum of terms.

    Attributes:
        formula: in the names of the parameters, for people.
        parameters: names of the coefficients, in the order of the terms; seconds, or seconds per whatever they count.
    """

    formula: str
    parameters: tuple[str, ...]


COMMANDS: Final = Law(
    "base_s + per_range_s * ranges + per_byte_s * bytes",
    ("base_s", "per_range_s", "per_byte_s"),
)
"""Copy engines alone."""

KERNEL: Final = Law(
    "base_s + per_range_s * ranges + per_byte_s * bytes + per_trip_s * bytes / bytes_in_flight",
    ("base_s", "per_range_s", "per_byte_s", "per_trip_s"),
)
"""A copy kernel. Its bandwidth saturates: bytes / BW + bytes * K / (BW * x) with x bytes in flight, so that K / BW, the
time of one trip to the host, is a coefficient like the others."""

STAGED: Final = Law(
    "base_s + per_run_s * host_runs + per_byte_s * bytes + per_range_s * ranges",
    ("base_s", "per_run_s", "per_byte_s", "per_range_s"),
)
"""DMA of host runs, and a kernel on the device that has a descriptor for each range."""


def law_of(plan: AnyPlan) -> Law:
    """The law of a plan; a pair that differs follows the leg with a kernel."""
    backends = {leg.backend for leg in legs_of(plan)}
    if Backend.STAGED in backends:
        return STAGED
    return KERNEL if Backend.KERNEL in backends else COMMANDS


def family_of(plan: AnyPlan) -> str:
    """What a plan shares with those that differ from it in grid, priority or partition alone, in words."""
    words = [_kind(leg) for leg in legs_of(plan)]
    name = words[0] if len(set(words)) == 1 else " | ".join(words)
    return f"{name} fused" if isinstance(plan, PlanPair) and plan.fused else name


@dataclass(frozen=True, slots=True, eq=False)
class Shapes:
    """C shapes by column, (C,) each: merged ranges, average bytes of one, bytes per direction, and host runs.

    Host runs that are not known are as many as ranges.
    """

    ranges: Array
    sizes: Array
    totals: Array
    runs: Array

    @classmethod
    def of(cls, shapes: Sequence[TransferShape]) -> "Shapes":
        """Puts shapes side by side."""
        rows = [(s.merged_ranges, s.average_range_bytes, s.total_bytes, s.host_runs or s.merged_ranges) for s in shapes]
        return cls(*np.array(rows, dtype=np.float64).reshape(-1, 4).T)

    def useful_ctas(self, leg: CopyPlan) -> Array:
        """As `plans.useful_ctas`, at every shape: (C,)."""
        if leg.variant is Variant.BLOCK:
            return self.ranges
        ctas: Array = np.ceil(self._tiles / ((leg.threads or WARP_THREADS) // WARP_THREADS))
        return ctas

    def resident_threads(self, plan: AnyPlan) -> Array:
        """As `plans.resident_threads`, at every shape: (C,)."""
        threads = np.zeros_like(self.ranges)
        for leg in legs_of(plan):
            if leg.options and leg.threads:
                kept = np.minimum(leg.options.max_grid_blocks, self.useful_ctas(leg)) * leg.threads
                most = np.inf if leg.sm_partition is None else leg.sm_partition * MAX_THREADS_PER_SM
                threads += np.minimum(kept, most)
        return threads

    def in_flight_bytes(self, leg: CopyPlan) -> Array:
        """Bytes that the kernel of a leg has on their way at a time, at most; at least 1: (C,)."""
        threads, grid = leg.threads or 0, leg.options.max_grid_blocks if leg.options else 0
        ctas = np.minimum(grid, self.useful_ctas(leg))
        if leg.variant is Variant.BLOCK:
            flight: Array = ctas * np.minimum(threads * _THREAD_BYTES, self.sizes)
        else:
            warps = np.minimum(ctas * (threads // WARP_THREADS), self._tiles)
            flight = warps * np.minimum(WARP_THREADS * _THREAD_BYTES, self.sizes)
        return np.maximum(flight, 1.0)

    @property
    def _tiles(self) -> Array:
        tiles: Array = self.ranges * np.ceil(self.sizes / SMALLEST_TILE_BYTES)
        return tiles


def terms(plan: AnyPlan, shapes: Shapes) -> Array:
    """The terms of a plan's law at C shapes: (C, F)."""
    law, ones = law_of(plan), np.ones_like(shapes.ranges)
    if law is STAGED:
        return np.stack([ones, shapes.runs, shapes.totals, shapes.ranges], axis=1)
    common = [ones, shapes.ranges, shapes.totals]
    if law is KERNEL:
        flights = [shapes.in_flight_bytes(leg) for leg in legs_of(plan) if leg.options]
        common.append(shapes.totals / np.minimum.reduce(flights))
    return np.stack(common, axis=1)


def _kind(leg: CopyPlan) -> str:
    words = [f"{leg.backend}/{leg.variant} threads={leg.threads}" if leg.variant else str(leg.backend)]
    if leg.options and leg.options.chunk_descriptors:
        words.append(f"chunk={leg.options.chunk_descriptors}")
    if leg.chunk_bytes:
        words.append(f"chunk_bytes={leg.chunk_bytes}")
    return " ".join(words)
