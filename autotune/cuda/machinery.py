"""The backends of a lane, and what they are made of."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from pega_tune.autotune.cuda.buffers import Slabs
from pega_tune.kernels.backends.base import TransferBackend, UnsupportedPlanError
from pega_tune.kernels.backends.batch import BatchBackend
from pega_tune.kernels.backends.direct import DirectBackend
from pega_tune.kernels.backends.kernel import KernelBackend
from pega_tune.kernels.backends.pitched import PitchedBackend
from pega_tune.kernels.backends.staged import StagedBackend
from pega_tune.kernels.batch_call import COPIES_PER_CALL, BatchSignature
from pega_tune.kernels.driver import DriverTable
from pega_tune.kernels.green_context import GreenContexts
from pega_tune.kernels.module import KernelFunction
from pega_tune.kernels.plan import Backend, CopyPlan, Variant
from pega_tune.kernels.prepare import Workspace
from pega_tune.kernels.progressions import ProgressionFinder

Functions: TypeAlias = Mapping[Variant, KernelFunction]


@dataclass(frozen=True, slots=True)
class Machinery:
    """What all lanes of an engine share.

    Attributes:
        table: driver functions for native code.
        functions: the copy kernels.
        batch: which batched copies the driver has; None if they do not work.
        partitions: SM partitions; None if they do not work.
        copies_per_call: most copies of one batched call.
    """

    table: DriverTable
    functions: Functions
    batch: BatchSignature | None = None
    partitions: GreenContexts | None = None
    copies_per_call: int = COPIES_PER_CALL


@dataclass(frozen=True, slots=True)
class Backends:
    """The backends of a lane. They share its descriptors, as only one transfer at a time is under way in it.

    Attributes:
        simple: by name, those that are there.
        staged: None without a staging buffer.
    """

    simple: Mapping[Backend, TransferBackend]
    staged: StagedBackend | None

    @classmethod
    def over(cls, slabs: Slabs, machinery: Machinery) -> "Backends":
        """All that these slabs, and this driver, allow."""
        ranges = slabs.need.ranges
        handles = {variant: function.handle for variant, function in machinery.functions.items()}
        simple: dict[Backend, TransferBackend] = {
            Backend.DIRECT: DirectBackend(Workspace(ranges)),
            Backend.KERNEL: KernelBackend(handles, slabs.descriptors),
            Backend.PITCHED: PitchedBackend(ProgressionFinder(ranges)),
        }
        if machinery.batch is not None:
            simple[Backend.BATCH] = BatchBackend(machinery.batch, Workspace(ranges), machinery.copies_per_call)
        staging = slabs.staging
        return cls(simple, None if staging is None else StagedBackend(handles, slabs.descriptors, staging, ranges))

    def for_plan(self, plan: CopyPlan) -> TransferBackend:
        """The one that runs a plan.

        Raises:
            UnsupportedPlanError: there is none.
        """
        if plan.backend is Backend.STAGED:
            return self.for_staging()
        if plan.backend not in self.simple:
            raise UnsupportedPlanError(f"the {plan.backend} backend does not work here")
        return self.simple[plan.backend]

    def for_staging(self) -> StagedBackend:
        """The staged one.

        Raises:
            UnsupportedPlanError: there is no staging buffer.
        """
        if self.staged is None:
            raise UnsupportedPlanError("there is too little memory for a staging buffer", "allow more device memory")
        return self.staged
