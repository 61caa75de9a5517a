"""What a backend does: compile a batch into a program."""

from typing import Protocol

from pega_tune.errors import UsageError
from pega_tune.kernels.plan import Backend, CopyPlan
from pega_tune.kernels.program import Lease, Program, ProgramBuilder, Route
from pega_tune.kernels.ranges import RangeBatch
from pega_tune.kernels.shape import Direction


class UnsupportedPlanError(UsageError):
    """A backend cannot run a plan as it says."""

    code = "unsupported-plan"


class TransferBackend(Protocol):
    """Compiles one direction of transfers, one after another, through buffers of its own.

    A backend has one transfer in preparation or flight: the next `prepare` overwrites what the last one made, revokes
    its lease, and must wait until it has completed. A load and a save at once take a backend each.
    """

    def prepare(self, batch: RangeBatch, direction: Direction, plan: CopyPlan, route: Route) -> Program:
        """Compiles a batch; nothing reaches the driver.

        Host work of the plan is here, but for what a program does itself while it is submitted: a staged one writes its
        descriptors then, beside its own DMA. So the batch must stay as it is until the program has ended. Without
        ranges it makes a program that only records its events. How the host waits (`CopyPlan.completion`) is not a
        backend's concern.

        Raises:
            UnsupportedPlanError: the plan is not this backend's, or asks for what it cannot do.
            CapacityError: the batch is larger than the buffers.
            UsageError: the direction is both.
        """


def require(plan: CopyPlan, backend: Backend) -> None:
    """Refuses plans that belong to another backend.

    Raises:
        UnsupportedPlanError: so.
    """
    if plan.backend is not backend:
        raise UnsupportedPlanError(f"the {backend} backend cannot run a {plan.backend} plan")


def nothing(route: Route, lease: Lease) -> Program:
    """The program of a batch without ranges."""
    return ProgramBuilder(route).finish(lease)
