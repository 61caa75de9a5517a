"""How the kernels of a step share their work: threads, CTAs, loads in flight. Standard library only."""

from typing import Final

from pega_tune.kernels.decode.models import DecodeModel

THREADS: Final = 256
"""Threads of every CTA."""

WARP: Final = 32
WARPS: Final = THREADS // WARP

UNIT_BYTES: Final = 16
"""What a thread reads at once."""

CTAS_PER_SM: Final = 4
"""CTAs that the registers let run on an SM, and those of the widest launches of a prefill."""

# Below: in what portions a decode step reads. Real layers stay far below a GPU's bandwidth (those of qwen3-4b took
# 4.12 ms on an H200, which is 2.0 TB/s), and cut a matrix into CTAs that go to whichever SM has room: an SM that
# somebody else has taken then costs one SM's worth, where a grid with a fixed share per SM would wait for it. A step
# lasts about bytes / bandwidth + launches x 1.5 us there: 364 launches of 8.35 GB that kept memory busy took 2.52 ms.

LOADS_IN_FLIGHT: Final = 1
"""Units of 16 bytes of weights, and as many of inputs, that a thread of a product waits for at once: 1, 2, 4 or 8.

A step of qwen3-4b, 652 launches, lasted 3.24 ms with 1 and 3.03 ms with 2, where real layers took 4.12 ms (H200,
2026-11-30, `tests/bench/decode.py`).
"""

LOADS_PER_ROW: Final = 12
"""The most units of its row that a thread of a product reads: longer rows go to more warps, and CTAs stay short."""

CHUNK_TOKENS: Final = 128
"""Tokens whose keys and values one CTA reads: the block of keys of FlashAttention 2 for heads of 128 values, down to
which it splits the cache of one sequence when SMs would be idle."""


def team_log2_of(row_bytes: int) -> int:
    """Log2 of the threads that share a row of a product: as few warps as keep to `LOADS_PER_ROW`, at most a CTA."""
    warps = -(-row_bytes // (UNIT_BYTES * WARP * LOADS_PER_ROW))
    return min(WARP << (warps - 1).bit_length(), THREADS).bit_length() - 1


def chunks(model: DecodeModel) -> int:
    """CTAs that share the keys and values of one KV head of one sequence."""
    return -(-model.context // CHUNK_TOKENS)


def attention_blocks(model: DecodeModel) -> int:
    """CTAs of the attention of one layer for one token per sequence."""
    return model.batch * model.kv_heads * chunks(model)
