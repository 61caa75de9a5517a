"""Which plans can run on a device."""

from dataclasses import dataclass
from typing import Final

from pega_tune.kernels.plan import AnyPlan, Backend, Completion, CopyPlan, PlanPair
from pega_tune.kernels.stream import PriorityRange

BACKENDS: Final = (Backend.DIRECT, Backend.KERNEL)


@dataclass(frozen=True, slots=True)
class Abilities:
    """What bounds the plans.

    Attributes:
        priorities: of streams.
        max_threads: most threads per CTA of the copy kernels.
    """

    priorities: PriorityRange
    max_threads: int

    def refusal(self, plan: AnyPlan) -> str:
        """Why a plan cannot run, one line; empty if it can."""
        if isinstance(plan, PlanPair):
            fused = "a load and a save do not share a launch here" if plan.fused else ""
            return fused or self._refusal(plan.load) or self._refusal(plan.save)
        return self._refusal(plan)

    def _refusal(self, plan: CopyPlan) -> str:
        if plan.backend not in BACKENDS:
            return f"backend {plan.backend} does not run here"
        if plan.chunk_bytes or (plan.options and plan.options.chunk_descriptors):
            return "transfers are not cut into chunks here"
        if plan.completion is not Completion.POLL:
            return f"completion {plan.completion} is not measured here"
        if plan.threads and plan.threads > self.max_threads:
            return f"the kernel takes up to {self.max_threads} threads here, not {plan.threads}"
        if not self.priorities.strongest <= plan.stream_priority <= self.priorities.weakest:
            # The driver would clamp it without a word, and another priority would be measured.
            bounds = f"{self.priorities.weakest} (weakest) to {self.priorities.strongest} (strongest)"
            return f"stream priorities are {bounds} here, not {plan.stream_priority}"
        return ""
