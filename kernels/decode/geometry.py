"""How the kernels of a step share their work: threads, CTAs, loads in flight. Standard library only."""

from dataclasses import dataclass
from typing import Final

from pega_tune.kernels.decode.models import ELEMENT_BYTES, DecodeModel

THREADS: Final = 256
"""Threads of every CTA, but those of the products of a decode step and those of `ROW_THREADS`."""

ROW_THREADS: Final = 128
"""Threads of a CTA of a norm, and of element-wise work: as many as all such kernels of the torch step had but one."""

ROW_VALUES: Final = 4
"""Values that a thread of `scale` makes one after the other: as many as in PyTorch's kernel for strided tensors."""

WARP: Final = 32
WARPS: Final = THREADS // WARP

UNIT_BYTES: Final = 16
"""What a thread reads at once."""

CTAS_PER_SM: Final = 4
"""CTAs that the registers let run on an SM, and those of the widest launches of a prefill. Not of the products of a
decode step, of whose CTAs an SM holds one."""

# Below: in what portions a decode step reads, on which it depends what transfers cost it. The products of real layers
# are one wave of fat CTAs, none of which shares an SM with another, and those of a layer leave SMs free: somebody else
# may take one, and no CTA waits for it. Their loads run far ahead of the arithmetic, through 160 to 225 KB of shared
# memory per CTA. So the latency that transfers add to every load is hidden as long as memory keeps up, where threads
# with one load each on its way pay all of it. Here registers hold what is on its way.
# Source of the shapes: H200, 2026-11-30, kernels of the captured torch step of qwen3-4b. Of its products, those of a
# layer ran 96, 80, 104 and 100 CTAs of 384 threads, in tiles of 64, 64, 192 and 128 rows; the second and the last had K
# split in 2 and 5, and a kernel that added the parts: 80 CTAs of 16 warps. The head ran 132 CTAs, one per SM. Clusters
# had 4 CTAs, those of the head 2. That step had 727 nodes.

# What may be calibrated on a GPU, against `torch_probe`: the next six constants, and nothing else. Any of their values
# gives right products; tests say which the plans do not allow. On an H200 a product of a layer reads as many bytes at a
# time as `LAYER_SM_PERCENT` of the SMs times `PRODUCT_THREADS` times `LANE_LOADS` units: fewer make it slower.

PRODUCT_THREADS: Final = 512
"""Threads of a CTA of a product: with `LANE_LOADS` each, 128 KiB of weights are on their way, where the stages of the
torch step hold 128 to 192 KiB. To read 3.3 TB/s at 0.8 us takes 27 KiB in each of 100 CTAs; the rest is for latency
that others add. A multiple of 32, for which nothing spills: of 1,024 threads none has registers for 16 loads."""

LANE_UNITS: Final = 4
"""Units of a row that a lane reads in a pass, 1 to 4: a warp reads so many times 512 bytes of every row."""

LAYER_SM_PERCENT: Final = 80
"""Of the SMs, what a product of a layer takes at most: 80 to 104 of 132 in the torch step."""

LAYER_CLUSTER: Final = 4
"""CTAs of a cluster of a product of a layer, which begin together, on SMs of one GPC: where they run, and what they
have to wait for when another kernel has taken an SM, is as in the torch step. Source: 4x1 in the names of its
kernels."""

HEAD_CLUSTER: Final = 2
"""CTAs of a cluster of the head. Source: likewise, 2x1."""

PRODUCT_SHARED_PERCENT: Final = 0
"""Of the shared memory that a CTA may have, what one of a product asks for, and leaves alone. A CTA that takes more
than half of the registers of an SM, as 512 threads with 16 loads each do, is the only such one there anyway. A smaller
one needs more than 50; the CTAs of the torch step had 71 to 97. L1 becomes as much smaller."""

PRODUCT_WARPS: Final = PRODUCT_THREADS // WARP

GROUP_ROWS: Final = 4
"""Rows of a matrix that a warp multiplies at once, written out in `products`; any number of rows is a multiple of 8."""

LANE_LOADS: Final = GROUP_ROWS * LANE_UNITS
"""Units of weights that a thread waits for at once, and `LANE_UNITS` of the vector."""

