"""The shape of a transfer of KV-cache blocks."""

from dataclasses import dataclass, field, replace
from math import lcm
from typing import Final

from pega_tune.autotune.kv.model import KvModel, require
from pega_tune.autotune.kv.placement import Extent, Order, Placement
from pega_tune.errors import UsageError
from pega_tune.kernels.shape import Direction, TransferShape

WIDEST_ALIGNMENT: Final = 16
"""In bytes; caches and pinned pools begin at far larger powers of two, so that slices alone decide."""

SCATTERED_LAYERS: Final = Placement(Order.LAYER_FIRST, split=True)
WHOLE_BLOCKS: Final = Placement(Order.BLOCK_FIRST)


@dataclass(frozen=True, slots=True)
class KvCache:
    """The cache of one rank, on the device and on the host.

    On the host, the slices inside a block come in the order of the device, whatever that is: so nothing that lies
    together on the device is torn apart in a host block that holds all of it.

    Attributes:
        model: whose cache.
        block_tokens: tokens of a block.
        ranks: of tensor parallelism. Each rank moves what it holds, and has a link of its own.
        device: how blocks lie on the device.
        host: how they lie on the host; where that is layer by layer, keys and values are apart as on the device.

    Raises:
        UsageError: a number is out of range, or the KV heads cannot be divided among the ranks.
    """

    model: KvModel
    block_tokens: int = 16
    ranks: int = 1
    device: Placement = SCATTERED_LAYERS
    host: Placement = WHOLE_BLOCKS

    def __post_init__(self) -> None:
        require("tokens in a block", self.block_tokens)
        require("ranks", self.ranks)
        self.model.attention.values(self.ranks)

    @property
    def slice_bytes(self) -> int:
        """Bytes of a block in one plane of one layer."""
        return self.model.slice_bytes(self.block_tokens, self.ranks)


@dataclass(frozen=True, slots=True)
class KvTransfer:
    """Blocks of a cache that are loaded or saved at once.

    Attributes:
        cache: where they come from and go to.
        blocks: how many.
        layers: of how many layers, neighbours of each other; None moves all at once.
        extent: what is moved of every block.

    Raises:
        UsageError: a number is out of range.
    """

    cache: KvCache
    blocks: int
    layers: int | None = None
    extent: Extent = field(init=False)

    def __post_init__(self) -> None:
        require("blocks of a transfer", self.blocks)
        model, moved = self.cache.model, self.layers
        if moved is not None and not 1 <= moved <= model.layers:
            raise UsageError(f"a transfer moves 1 to {model.layers} layers at once, not {moved}")
        extent = Extent(model.layers, moved or model.layers, model.attention.planes)
        object.__setattr__(self, "extent", extent)

    def shape(self, direction: Direction) -> TransferShape:
        """The shape of the transfer.

        Raises:
            UsageError: it has more bytes than there are.
        """
        return TransferShape(
            merged_ranges=self.units * (self._joint_runs if self._blocks_join else self.blocks),
            total_bytes=self.blocks * self._block_bytes,
            direction=direction,
            host_runs=self._host_units * (self._host_runs if self._host.touches(self.extent) else self.blocks),
            alignment=min(WIDEST_ALIGNMENT, self.cache.slice_bytes & -self.cache.slice_bytes),
            pitch=self._pitch,
        )

    @property
    def units(self) -> int:
        """Ranges of one block: the finer of the two divisions, as the order inside a block is that of the device."""
        return max(self.cache.device.units(self.extent), self._host_units)

    @property
    def _block_bytes(self) -> int:
        """Of what is moved of one block."""
        return self.extent.moved_layers * self.extent.planes * self.cache.slice_bytes

    @property
    def _host(self) -> Placement:
        """The host side, with keys and values apart where the device makes them so.

        If it does although it keeps blocks whole, a host block holds all keys, and then all values: still one unit,
        unless only some of the layers are moved.
        """
        host, device = self.cache.host, self.cache.device
        split = device.split
        if host.order is Order.BLOCK_FIRST:
            split &= device.order is Order.BLOCK_FIRST and self.extent.moved_layers < self.extent.layers
        return replace(host, split=split)

    @property
    def _host_units(self) -> int:
        return self._host.units(self.extent)

    @property
    def _host_runs(self) -> int:
        return self._host.runs(self.blocks)

    @property
    def _blocks_join(self) -> bool:
        """Whether units of neighbouring blocks are adjacent on both sides, if their slots are."""
        device, host = self.cache.device, self._host
        alike = device.units(self.extent) == self._host_units
        return alike and device.touches(self.extent) and host.touches(self.extent)

    @property
    def _joint_runs(self) -> int:
        """Runs of blocks whose slots are neighbours on both sides: they end where one of either side does."""
        device, host = self.cache.device.run_blocks, self.cache.host.run_blocks
        inner = self.blocks - 1
        return 1 + inner // device + inner // host - inner // lcm(device, host)

    @property
    def _pitch(self) -> int | None:
        """Between neighbouring blocks, where each is one range and all slots are neighbours on both sides."""
        one_run = min(self.cache.device.run_blocks, self.cache.host.run_blocks) >= self.blocks > 1
        if not one_run or self.units > 1 or self._blocks_join:
            return None
        stored = self.extent.layers if self.cache.device.order is Order.BLOCK_FIRST else 1
        return stored * self.extent.planes * self.cache.slice_bytes
