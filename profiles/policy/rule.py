"""The rule: what to do where nothing was measured. Fixed, simple, and honest about knowing no times.

Its constants come from one NVIDIA H200 (PCIe 5.0 x16, driver 580.159, CUDA 13.0), times from submission to completion
seen, one direction:

- 1, 8 and 64 ranges of 4 KiB take 7.7, 24 and 157 us by `direct` and 15, 16 and 21 us by one kernel launch; 1, 16 and
  256 ranges of 64 KiB take 10, 66 and 998 us against 35, 38 and 345 us. A range costs `direct` about 2.5 us more,
  and a launch is paid off at about 8 ranges.
- At 1 MiB per range both directions together move 76 GiB/s by `direct` and 54 to 58 GiB/s by kernels.
- 2 CTAs of 1024 threads, one warp per range, reach 47 GiB/s of 51 one way on ranges of 4 KiB, on 2 of 132 SMs; one CTA
  of 256 threads per range needs a grid of 256 for the same.
"""

from pega_tune.kernels.plan import MAX_GRID_BLOCKS, AnyPlan, CopyPlan, PlanPair, Variant, direct, kernel
from pega_tune.kernels.shape import Direction, TransferShape
from pega_tune.profiles.policy.terms import Objective, Runtime

DIRECT_BELOW_RANGES = 8
DIRECT_FROM_RANGE_BYTES = 1 << 20

_KERNELS = {
    Runtime.PEGAFLOW: kernel(Variant.BLOCK, MAX_GRID_BLOCKS, 256),  # the one kernel and grid that it has
    Runtime.KERNEL_OPTIONS: kernel(Variant.BLOCK, 256, 256),
    Runtime.FULL: kernel(Variant.WARP, 2, 1024),
}


def rule(shape: TransferShape, objective: Objective, runtime: Runtime) -> tuple[AnyPlan, str]:
    """The plan for a shape on an unknown device, and why, as the predicate of a sentence about the plan."""
    plan, reason = _one_way(shape, objective, runtime)
    return (PlanPair(plan, plan) if shape.direction is Direction.BOTH else plan), reason


def _one_way(shape: TransferShape, objective: Objective, runtime: Runtime) -> tuple[CopyPlan, str]:
    if objective in (Objective.TAIL_BOUNDED, Objective.STRICT):
        return direct(), "leaves the SMs to decode, whose tail the objective protects"
    if shape.merged_ranges < DIRECT_BELOW_RANGES:
        return direct(), f"suits fewer than {DIRECT_BELOW_RANGES} ranges, which do not pay for a kernel launch"
    if shape.average_range_bytes >= DIRECT_FROM_RANGE_BYTES:
        return direct(), "suits ranges of 1 MiB and more, which copy engines move best"
    return _KERNELS[runtime], "moves many small ranges in one launch"
