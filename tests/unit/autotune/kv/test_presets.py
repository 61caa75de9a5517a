"""Well-known models."""

import pytest

from pega_tune.autotune.kv.model import DataType, Heads, KvModel, Latent
from pega_tune.autotune.kv.presets import PRESETS, find_preset
from pega_tune.errors import UsageError
from pega_tune.kernels.decode.models import PRESETS as DECODE_PRESETS


@pytest.mark.parametrize(
    ("name", "token_bytes"),
    [
        # What the model's own reports or other engines say of a token.
        ("qwen3-4b", 147_456),  # 144 KiB
        ("llama-3.1-8b", 131_072),  # 128 KiB
        ("llama-3.1-70b", 327_680),  # 320 KiB
        ("deepseek-v3", 70_272),  # 70.272 KB: arXiv:2505.09343, table 1
        ("llama-3.1-405b", 516_096),  # 516.096 KB: the same
        ("qwen2.5-72b", 327_680),  # 327.680 KB: the same
    ],
)
def test_a_token_takes_what_is_published(name: str, token_bytes: int) -> None:
    assert find_preset(name).model.token_bytes() == token_bytes


def test_models_that_decode_have_the_same_cache() -> None:
    shared = PRESETS.keys() & DECODE_PRESETS.keys()
    assert shared >= {"qwen3-4b", "llama-3.1-8b"}
    for name in shared:
        decode = DECODE_PRESETS[name]
        assert PRESETS[name].model == KvModel(decode.layers, Heads(decode.kv_heads, decode.head_dim))


def test_every_number_has_a_source() -> None:
    assert all("arXiv:" in preset.source for preset in PRESETS.values())


def test_an_unknown_model_is_told_with_the_known_ones() -> None:
    with pytest.raises(UsageError, match="'gpt-9' is not known") as refused:
        find_preset("gpt-9")
    assert "qwen3-4b" in refused.value.hint


@pytest.mark.parametrize(("dtype", "nbytes"), [("bf16", 2), ("fp16", 2), ("fp32", 4), ("fp8", 1), ("int8", 1)])
def test_a_latent_takes_its_values(dtype: str, nbytes: int) -> None:
    model = KvModel(2, Latent(512), DataType(dtype))
    assert model.token_bytes(8) == model.token_bytes() == 2 * 576 * nbytes
