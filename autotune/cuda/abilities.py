"""Which plans can run on a device."""

from dataclasses import dataclass
from typing import Final

from pega_tune.kernels.batch_probe import BatchSupport
from pega_tune.kernels.plan import AnyPlan, Backend, CopyPlan, PlanPair, Variant
from pega_tune.kernels.stream_options import PARTITIONS_UNTRIED, PartitionSupport, PriorityRange

NOT_TRIED: Final = BatchSupport.no("it has not been tried")


@dataclass(frozen=True, slots=True)
class Abilities:
    """What bounds the plans.

    Attributes:
        priorities: of streams.
        max_threads: most threads per CTA of the copy kernels.
        batch: whether batched copies work.
        partitions: whether kernels can be confined to some SMs.
    """

    priorities: PriorityRange
    max_threads: int
    batch: BatchSupport = NOT_TRIED
    partitions: PartitionSupport = PARTITIONS_UNTRIED

    @property
    def backends(self) -> tuple[Backend, ...]:
        """Those that work here."""
        return tuple(backend for backend in Backend if backend is not Backend.BATCH or self.batch.supported)

    def refusal(self, plan: AnyPlan) -> str:
        """Why a plan cannot run, one line; empty if it can."""
        if isinstance(plan, PlanPair):
            return self._refusal(plan.load) or self._refusal(plan.save) or _pair_refusal(plan)
        return self._refusal(plan)

    def _refusal(self, plan: CopyPlan) -> str:
        if plan.backend not in self.backends:
            return f"batched copies do not work here: {self.batch.reason}"
        if plan.backend is Backend.STAGED and plan.variant is not Variant.WARP:
            return f"staged plans run the {Variant.WARP} kernel, not {plan.variant}"
        if plan.threads and plan.threads > self.max_threads:
            return f"the kernel takes up to {self.max_threads} threads here, not {plan.threads}"
        return self.priorities.refusal(plan.stream_priority) or self.partitions.refusal(plan.sm_partition)


def _pair_refusal(pair: PlanPair) -> str:
    load, save = pair.load, pair.save
    if load.completion is not save.completion:
        return f"one thread waits for both directions, and not by {load.completion} and {save.completion}"
    if not pair.fused:
        return ""
    if {load.backend, save.backend} != {Backend.STAGED}:
        return "only staged plans share a launch"
    if _launch(load) != _launch(save):
        return "a shared launch has one grid, one number of threads, one stream priority and one SM partition"
    return ""


def _launch(plan: CopyPlan) -> tuple[object, ...]:
    """What the kernel and the stream of a plan are."""
    return plan.threads, plan.options, plan.stream_priority, plan.sm_partition
