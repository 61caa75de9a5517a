"""The shape of a KV-cache transfer is that of the ranges which the layouts make."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pega_tune.autotune.kv.model import MOST, DataType, Heads, KvModel, Latent
from pega_tune.autotune.kv.placement import Order, Placement
from pega_tune.autotune.kv.transfer import KvCache, KvTransfer
from pega_tune.errors import UsageError
from pega_tune.kernels.ranges import RangeBatch
from pega_tune.kernels.shape import Direction, TransferShape

POOL_BLOCKS = 1 << 10
ALLOCATION = 1 << 40
BASE = 1 << 30

Slice = tuple[int, int, int]  # layer, plane, block of the transfer
Place = tuple[int, int]  # allocation, address


@dataclass(frozen=True, slots=True)
class Side:
    """Addresses of slices on one side, as engines allocate them."""

    order: Order
    split: bool
    slots: tuple[int, ...]
    layers: int
    planes: int
    nbytes: int

    def place(self, piece: Slice) -> Place:
        layer, plane, block = piece
        pool, inside, stored = 0, 0, 1
        apart = self.split and self.planes > 1
        if self.order is Order.LAYER_FIRST:
            pool = layer * self.planes + plane if apart else layer
            inside, stored = (0, 1) if apart else (plane, self.planes)
        elif apart:
            pool, inside, stored = plane, layer, self.layers
        else:
            inside, stored = layer * self.planes + plane, self.layers * self.planes
        return pool, BASE + pool * ALLOCATION + (self.slots[block] * stored + inside) * self.nbytes


@dataclass(frozen=True, slots=True)
class KeysThenValues(Side):
    """Blocks with all keys before all values, as they come from a device that has these in two pools."""

    def place(self, piece: Slice) -> Place:
        layer, plane, block = piece
        inside = plane * self.layers + layer
        return 0, BASE + (self.slots[block] * self.layers * self.planes + inside) * self.nbytes


def slots(blocks: int, run_blocks: int) -> tuple[int, ...]:
    """Runs of neighbouring slots, later runs before earlier ones."""
    return tuple(POOL_BLOCKS - 4 * run_blocks * (block // run_blocks) + block % run_blocks for block in range(blocks))


def batch_of(transfer: KvTransfer) -> RangeBatch:
    """Every slice of a transfer as a range of its own."""
    cache = transfer.cache
    layers, planes, nbytes = cache.model.layers, cache.model.attention.planes, cache.slice_bytes

    def side(kind: type[Side], placement: Placement, split: bool) -> Side:
        where = slots(transfer.blocks, placement.run_blocks)
        return kind(placement.order, split, where, layers, planes, nbytes)

    device = side(Side, cache.device, cache.device.split)
    whole = cache.host.order is Order.BLOCK_FIRST
    torn = whole and cache.device.order is Order.BLOCK_FIRST and cache.device.split
    host = side(KeysThenValues if torn else Side, cache.host, cache.device.split and not whole)
    moved = transfer.layers or layers
    pieces = [(la, p, b) for b in range(transfer.blocks) for la in range(moved) for p in range(planes)]
    on_device, on_host = zip(*map(device.place, pieces), strict=True), zip(*map(host.place, pieces), strict=True)
    (device_ids, device_addresses), (host_ids, host_addresses) = on_device, on_host
    return RangeBatch(
        device=np.array(device_addresses, np.uint64),
        host=np.array(host_addresses, np.uint64),
        host_alias=np.array(host_addresses, np.uint64),
        nbytes=np.full(len(pieces), nbytes, np.uint64),
        device_allocation=np.array(device_ids, np.int64),
        host_allocation=np.array(host_ids, np.int64),
    )


def placements() -> st.SearchStrategy[Placement]:
    return st.builds(Placement, st.sampled_from(Order), st.booleans(), st.integers(1, 6))


attentions = st.one_of(
    st.builds(Heads, st.sampled_from((1, 2, 3, 4, 8)), st.integers(1, 5)),
    st.builds(Latent, st.integers(1, 6), st.integers(0, 3)),
)
models = st.builds(KvModel, st.integers(1, 4), attentions, st.sampled_from(DataType))


@st.composite
def transfers(draw: st.DrawFn) -> KvTransfer:
    model = draw(models)
    ranks = draw(st.sampled_from((1, 2, 4, 8)))
    if isinstance(model.attention, Heads) and model.attention.kv_heads % ranks and ranks % model.attention.kv_heads:
        ranks = 1
    cache = KvCache(model, draw(st.integers(1, 4)), ranks, draw(placements()), draw(placements()))
    return KvTransfer(cache, draw(st.integers(1, 9)), draw(st.none() | st.integers(1, model.layers)))


@given(transfers(), st.sampled_from(Direction))
def test_the_shape_is_that_of_the_ranges(transfer: KvTransfer, direction: Direction) -> None:
    shape, real = transfer.shape(direction), batch_of(transfer).shape(direction)
    assert (shape.merged_ranges, shape.host_runs) == (real.merged_ranges, real.host_runs)
    assert (shape.total_bytes, shape.alignment) == (real.total_bytes, real.alignment)
    assert shape.direction is direction


@given(transfers())
def test_no_byte_is_lost(transfer: KvTransfer) -> None:
    cache, shape = transfer.cache, transfer.shape(Direction.H2D)
    tokens = transfer.blocks * cache.block_tokens
    moved = transfer.layers or cache.model.layers
    assert shape.total_bytes * cache.model.layers == tokens * cache.model.token_bytes(cache.ranks) * moved
    assert shape.host_runs is not None
    assert 1 <= shape.host_runs <= shape.merged_ranges


@given(transfers())
def test_scattered_blocks_make_equal_ranges(transfer: KvTransfer) -> None:
    cache = transfer.cache
    scattered = KvCache(
        cache.model,
        cache.block_tokens,
        cache.ranks,
        Placement(cache.device.order, cache.device.split),
        Placement(cache.host.order),
    )
    shape = KvTransfer(scattered, transfer.blocks, transfer.layers).shape(Direction.D2H)
    assert shape.merged_ranges % transfer.blocks == 0
    assert shape.merged_ranges * shape.average_range_bytes == shape.total_bytes


def steps(batch: RangeBatch) -> tuple[set[int], set[int]]:
    """Distances from range to range, on the device and on the host, once what is adjacent has been joined."""
    rows = list(zip(batch.device.tolist(), batch.host.tolist(), batch.nbytes.tolist(), strict=True))
    joined = [rows[0]]
    for device, host, nbytes in rows[1:]:
        last_device, last_host, last_bytes = joined[-1]
        if (last_device + last_bytes, last_host + last_bytes) == (device, host):
            joined[-1] = (last_device, last_host, last_bytes + nbytes)
        else:
            joined.append((device, host, nbytes))
    device_steps = {b[0] - a[0] for a, b in pairwise(joined)}
    return device_steps, {b[1] - a[1] for a, b in pairwise(joined)}


@given(transfers())
def test_a_pitch_is_that_of_one_progression_on_both_sides(transfer: KvTransfer) -> None:
    pitch = transfer.shape(Direction.H2D).pitch
    if pitch is not None:
        device_steps, host_steps = steps(batch_of(transfer))
        assert device_steps == {pitch}
        assert len(host_steps) == 1


QWEN = KvModel(36, Heads(8, 128))
LAYERS = Placement(Order.LAYER_FIRST, split=True)
LAYERS_TOGETHER = Placement(Order.LAYER_FIRST)
BLOCKS = Placement(Order.BLOCK_FIRST)


@pytest.mark.parametrize(
    ("device", "ranges", "range_bytes"),
    [
        (LAYERS, 10 * 36 * 2, 32 << 10),
        (LAYERS_TOGETHER, 10 * 36, 64 << 10),
        (BLOCKS, 10, 2304 << 10),
        (Placement(Order.BLOCK_FIRST, split=True), 10 * 2, 1152 << 10),
    ],
    ids=str,
)
def test_what_lies_together_is_one_range(device: Placement, ranges: int, range_bytes: int) -> None:
    shape = KvTransfer(KvCache(QWEN, device=device), 10).shape(Direction.H2D)
    assert shape == TransferShape(ranges, ranges * range_bytes, Direction.H2D, host_runs=10, alignment=16)


def test_a_latent_has_one_range_per_layer_on_every_rank() -> None:
    model = KvModel(61, Latent(512, 64))
    one, eight = (KvTransfer(KvCache(model, 64, ranks), 32).shape(Direction.H2D) for ranks in (1, 8))
    assert one == eight
    assert (one.merged_ranges, one.average_range_bytes) == (32 * 61, 64 * 576 * 2)


@pytest.mark.parametrize(("ranks", "heads"), [(1, 8), (2, 4), (8, 1), (16, 1), (32, 1)])
def test_more_ranks_than_heads_hold_copies(ranks: int, heads: int) -> None:
    shape = KvTransfer(KvCache(QWEN, ranks=ranks), 1).shape(Direction.H2D)
    assert (shape.merged_ranges, shape.average_range_bytes) == (72, 16 * heads * 128 * 2)


def test_neighbouring_blocks_merge_where_both_sides_have_them_so() -> None:
    def ranges(device: Placement, host: Placement) -> tuple[int, int | None]:
        shape = KvTransfer(KvCache(QWEN, device=device, host=host), 12).shape(Direction.H2D)
        return shape.merged_ranges, shape.host_runs

    rows = Placement(Order.BLOCK_FIRST, run_blocks=12)
    assert ranges(rows, rows) == (1, 1)
    assert ranges(rows, BLOCKS) == (12, 12)
    assert ranges(BLOCKS, rows) == (12, 1)
    assert ranges(Placement(Order.BLOCK_FIRST, run_blocks=4), Placement(Order.BLOCK_FIRST, run_blocks=6)) == (4, 2)
    assert ranges(Placement(Order.LAYER_FIRST, True, 12), rows) == (12 * 72, 1)
    assert ranges(Placement(Order.LAYER_FIRST, True, 12), Placement(Order.LAYER_FIRST, False, 12)) == (72, 72)


def test_one_layer_of_neighbouring_whole_blocks_is_strided() -> None:
    rows = Placement(Order.BLOCK_FIRST, run_blocks=12)
    shape = KvTransfer(KvCache(QWEN, device=rows, host=rows), 12, layers=1).shape(Direction.H2D)
    assert (shape.merged_ranges, shape.average_range_bytes, shape.pitch) == (12, 64 << 10, 2304 << 10)
    scattered = KvTransfer(KvCache(QWEN, device=rows), 12, layers=1).shape(Direction.H2D)
    assert scattered.pitch is None


def test_what_no_cache_is_like_is_refused() -> None:
    cache = KvCache(QWEN)
    for wrong in (
        lambda: KvModel(0, Heads(8, 128)),
        lambda: Heads(0, 128),
        lambda: Heads(8, MOST + 1),
        lambda: Latent(0),
        lambda: Latent(512, -1),
        lambda: Placement(Order.BLOCK_FIRST, run_blocks=0),
        lambda: KvCache(QWEN, block_tokens=0),
        lambda: KvCache(QWEN, ranks=3),
        lambda: KvCache(QWEN, ranks=12),
        lambda: KvTransfer(cache, 0),
        lambda: KvTransfer(cache, 1, layers=37),
        lambda: KvTransfer(cache, 1, layers=0),
    ):
        with pytest.raises(UsageError):
            wrong()
