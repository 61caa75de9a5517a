"""How the blocks of a KV cache lie on one side, and which of their slices are adjacent there.

A *slice* is what one block keeps in one plane (keys, values, or the latent) of one layer. A *unit* is a sequence of
slices of one block that lie side by side.
"""

from dataclasses import dataclass
from enum import StrEnum

from pega_tune.autotune.kv.model import require


class Order(StrEnum):
    """What lies together on one side.

    `LAYER_FIRST`: the slices of one layer, block by block; every layer has an allocation of its own. `BLOCK_FIRST`: the
    slices of one block, layer by layer.
    """

    LAYER_FIRST = "layer-first"
    BLOCK_FIRST = "block-first"


@dataclass(frozen=True, slots=True)
class Extent:
    """What a transfer takes of every block.

    Attributes:
        layers: of the whole cache.
        moved_layers: of one transfer, which follow each other.
        planes: of one layer.
    """

    layers: int
    moved_layers: int
    planes: int


@dataclass(frozen=True, slots=True)
class Placement:
    """How the blocks of a transfer lie on one side.

    Attributes:
        order: what lies together.
        split: keys and values lie apart, in pools of their own. A cache with one plane has nothing to split.
        run_blocks: so many blocks that follow each other in the transfer lie in neighbouring slots, then the next ones
            elsewhere; 1 if they are scattered.

    Raises:
        UsageError: the number of blocks is out of range.
    """

    order: Order
    split: bool = False
    run_blocks: int = 1

    def __post_init__(self) -> None:
        require("blocks in a run", self.run_blocks)

    def units(self, extent: Extent) -> int:
        """Units that what is moved of one block makes."""
        apart = extent.planes if self.split else 1
        return apart * extent.moved_layers if self.order is Order.LAYER_FIRST else apart

    def touches(self, extent: Extent) -> bool:
        """Whether what is moved of a block ends, in each unit, where that of the next slot begins."""
        return self.order is Order.LAYER_FIRST or extent.moved_layers == extent.layers

    def runs(self, blocks: int) -> int:
        """Runs of neighbouring slots that so many blocks make."""
        return -(-blocks // self.run_blocks)
