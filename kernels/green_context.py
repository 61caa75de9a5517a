"""Green Contexts: some of a device's SMs, to whose streams kernels are confined.

A Green Context belongs to the primary context, which stays current: what was loaded and allocated in that can be used
in streams of every Green Context. Its SMs are not withheld from kernels outside.
"""

import contextlib
from typing import Any, Final

from cuda.bindings import driver

from pega_tune.errors import DeviceError
from pega_tune.kernels.closing import Closing
from pega_tune.kernels.context import Call, call, release
from pega_tune.kernels.stream_options import PartitionSizes

_SM_RESOURCE: Final = driver.CUdevResourceType.CU_DEV_RESOURCE_TYPE_SM
_DEFAULT_STREAM: Final = 0x1  # CU_GREEN_CTX_DEFAULT_STREAM, without which drivers refuse to make one
_ONE_GROUP: Final = 1
_NO_FLAGS: Final = 0


class PartitionError(DeviceError):
    """There is no partition of so many SMs."""

    code = "sm-partition"


def partition_sizes(device: Any, through: Call = call) -> PartitionSizes:
    """The sizes of a device's partitions, as the driver tells them.

    Where it tells no granularity (it has since CUDA 13.0), it is asked for a partition of one SM: that has the least
    size, and multiples of that are always aligned.

    Args:
        device: as cuda.bindings has it.
        through: what calls the driver.

    Raises:
        PartitionError: the driver gives sizes that make no sense.
        DriverCallError, DriverMissingError: there are no Green Contexts.
    """
    whole = through("cuDeviceGetDevResource", device, _SM_RESOURCE)
    least, step = (int(getattr(whole.sm, name, 0)) for name in ("minSmPartitionSize", "smCoscheduledAlignment"))
    if not least or not step:
        least = step = _split(whole, 1, through).sm.smCount
    least, sms = -(-least // step) * step, int(whole.sm.smCount)
    if least > sms:
        raise PartitionError(f"the smallest partition has {least} SMs, and the device {sms}")
    return PartitionSizes(least, step, sms)


class GreenContext(Closing):
    """A partition of a device's SMs. Partitions of a device begin at the same SM: they overlap.

    Attributes:
        sms: SMs that it has.
    """

    def __init__(self, device: Any, sms: int, through: Call = call) -> None:
        """Makes it; the primary context must be active.

        Args:
            device: as cuda.bindings has it.
            sms: SMs wanted, one of `partition_sizes`.
            through: what calls the driver.

        Raises:
            PartitionError: the driver would give another number of SMs.
            DriverCallError, DriverMissingError: there are no Green Contexts, or no more of them.
        """
        self._call = through
        part = _split(through("cuDeviceGetDevResource", device, _SM_RESOURCE), sms, through)
        self.sms = int(part.sm.smCount)
        if self.sms != sms:
            raise PartitionError(f"a partition of {sms} SMs would have {self.sms}")
        description = through("cuDevResourceGenerateDesc", [part], 1)
        self._context = through("cuGreenCtxCreate", description, device, _DEFAULT_STREAM)
        self._open = True

    @property
    def native(self) -> Any:
        """The context as cuda.bindings has it."""
        return self._context

    def close(self) -> None:
        """Destroys it; its streams must have been closed."""
        if self._open:
            self._open = False
            release("cuGreenCtxDestroy", self._context, through=self._call)


class GreenContexts(Closing):
    """The partitions of one device by size, each made when it is first asked for."""

    def __init__(self, device: Any, through: Call = call) -> None:
        """Takes a device as cuda.bindings has it, and what calls the driver."""
        self._device = device
        self._call = through
        self._by_sms: dict[int, GreenContext] = {}
        self._resources = contextlib.ExitStack()

    def of(self, sms: int) -> GreenContext:
        """The one with so many SMs; raises as `GreenContext`."""
        if sms not in self._by_sms:
            self._by_sms[sms] = self._resources.enter_context(GreenContext(self._device, sms, self._call))
        return self._by_sms[sms]

    def close(self) -> None:
        """Destroys them; their streams must have been closed."""
        self._by_sms.clear()
        self._resources.close()


def _split(whole: Any, sms: int, through: Call) -> Any:
    """The first part of a resource, with at least so many SMs."""
    groups, count, _remainder = through("cuDevSmResourceSplitByCount", _ONE_GROUP, whole, _NO_FLAGS, sms)
    if not count:
        raise PartitionError(f"there is no partition of {sms} SMs")
    return groups[0]
