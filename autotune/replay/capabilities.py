"""What a recorded device can do, as far as its recording shows."""

from math import gcd

from pega_tune.autotune.engine import Capabilities
from pega_tune.autotune.replay.recording import Recording
from pega_tune.autotune.sweep.plans import legs_of
from pega_tune.autotune.sweep.request import SweepRequest
from pega_tune.kernels.plan import CopyPlan
from pega_tune.kernels.stream_options import PartitionSizes, PartitionSupport, PriorityRange


def capabilities(recording: Recording) -> Capabilities:
    """The backends, priorities and partitions that were measured, and the memory that was allowed.

    Raises:
        DataError: the request of the recorded sweep cannot be read.
    """
    legs = {leg for block in recording.blocks for cell in block.cells for leg in legs_of(cell.plan)}
    request = SweepRequest.from_json(recording.sweep.request)
    priorities = tuple(sorted({0, *(leg.stream_priority for leg in legs)}, reverse=True))
    return Capabilities(
        backends=tuple(sorted({leg.backend for leg in legs})),
        priorities=priorities,
        max_threads=max((leg.threads or 0 for leg in legs), default=0),
        device_bytes=request.max_device_bytes or 0,
        host_bytes=request.max_host_bytes or 0,
        other_processes=(),
        kernel_digest=recording.sweep.kernel_digest,
        priority_range=PriorityRange(priorities[0], priorities[-1]),
        partitions=_partitions(legs, recording.sweep.device.identity.sm_count),
        copy_engines=recording.sweep.device.identity.copy_engines,
    )


def _partitions(legs: set[CopyPlan], sm_count: int) -> PartitionSupport:
    """Sizes that hold all that were measured; the true ones may be finer."""
    sizes = sorted({leg.sm_partition for leg in legs if leg.sm_partition is not None})
    if not sizes:
        return PartitionSupport.no("none was recorded")
    return PartitionSupport(PartitionSizes(sizes[0], gcd(*sizes), sm_count))