PASS_UNITS: Final = WARP * LANE_UNITS
"""Units of a row that a warp reads in a pass."""

TILE_ROWS: Final = 64
"""Of which the rows of a CTA are a multiple: the smallest tile of the torch step, and a group for each of 16 warps."""

MOST_PARTS: Final = 16
"""Of a split of K: the kernel that adds them has a warp for each, as that of the torch step had."""

PART_VALUES: Final = 1920
"""Of K, those that a part has at least, but for rounding to passes: 30 blocks of 64, as the torch step multiplies them.
Its parts had 1946 and 2048."""


@dataclass(frozen=True, slots=True)
class Split:
    """How a product is cut into CTAs.

    Attributes:
        block_rows: rows of a CTA, of a part of K; the last CTAs of a part may have fewer, or none.
        columns: CTAs that share the rows, in whole clusters.
        parts: into how many K is split, each of which has as many CTAs.
        passes: the most that a warp makes over a group of rows.
        cluster: CTAs of a cluster.
    """

    block_rows: int
    columns: int
    parts: int
    passes: int
    cluster: int

    @property
    def largest(self) -> int:
        """Rows times passes of the CTA that the others wait for."""
        return self.block_rows * self.passes

    @classmethod
    def of(cls, shape: tuple[int, int], widest: int) -> "Split":
        """The split of a product of a layer whose largest CTA is the smallest, with the fewest parts that give it.

        A matrix stays whole where a split does not take a quarter off its largest CTA, for another kernel has to add
        the parts. For the torch step of qwen3-4b on an H200 this gives the tiles, parts and clusters that it had.

        Args:
            shape: widths of the input and the output.
            widest: the most CTAs, at least 1; a cluster is not cut, though.
        """
        whole = cls.whole(shape, widest)
        most = min(MOST_PARTS, shape[0] // PART_VALUES, whole.passes, widest // LAYER_CLUSTER)
        parted = (cls._into(parts, shape, widest, LAYER_CLUSTER) for parts in range(2, most + 1))
        best = min((whole, *parted), key=lambda split: split.largest)
        return best if 4 * best.largest <= 3 * whole.largest else whole

    @classmethod
    def whole(cls, shape: tuple[int, int], widest: int) -> "Split":
        """As `of`, with K in one part."""
        return cls._into(1, shape, widest, LAYER_CLUSTER)

    @classmethod
    def head(cls, shape: tuple[int, int], sms: int) -> "Split":
        """The one of the head: a CTA for each SM, K in one part."""
        return cls._into(1, shape, sms, HEAD_CLUSTER)

    @classmethod
    def _into(cls, parts: int, shape: tuple[int, int], widest: int, cluster: int) -> "Split":
        passes = -(-shape[0] * ELEMENT_BYTES // (UNIT_BYTES * PASS_UNITS))
        tiles, clusters = -(-shape[1] // TILE_ROWS), max(1, widest // parts // cluster)
        columns = cluster * min(clusters, -(-tiles // cluster))
        columns = cluster * -(-tiles // (cluster * -(-tiles // columns)))
        return cls(TILE_ROWS * -(-tiles // columns), columns, parts, -(-passes // parts), cluster)


def layer_ctas(sms: int) -> int:
    """The most CTAs of a product of a layer: `LAYER_SM_PERCENT` of the SMs."""
    return max(1, LAYER_SM_PERCENT * sms // 100)


def widest_blocks(sms: int) -> int:
    """CTAs that a device holds at once."""
    return CTAS_PER_SM * sms


CHUNK_TOKENS: Final = 128
"""Tokens whose keys and values one CTA reads: the block of keys of FlashAttention 2 for heads of 128 values, down to
which it splits the cache of one sequence when SMs would be idle."""


def chunks(model: DecodeModel) -> int:
    """CTAs that share the keys and values of one KV head of one sequence."""
    return -(-model.context // CHUNK_TOKENS)


def attention_blocks(model: DecodeModel) -> int:
    """CTAs of the attention of one layer for one token per sequence."""
    return model.batch * model.kv_heads * chunks(model)
