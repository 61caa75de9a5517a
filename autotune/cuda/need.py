"""What memory transfers need."""

from dataclasses import dataclass, replace
from typing import Final

from pega_tune.kernels.descriptors import DESCRIPTOR_BYTES, MIN_TILE_BYTES, descriptor_bound
from pega_tune.kernels.host_runs import ALIGNMENT
from pega_tune.kernels.staging import DEFAULT_STAGING_BYTES, STREAMING_SLOTS

GRAIN_BYTES: Final = 2 << 20  # one large page
LEAST_STAGING_BYTES: Final = GRAIN_BYTES
"""A smaller staging buffer would be all parts: each one takes a launch and an event, and moves less than 256 KiB."""

_LEAST_SLOT_BYTES: Final = LEAST_STAGING_BYTES // STREAMING_SLOTS


@dataclass(frozen=True, slots=True)
class Need:
    """What a direction needs.

    Attributes:
        extent_bytes: of either slab.
        descriptors: most descriptors of one transfer.
        ranges: most ranges of one transfer.
        staging_bytes: of the staging buffer; 0 for none. A smaller one does where there is not so much memory.
    """

    extent_bytes: int
    descriptors: int
    ranges: int
    staging_bytes: int = 0

    @classmethod
    def of(cls, ranges: int, extent_bytes: int) -> "Need":
        """Enough for so many ranges in so many bytes, cut into the finest tiles."""
        return cls(extent_bytes, descriptor_bound(ranges, extent_bytes, MIN_TILE_BYTES), ranges)

    def staged(self, staging_bytes: int = DEFAULT_STAGING_BYTES) -> "Need":
        """The same through a staging buffer, whose parts cut ranges once more."""
        parts = 2 * (self.extent_bytes + ALIGNMENT * self.ranges) // _LEAST_SLOT_BYTES + STREAMING_SLOTS
        return replace(self, descriptors=self.descriptors + parts, staging_bytes=staging_bytes)

    def fused(self) -> "Need":
        """Room for the descriptors of a load and a save like it."""
        return replace(self, descriptors=2 * self.descriptors)

    def covers(self, other: "Need") -> bool:
        """Whether what satisfies this need satisfies the other one."""
        return self.union(other) == self

    def union(self, other: "Need | None") -> "Need":
        """What satisfies both."""
        if other is None:
            return self
        return Need(
            max(self.extent_bytes, other.extent_bytes),
            max(self.descriptors, other.descriptors),
            max(self.ranges, other.ranges),
            max(self.staging_bytes, other.staging_bytes),
        )

    @property
    def slab_bytes(self) -> int:
        """Size of either slab."""
        return -(-self.extent_bytes // GRAIN_BYTES) * GRAIN_BYTES

    @property
    def host_bytes(self) -> int:
        """What is pinned, descriptors included."""
        return self.slab_bytes + self.descriptors * DESCRIPTOR_BYTES

    @property
    def device_bytes(self) -> int:
        """What is allocated on the device, descriptors and staging included."""
        return self.host_bytes + self.staging_bytes
