"""vLLM's native offload: below which size and from how many descriptors on a kernel loads, and on how many SMs."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import inf, isqrt
from typing import Final

import numpy as np

from pega_tune.autotune.settings.setting import Ctas, Setting, Value
from pega_tune.autotune.settings.times import Times
from pega_tune.autotune.static_rules import LEAST_RANGES, SMALL_RANGE_BYTES, SMALL_RANGE_CTAS, TRITON_THREADS
from pega_tune.errors import UsageError
from pega_tune.kernels.plan import Backend, CopyPlan, Variant
from pega_tune.kernels.shape import Direction, TransferShape

NUM_SMS, THRESHOLD_BYTES, MIN_N = "NUM_SMS", "THRESHOLD_BYTES", "MIN_N"
FILE: Final = "vllm/v1/kv_offload/cpu/swap_blocks_triton.py"
"""Source of the three, and of what they do: a kernel loads descriptors of less than the threshold if there are as many
as the minimum; everything else is one batch call."""

CTAS: Final = Ctas(Variant.BLOCK, TRITON_THREADS)
BATCH: Final = CopyPlan(Backend.BATCH)
_KIB: Final = 1 << 10


@dataclass(frozen=True, slots=True)
class _Bounds:
    """Where the kernel loads: fewer bytes than `threshold`, and at least `least` descriptors."""

    threshold: int
    least: int

    def setting(self, sms: int, plan: CopyPlan) -> Setting:
        def leg(shape: TransferShape, direction: Direction) -> CopyPlan:
            small = shape.average_range_bytes < self.threshold and shape.merged_ranges >= self.least
            return plan if direction is Direction.H2D and small else BATCH

        return Setting({NUM_SMS: sms, THRESHOLD_BYTES: self.threshold, MIN_N: self.least}, leg)


class VLLM:
    """Implements `Engine`."""

    name = "vllm"
    stands = (
        "one batch call for its batch call; CTAs of 128 threads, each of which takes whole ranges, for the programs of "
        "its kernel, whose words have 8 bytes"
    )

    def settings(self, times: Times, sm_count: int) -> Iterator[Setting]:
        """For each number of SMs the two bounds that suit the mix best, and batch calls alone."""
        if not times.mix.loads:
            raise UsageError(f"{NUM_SMS}, {THRESHOLD_BYTES} and {MIN_N} are about loads", "name shapes that load")
        if not times.is_known(BATCH, BATCH):
            return
        yield _Bounds(0, LEAST_RANGES).setting(SMALL_RANGE_CTAS, BATCH)
        for sms, plan in CTAS.known(times).items():
            if sms <= sm_count:
                yield _best_bounds(times, plan).setting(sms, plan)

    def default(self, times: Times) -> Setting | None:
        """28 KiB, 16 descriptors, 12 SMs."""
        plan = CTAS.plan(SMALL_RANGE_CTAS, times)
        known = plan is not None and times.is_known(BATCH, BATCH)
        return _Bounds(SMALL_RANGE_BYTES, LEAST_RANGES).setting(SMALL_RANGE_CTAS, plan) if plan and known else None

    def lines(self, values: Mapping[str, Value]) -> tuple[str, ...]:
        """Constants of its source."""
        return (f"# These constants in {FILE}:", *(f"{name} = {value}" for name, value in values.items()))


def _best_bounds(times: Times, plan: CopyPlan) -> _Bounds:
    """The bounds within which the kernel saves most, and of those that save as much the tightest.

    Where a default does the same for the mix, it stays.
    """
    saved_s = times.mix.counts * (times.of(BATCH, BATCH) - times.of(plan, BATCH))
    sizes, rows = np.unique([shape.average_range_bytes for shape in times.mix.shapes], return_inverse=True)
    ranges, columns = np.unique([shape.merged_ranges for shape in times.mix.shapes], return_inverse=True)
    grid = np.zeros((len(sizes) + 1, len(ranges)))
    np.add.at(grid, (rows + 1, columns), saved_s)
    within = np.cumsum(np.cumsum(grid, axis=0)[:, ::-1], axis=1)  # sizes below, and from so many ranges on
    below, column = divmod(int(np.argmax(within)), len(ranges))  # the first of equals is the tightest
    first = len(ranges) - 1 - column
    fewer = int(ranges[first - 1]) if first else 0
    least = int(ranges[first])
    kept = LEAST_RANGES if below == 0 or fewer < LEAST_RANGES <= least else least
    return _Bounds(_threshold(sizes.tolist(), below), kept)


def _threshold(sizes: list[int], below: int) -> int:
    """A round number of bytes that the first so many sizes are below, and the others are not."""
    if below == 0:
        return 0
    low = sizes[below - 1] + 1
    high = sizes[below] if below < len(sizes) else inf
    if low <= SMALL_RANGE_BYTES <= high:
        return SMALL_RANGE_BYTES
    if below == len(sizes):
        return -(-low // _KIB) * _KIB
    middle = isqrt(low * sizes[below]) // _KIB * _KIB
    return middle if low <= middle <= high else sizes[below]
