"""The streams of a lane: two for every priority and SM partition that plans ask for."""

import contextlib

from pega_tune.errors import DeviceError
from pega_tune.kernels.backends.base import UnsupportedPlanError
from pega_tune.kernels.closing import Closing
from pega_tune.kernels.context import Call, call
from pega_tune.kernels.driver import DriverCallError
from pega_tune.kernels.green_context import GreenContext, GreenContexts
from pega_tune.kernels.plan import CopyPlan
from pega_tune.kernels.stream import Stream


class StreamPairs(Closing):
    """Pairs of streams, each made when it is first asked for; close them before the partitions that they are in."""

    def __init__(self, partitions: GreenContexts | None = None, through: Call = call) -> None:
        """Starts with none.

        Args:
            partitions: SM partitions, which are another's; None if they do not work.
            through: what calls the driver.
        """
        self._partitions = partitions
        self._call = through
        self._pairs: dict[tuple[int, int | None], tuple[Stream, Stream]] = {}
        self._resources = contextlib.ExitStack()

    def of(self, plan: CopyPlan) -> tuple[Stream, Stream]:
        """The streams of a plan: the one it begins and ends in, and the one beside it.

        Raises:
            UnsupportedPlanError: the plan wants an SM partition, which cannot be made.
            DriverCallError: there are no such streams.
        """
        key = plan.stream_priority, plan.sm_partition
        if key not in self._pairs:
            partition = None if plan.sm_partition is None else self._partition(plan.sm_partition)
            self._pairs[key] = self._stream(key[0], partition), self._stream(key[0], partition)
        return self._pairs[key]

    def close(self) -> None:
        """Destroys all streams."""
        self._pairs.clear()
        self._resources.close()

    def _partition(self, sms: int) -> GreenContext:
        if self._partitions is None:
            raise UnsupportedPlanError("SM partitions do not work here")
        try:
            return self._partitions.of(sms)
        except DeviceError as error:
            raise _unsupported(sms, error) from error

    def _stream(self, priority: int, partition: GreenContext | None) -> Stream:
        try:
            return self._resources.enter_context(Stream(priority, partition, self._call))
        except DeviceError as error:
            if partition is None:
                raise
            raise _unsupported(partition.sms, error) from error


def _unsupported(sms: int, error: DeviceError) -> DeviceError | UnsupportedPlanError:
    """Why plans on so many SMs do not run; the error itself if it has cost the context."""
    if isinstance(error, DriverCallError) and error.is_sticky:
        return error
    return UnsupportedPlanError(f"a partition of {sms} SMs does not work here: {error.message}")
