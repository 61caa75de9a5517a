"""Where the whole plan space is measured: a few transfers, as unlike each other as KV caches are."""

from dataclasses import dataclass
from typing import Final

from pega_tune.autotune.layouts import SHUFFLED, NamedLayout
from pega_tune.autotune.sweep.keys import block_key
from pega_tune.autotune.sweep.shapes import DIRECTIONS, Memory
from pega_tune.kernels.shape import TransferShape
from pega_tune.profiles.policy.terms import Colocation

_KIB: Final = 1 << 10
_MIB: Final = 1 << 20

# Ranges, bytes of each, and how they lie; most important first. Shuffled ones spread over the plane of ranges and size
# and cross the driver's cliff for batched copies (16 to 32 KiB); those of other layouts are what staging and strides
# are for.
_SHUFFLED: Final = "shuffled"
PLACES: Final = (
    (4096, 4 * _KIB, _SHUFFLED),
    (256, 64 * _KIB, _SHUFFLED),
    (1024, _KIB, _SHUFFLED),
    (16_384, 4 * _KIB, _SHUFFLED),
    (1024, 4 * _KIB, "host-ordered"),
    (1024, 4 * _KIB, "strided"),
    (64, 16 * _KIB, _SHUFFLED),
    (1024, 16 * _KIB, _SHUFFLED),
    (4096, 4 * _KIB, "host-ordered"),
    (4096, 4 * _KIB, "strided"),
    (4096, 4 * _KIB, "runs:256"),
    (16_384, 256, _SHUFFLED),
    (64, _MIB, _SHUFFLED),
    (256, 4 * _KIB, _SHUFFLED),
    (16, 64 * _KIB, _SHUFFLED),
    (1, 4 * _MIB, _SHUFFLED),
    (1024, 16 * _KIB, "runs:64"),
    (16_384, _KIB, "host-ordered"),
    (64, 64 * _KIB, "strided"),
    (16, _MIB, _SHUFFLED),
)


@dataclass(frozen=True, slots=True)
class Site:
    """A shape, and how its ranges lie.

    Attributes:
        shape: counts alone.
        layout: of the ranges.
    """

    shape: TransferShape
    layout: NamedLayout = SHUFFLED

    @property
    def key(self) -> str:
        """That of its block without decode."""
        return block_key(self.shape, Colocation.IDLE, self.layout)

    @property
    def described(self) -> TransferShape:
        """The shape with what the layout tells."""
        return self.layout.described(self.shape)


def exhaustive_sites(memory: Memory) -> tuple[Site, ...]:
    """The places in all directions, without those for which memory is too small."""
    sites = (
        Site(TransferShape(ranges, ranges * size, direction), NamedLayout.parse(layout))
        for ranges, size, layout in PLACES
        for direction in DIRECTIONS
    )
    return tuple(site for site in sites if not memory.lacks(site.shape))
