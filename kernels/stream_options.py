"""What a stream can be asked for on a device: a priority, and the SMs of a partition. Plain data, without CUDA."""

from dataclasses import dataclass
from typing import Final

from pega_tune.errors import UsageError


@dataclass(frozen=True, slots=True)
class PriorityRange:
    """The stream priorities of a context; lower numbers are stronger.

    Attributes:
        weakest: numerically largest, usually 0.
        strongest: numerically smallest.
    """

    weakest: int
    strongest: int

    def refusal(self, priority: int) -> str:
        """Why there is no such priority, one line; empty if there is: the driver would clamp it without a word."""
        if self.strongest <= priority <= self.weakest:
            return ""
        return (
            f"stream priority {priority} is outside the device's range of {self.weakest} (weakest) "
            f"to {self.strongest} (strongest)"
        )

    def require(self, priority: int) -> None:
        """Refuses what the driver would clamp.

        Raises:
            UsageError: the priority is out of range.
        """
        if refusal := self.refusal(priority):
            raise UsageError(refusal)


NO_PRIORITIES: Final = PriorityRange(0, 0)
"""Of a device that knows none."""


@dataclass(frozen=True, slots=True)
class PartitionSizes:
    """How many SMs the partition of a Green Context may have.

    Attributes:
        least_sms: of the smallest.
        step_sms: every size is a multiple of it.
        device_sms: SMs of the device.
    """

    least_sms: int
    step_sms: int
    device_sms: int

    def __post_init__(self) -> None:
        if not 0 < self.step_sms <= self.least_sms <= self.device_sms or self.least_sms % self.step_sms:
            raise UsageError(
                f"no partitions of {self.least_sms} SMs and more, in steps of {self.step_sms}, of {self.device_sms} SMs"
            )

    @property
    def most_sms(self) -> int:
        """Of the largest partition that is a multiple of the step."""
        return self.device_sms // self.step_sms * self.step_sms

    def rounded(self, sms: int) -> int:
        """The smallest size that holds so many SMs, or the largest there is."""
        return min(max(self.least_sms, -(-sms // self.step_sms) * self.step_sms), self.most_sms)

    def refusal(self, sms: int) -> str:
        """Why there is no partition of that size, one line; empty if there is: the driver would round it."""
        if self.rounded(sms) == sms:
            return ""
        return f"SM partitions are of {self.least_sms} to {self.most_sms} SMs in steps of {self.step_sms}, not {sms}"


@dataclass(frozen=True, slots=True)
class PartitionSupport:
    """Whether kernels can be confined to the SMs of a Green Context.

    Attributes:
        sizes: of partitions; None if there are none.
        reason: why there are none, one line; empty if there are.
    """

    sizes: PartitionSizes | None
    reason: str = ""

    @classmethod
    def no(cls, reason: str) -> "PartitionSupport":
        """There are none."""
        return cls(None, " ".join(reason.split()))

    def refusal(self, sms: int | None) -> str:
        """Why kernels cannot run on so many SMs, one line; empty if they can, and for None, which asks for nothing."""
        if sms is None:
            return ""
        return self.sizes.refusal(sms) if self.sizes else f"SM partitions do not work here: {self.reason}"


PARTITIONS_UNTRIED: Final = PartitionSupport.no("they have not been tried")
