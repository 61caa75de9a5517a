"""What a backend does: prepare a batch, then submit it."""

from typing import Protocol, TypeVar

from pega_tune.errors import UsageError
from pega_tune.kernels.plan import Backend, Completion, CopyPlan
from pega_tune.kernels.ranges import RangeBatch
from pega_tune.kernels.shape import Direction

P = TypeVar("P")


class UnsupportedPlanError(UsageError):
    """A backend cannot run a plan as it says."""

    code = "unsupported-plan"


class StaleError(UsageError):
    """Something was submitted after its buffers had been prepared anew."""

    code = "stale-preparation"


class TransferBackend(Protocol[P]):
    """Moves one direction of transfers, one after another, through buffers of its own.

    A backend has one transfer in preparation or flight: the next `prepare` overwrites what the last one made, and must
    wait until that has completed. A load and a save at once take a backend each.
    """

    def prepare(self, batch: RangeBatch, direction: Direction, plan: CopyPlan) -> P:
        """Makes a batch ready; all host work of the plan is here, nothing reaches the driver.

        Raises:
            UnsupportedPlanError: the plan is not this backend's, or asks for what it cannot do.
            CapacityError: the batch is larger than the buffers.
            UsageError: the direction is both.
        """

    def submit(self, prepared: P, stream: int) -> None:
        """Enqueues a prepared batch on a stream (CUstream handle), and returns.

        Raises:
            StaleError: `prepare` has been called since.
            DriverCallError: a call failed; earlier ones of the transfer may be under way.
        """


def require(plan: CopyPlan, backend: Backend) -> None:
    """Refuses plans that belong to another backend or that ask for what no backend here does.

    Raises:
        UnsupportedPlanError: so.
    """
    if plan.backend is not backend:
        raise UnsupportedPlanError(f"the {backend} backend cannot run a {plan.backend} plan")
    if plan.options is not None and plan.options.chunk_descriptors is not None:
        raise UnsupportedPlanError("chunk_descriptors is not supported yet", "leave it out of the plan")
    if plan.chunk_bytes is not None:
        raise UnsupportedPlanError("chunk_bytes is not supported yet", "leave it out of the plan")
    if plan.completion is not Completion.POLL:
        raise UnsupportedPlanError(f"completion {plan.completion} is not supported yet", "use poll")
