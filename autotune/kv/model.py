"""What a model keeps of a token in its KV cache."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeAlias

from pega_tune.errors import UsageError

MOST: Final = 1 << 24
"""Of every count: no model and no pool comes near."""


class DataType(StrEnum):
    """Of the values in the cache."""

    BF16 = "bf16"
    FP16 = "fp16"
    FP32 = "fp32"
    FP8 = "fp8"
    INT8 = "int8"

    @property
    def nbytes(self) -> int:
        """Bytes of one value."""
        return {DataType.FP32: 4, DataType.FP8: 1, DataType.INT8: 1}.get(self, 2)


@dataclass(frozen=True, slots=True)
class Heads:
    """Keys and values of every KV head: multi-head, grouped-query or multi-query attention.

    Attributes:
        kv_heads: heads of keys, and as many of values.
        head_dim: values of one.

    Raises:
        UsageError: a number is out of range.
    """

    kv_heads: int
    head_dim: int

    def __post_init__(self) -> None:
        require("KV heads", self.kv_heads)
        require("values in a head", self.head_dim)

    @property
    def planes(self) -> int:
        """Keys and values."""
        return 2

    def values(self, ranks: int) -> int:
        """Values of a token in one plane of one layer, on one of `ranks` ranks of tensor parallelism.

        The heads are divided among the ranks. With fewer heads than ranks, each head is on several of them.

        Raises:
            UsageError: they cannot be divided evenly.
        """
        if self.kv_heads % ranks and ranks % self.kv_heads:
            raise UsageError(f"{self.kv_heads} KV heads cannot be divided among {ranks} ranks evenly")
        return max(1, self.kv_heads // ranks) * self.head_dim


@dataclass(frozen=True, slots=True)
class Latent:
    """One latent vector and one rotated key, shared by all heads: multi-head latent attention (MLA).

    Attributes:
        mla_rank: values of the latent.
        rope_dim: values of the rotated key.

    Raises:
        UsageError: a number is out of range.
    """

    mla_rank: int
    rope_dim: int = 64

    def __post_init__(self) -> None:
        require("values in a latent", self.mla_rank)
        if not 0 <= self.rope_dim <= MOST:
            raise UsageError(f"a rotated key has 0 to {MOST} values, not {self.rope_dim}")

    @property
    def planes(self) -> int:
        """Both are one vector."""
        return 1

    def values(self, ranks: int) -> int:  # noqa: ARG002  (as in `Heads`)
        """Values of a token in one layer: on every rank the same, as no head owns them."""
        return self.mla_rank + self.rope_dim


Attention: TypeAlias = Heads | Latent


@dataclass(frozen=True, slots=True)
class KvModel:
    """A model as its KV cache sees it.

    Attributes:
        layers: that have a cache.
        attention: what each keeps of a token.
        dtype: of the values.

    Raises:
        UsageError: a number is out of range.
    """

    layers: int
    attention: Attention
    dtype: DataType = DataType.BF16

    def __post_init__(self) -> None:
        require("layers", self.layers)

    def slice_bytes(self, tokens: int, ranks: int = 1) -> int:
        """Bytes of `tokens` tokens in one plane of one layer, on one rank.

        Raises:
            UsageError: the KV heads cannot be divided among the ranks.
        """
        return tokens * self.attention.values(ranks) * self.dtype.nbytes

    def token_bytes(self, ranks: int = 1) -> int:
        """Bytes of one token in all layers, on one rank.

        Raises:
            UsageError: the KV heads cannot be divided among the ranks.
        """
        return self.layers * self.attention.planes * self.slice_bytes(1, ranks)


def require(what: str, count: int) -> None:
    """Refuses a count that no model or cache has.

    Args:
        what: is counted, in words.
        count: the number.

    Raises:
        UsageError: it is not 1 to `MOST`.
    """
    if not 1 <= count <= MOST:
        raise UsageError(f"the number of {what} is 1 to {MOST}, not {count}")
