"""`pega-tune shape`."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from pega_tune.autotune.cli.options import given
from pega_tune.autotune.cli.session import session_of
from pega_tune.autotune.cli.shapes_file import shape_document
from pega_tune.autotune.cli.units import format_size
from pega_tune.errors import UsageError
from pega_tune.kernels.shape import Direction
from pega_tune.profiles.policy.explain import counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pega_tune.autotune.kv.model import Attention, KvModel
    from pega_tune.autotune.kv.placement import Order
    from pega_tune.autotune.kv.presets import KvPreset
    from pega_tune.autotune.kv.transfer import KvCache, KvTransfer

W = TypeVar("W", bound=StrEnum)

_BLOCK_TOKENS = 16  # vLLM's default
_LATENT_BLOCK_TOKENS = 64  # what FlashMLA's kernels take
_MODEL_HINT = "give --preset NAME, or --layers with --kv-heads and --head-dim, or --layers with --mla-rank"


def add_to(app: typer.Typer) -> None:
    """Registers the command."""
    app.command("shape")(shape)


def shape(
    context: typer.Context,
    preset: Annotated[str | None, typer.Option(metavar="MODEL", help="A well-known model, e.g. qwen3-4b.")] = None,
    layers: Annotated[int | None, typer.Option(metavar="N", help="Layers that have a KV cache.")] = None,
    kv_heads: Annotated[int | None, typer.Option(metavar="N", help="KV heads of the whole model.")] = None,
    head_dim: Annotated[int | None, typer.Option(metavar="N", help="Values of a head.")] = None,
    mla_rank: Annotated[int | None, typer.Option(metavar="N", help="Of MLA: values of the latent.")] = None,
    rope_dim: Annotated[
        int | None, typer.Option(metavar="N", help="Of MLA: values of the rotated key.  [default: 64]")
    ] = None,
    dtype: Annotated[
        str | None, typer.Option(metavar="bf16|fp16|fp32|fp8|int8", help="Of the cache.  [default: bf16]")
    ] = None,
    tp: Annotated[int, typer.Option(metavar="N", help="Ranks of tensor parallelism; shapes are of one rank.")] = 1,
    block_tokens: Annotated[
        int | None, typer.Option(metavar="N", help="Tokens of a block.  [default: 16; of MLA 64]")
    ] = None,
    blocks: Annotated[str, typer.Option(metavar="N,...", help="Blocks of a transfer.")] = "128",
    layout: Annotated[
        str, typer.Option(metavar="layer-first|block-first", help="What lies together on the device.")
    ] = "layer-first",
    kv: Annotated[
        str | None,
        typer.Option(
            metavar="separate|together",
            help="Keys and values on the device.  [default: separate; where blocks come first, together]",
        ),
    ] = None,
    host_layout: Annotated[
        str, typer.Option(metavar="layer-first|block-first", help="What lies together on the host.")
    ] = "block-first",
    run_blocks: Annotated[
        int, typer.Option(metavar="N", help="Blocks in neighbouring slots on the device; 1 are scattered.")
    ] = 1,
    host_run_blocks: Annotated[int, typer.Option(metavar="N", help="The same on the host.")] = 1,
    layers_at_once: Annotated[
        int | None, typer.Option(metavar="N", help="Layers of a transfer.  [default: all]")
    ] = None,
    direction: Annotated[
        str, typer.Option(metavar="h2d|d2h|both,...", help="A line each: load, save, or both at once.")
    ] = "h2d,d2h",
) -> None:
    """Tell the shapes of a model's KV-cache transfers.

    One JSON object a line, as --shapes FILE takes them. What is given beside --preset differs from it.
    """
    from pega_tune.autotune.kv.model import DataType
    from pega_tune.autotune.kv.placement import Order, Placement
    from pega_tune.autotune.kv.transfer import KvCache, KvTransfer

    heads = given({"kv_heads": kv_heads, "head_dim": head_dim})
    latent = given({"mla_rank": mla_rank, "rope_dim": rope_dim})
    asked = {"layers": layers, "dtype": None if dtype is None else _word(DataType, "--dtype", dtype)}
    known = _known(preset, given(asked), _Kept(heads, latent))
    order = _word(Order, "--layout", layout)
    cache = KvCache(
        known.model,
        _default_tokens(known.model) if block_tokens is None else block_tokens,
        tp,
        Placement(order, _is_split(order, kv), run_blocks),
        Placement(_word(Order, "--host-layout", host_layout), run_blocks=host_run_blocks),
    )
    transfers = [KvTransfer(cache, count, layers_at_once) for count in _counts(blocks)]
    directions = [_word(Direction, "--direction", word) for word in _items("--direction", direction)]
    shapes = [shape_document(each.shape(way)) for each in transfers for way in directions]
    output = session_of(context).output
    for line in _notes(known, transfers):
        output.note(line)
    output.answer({**_document(known, cache), "shapes": shapes}, map(json.dumps, shapes))


class _Kv(StrEnum):
    SEPARATE = "separate"
    TOGETHER = "together"


@dataclass(frozen=True, slots=True)
class _Kept:
    """What the user wrote of what a layer keeps of a token."""

    heads: dict[str, Any]
    latent: dict[str, Any]

    def attention(self, preset: Attention | None) -> Attention:
        """As written, and else as in the preset.

        Raises:
            UsageError: that is not all of it, or too much.
        """
        from pega_tune.autotune.kv.model import Heads, Latent

        if self.heads and self.latent:
            raise UsageError("a cache holds keys and values of heads, or the latents of MLA, not both", _MODEL_HINT)
        if preset is not None and isinstance(preset, Latent if self.latent else Heads if self.heads else object):
            return replace(preset, **self.heads, **self.latent)
        if "mla_rank" in self.latent:
            return Latent(**self.latent)
        if self.heads.keys() == {"kv_heads", "head_dim"}:
            return Heads(**self.heads)
        raise UsageError("what a layer keeps of a token is not known", _MODEL_HINT)


def _known(name: str | None, asked: dict[str, Any], kept: _Kept) -> KvPreset:
    """The model: a preset, what differs from it, or something new."""
    from pega_tune.autotune.kv.model import KvModel
    from pega_tune.autotune.kv.presets import KvPreset, find_preset

    if name is not None:
        preset = find_preset(name)
        model = replace(preset.model, **asked, attention=kept.attention(preset.model.attention))
        return preset if model == preset.model else KvPreset(model, f"but for what was given: {preset.source}")
    if "layers" not in asked:
        raise UsageError("no model was named", _MODEL_HINT)
    return KvPreset(KvModel(attention=kept.attention(None), **asked), "as given")


def _default_tokens(model: KvModel) -> int:
    from pega_tune.autotune.kv.model import Latent

    return _LATENT_BLOCK_TOKENS if isinstance(model.attention, Latent) else _BLOCK_TOKENS


def _is_split(order: Order, kv: str | None) -> bool:
    from pega_tune.autotune.kv.placement import Order

    return order is Order.LAYER_FIRST if kv is None else _word(_Kv, "--kv", kv) is _Kv.SEPARATE


def _word(kind: type[W], option: str, word: str) -> W:
    if word not in tuple(kind):
        raise UsageError(f"{option} has no {word!r}", f"choose one of: {', '.join(kind)}")
    return kind(word)


def _items(option: str, text: str) -> list[str]:
    """The items of a list, each once."""
    items = [item.strip() for item in text.split(",") if item.strip()]
    if not items:
        raise UsageError(f"{option} names nothing")
    return list(dict.fromkeys(items))


def _counts(text: str) -> list[int]:
    items = _items("--blocks", text)
    for item in items:
        if not (item.isascii() and item.isdecimal() and len(item) < 20):
            raise UsageError(f"--blocks has whole numbers, not {item!r}", "write it like 16,128")
    return [int(item) for item in items]


def _document(known: KvPreset, cache: KvCache) -> dict[str, Any]:
    model = known.model
    return {
        "model": {"layers": model.layers, **asdict(model.attention), "dtype": str(model.dtype), "source": known.source},
        "tp": cache.ranks,
        "block_tokens": cache.block_tokens,
        "token_bytes": model.token_bytes(cache.ranks),
    }


def _notes(known: KvPreset, transfers: Sequence[KvTransfer]) -> Iterator[str]:
    """What people may want to know beside the lines."""
    model, cache = known.model, transfers[0].cache
    kept = ", ".join(f"{name} {value}" for name, value in asdict(model.attention).items())
    yield f"model: {counted(model.layers, 'layer')}, {kept}, {model.dtype} ({known.source})"
    token = format_size(model.token_bytes(cache.ranks))
    rank = " on each rank" if cache.ranks > 1 else ""
    yield f"cache: {token} per token{rank}, in blocks of {counted(cache.block_tokens, 'token')}"
    for transfer in transfers:
        load = transfer.shape(Direction.H2D)
        size = format_size(load.average_range_bytes)
        about = "" if load.total_bytes % load.merged_ranges == 0 else "about "
        ranges, runs = counted(load.merged_ranges, "range"), counted(load.host_runs or 0, "host run")
        yield f"{counted(transfer.blocks, 'block')}: {ranges} of {about}{size}, {runs}"
