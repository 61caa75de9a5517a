"""The KV caches of well-known models."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from pega_tune.autotune.kv.model import Heads, KvModel, Latent
from pega_tune.errors import UsageError


@dataclass(frozen=True, slots=True)
class KvPreset:
    """A model, and where its numbers are published.

    Attributes:
        model: its cache, in bf16.
        source: of layers and heads, or of layers and latent.
    """

    model: KvModel
    source: str


_LLAMA_3: Final = "arXiv:2407.21783, table 3; heads of 128 are its model dimension over its attention heads"
_QWEN_25: Final = "arXiv:2412.15115, table 1; head_dim is hidden_size / num_attention_heads of config.json"
_QWEN_3: Final = "arXiv:2505.09388, tables 1 and 2; head_dim of config.json"


def _heads(layers: int, kv_heads: int, head_dim: int, source: str) -> KvPreset:
    return KvPreset(KvModel(layers, Heads(kv_heads, head_dim)), source)


def _latent(layers: int, source: str) -> KvPreset:
    return KvPreset(KvModel(layers, Latent(512, 64)), source)


PRESETS: Final[Mapping[str, KvPreset]] = MappingProxyType(
    {
        "qwen3-0.6b": _heads(28, 8, 128, _QWEN_3),
        "qwen3-1.7b": _heads(28, 8, 128, _QWEN_3),
        "qwen3-4b": _heads(36, 8, 128, _QWEN_3),
        "qwen3-8b": _heads(36, 8, 128, _QWEN_3),
        "qwen3-14b": _heads(40, 8, 128, _QWEN_3),
        "qwen3-32b": _heads(64, 8, 128, _QWEN_3),
        "qwen3-30b-a3b": _heads(48, 4, 128, _QWEN_3),
        "qwen3-235b-a22b": _heads(94, 4, 128, _QWEN_3),
        "qwen2.5-0.5b": _heads(24, 2, 64, _QWEN_25),
        "qwen2.5-1.5b": _heads(28, 2, 128, _QWEN_25),
        "qwen2.5-3b": _heads(36, 2, 128, _QWEN_25),
        "qwen2.5-7b": _heads(28, 4, 128, _QWEN_25),
        "qwen2.5-14b": _heads(48, 8, 128, _QWEN_25),
        "qwen2.5-32b": _heads(64, 8, 128, _QWEN_25),
        "qwen2.5-72b": _heads(80, 8, 128, _QWEN_25),
        "llama-3.1-8b": _heads(32, 8, 128, _LLAMA_3),
        "llama-3.1-70b": _heads(80, 8, 128, _LLAMA_3),
        "llama-3.1-405b": _heads(126, 8, 128, _LLAMA_3),
        "deepseek-v2-lite": _latent(27, "arXiv:2405.04434, appendix B: latent of 512, rotated key of 64"),
        "deepseek-v3": _latent(61, "arXiv:2412.19437, section 4.2: latent of 512, rotated key of 64"),
    }
)
"""By name."""


def find_preset(name: str) -> KvPreset:
    """The preset of a name.

    Raises:
        UsageError: there is none.
    """
    if name not in PRESETS:
        hint = f"choose one of: {', '.join(PRESETS)}; or give --layers and what they keep"
        raise UsageError(f"the KV cache of {name!r} is not known", hint)
    return PRESETS[name]
