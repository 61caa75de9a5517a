from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pega_tune.errors import UsageError
from pega_tune.kernels.decode.models import LAYER, PRESETS, DecodeModel, Operation, StepKind

QWEN, LLAMA, SMALL, PREFILL = (PRESETS[name] for name in ("qwen3-4b", "llama-3.1-8b", "small", "prefill"))
eights = st.integers(1, 512).map(lambda n: 8 * n)


@st.composite
def models(draw: st.DrawFn) -> DecodeModel:
    kv_heads = draw(st.integers(1, 16))
    return DecodeModel(
        layers=draw(st.integers(1, 100)),
        hidden=draw(eights),
        heads=kv_heads * draw(st.integers(1, 8)),
        kv_heads=kv_heads,
        head_dim=draw(eights),
        ffn=draw(eights),
        vocabulary=draw(eights),
        context=draw(st.integers(1, 10_000)),
        batch=draw(st.integers(1, 64)),
        kind=draw(st.sampled_from(StepKind)),
    )


@given(models())
def test_a_key_says_the_whole_model(model):
    assert DecodeModel.parse(model.key) == model


@pytest.mark.parametrize("name", list(PRESETS))
def test_presets_go_by_their_names(name):
    assert DecodeModel.parse(name) == PRESETS[name]
    assert DecodeModel.parse(f"{name}, context=64 ,batch=2") == replace(PRESETS[name], context=64, batch=2)


def test_free_parameters_change_the_default_model():
    assert DecodeModel.parse("layers=4,hidden=1024") == replace(QWEN, layers=4, hidden=1024)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("gpt-7", "no decode model 'gpt-7'"),
        ("", "no decode model ''"),
        ("layers=4,depth=2", "has no 'depth=2'"),
        ("qwen3-4b,layers", "has no 'layers'"),
        ("layers=4,layers=5", "layers of the decode model is given twice"),
        ("layers=four", "layers of a decode model is a whole number, not 'four'"),
        ("layers=-1", "not '-1'"),
        ("layers=0", "1 to 16777216 layers, not 0"),
        ("hidden=100", "hidden of a model is a multiple of 8, not 100"),
        ("heads=9", "9 heads cannot share 8 KV heads evenly"),
        ("kind=train", "decode or prefill, not 'train'"),
        ("layers=٤", "whole number"),
    ],
)
def test_what_is_no_model_is_refused_in_one_line(text, message):
    with pytest.raises(UsageError, match=message) as caught:
        DecodeModel.parse(text)
    assert "\n" not in caught.value.message


def test_an_unknown_name_is_answered_with_those_there_are():
    with pytest.raises(UsageError) as caught:
        DecodeModel.parse("gpt-7")
    assert all(name in caught.value.hint for name in PRESETS)


@pytest.mark.parametrize(("model", "billions"), [(QWEN, 4.0), (LLAMA, 8.0)])
def test_the_weights_are_as_many_as_the_model_is_said_to_have(model, billions):
    # Of Llama the table of embeddings comes on top, which a step does not read; Qwen3-4B uses its head for that.
    embedding = 0 if model is QWEN else model.vocabulary * model.hidden
    parameters = (model.layers * model.layer_weight_bytes + model.head_bytes) // 2 + embedding
    assert round(parameters / 1e9, 1) == billions


@given(models())
def test_a_step_reads_every_weight_and_the_whole_cache_once(model):
    matrices = [model.weight_bytes(operation) for operation in LAYER]
    cache = 2 * 2 * model.batch * model.context * model.kv_heads * model.head_dim
    assert model.layer_bytes == sum(matrices) + cache
    assert model.step_bytes - model.head_bytes == model.layers * model.layer_bytes
    assert replace(model, layers=2 * model.layers).step_bytes - model.step_bytes == model.layers * model.layer_bytes


@given(models())
def test_only_products_have_weights(model):
    have = {operation for operation in LAYER if model.weight_bytes(operation)}
    assert have == {Operation.QKV, Operation.OUTPUT, Operation.GATE_UP, Operation.DOWN}


@given(models())
def test_an_operation_has_a_matrix_or_works_on_elements_or_on_rows(model):
    others = {op for op in LAYER if not (model.weight_bytes(op) or model.element_width(op))}
    assert others == {Operation.NORM, Operation.HEAD_NORM, Operation.FFN_NORM, Operation.ATTENTION, Operation.MERGE}
    assert not any(model.weight_bytes(op) and model.element_width(op) for op in LAYER)
    written = model.element_width(Operation.KEYS) + model.element_width(Operation.VALUES)
    assert model.query_width + written == model.qkv_width


def test_a_decode_step_is_bound_by_memory_and_a_prefill_step_by_arithmetic():
    # An H200 makes about 200 operations in bf16 for each byte that it reads: 989 TFLOP/s, 4.8 TB/s.
    for model in (QWEN, LLAMA, SMALL):
        assert model.step_flops / model.step_bytes < 10
    assert PREFILL.step_flops / PREFILL.step_bytes > 200


def test_the_small_preset_fits_any_gpu():
    assert SMALL.step_bytes < 256 << 20
