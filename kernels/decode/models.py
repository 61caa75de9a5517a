"""The models whose steps the decode probe imitates: their dimensions, and the bytes and operations that follow.

Standard library only.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final

from pega_tune.errors import UsageError

ELEMENT_BYTES: Final = 2
"""Of a bf16 value, in which weights, activations and the KV cache are."""

_LANES: Final = 8  # bf16 values in one load of 16 bytes
_MOST: Final = 1 << 24  # of any dimension: no model comes near, and no product of two leaves 64 bits


class StepKind(StrEnum):
    """What a step is bound by."""

    DECODE = "decode"
    PREFILL = "prefill"


class Operation(StrEnum):
    """One call of a layer, in the order of `LAYER`."""

    NORM = "norm"
    QKV = "qkv"
    HEAD_NORM = "head-norm"
    SWAP = "swap"
    COSINE = "cosine"
    SINE = "sine"
    KEYS = "keys"
    VALUES = "values"
    ATTENTION = "attention"
    MERGE = "merge"
    OUTPUT = "output"
    RESIDUAL = "residual"
    FFN_NORM = "ffn-norm"
    GATE_UP = "gate-up"
    GATE = "gate"
    ACTIVATION = "activation"
    DOWN = "down"
    FFN_RESIDUAL = "ffn-residual"


LAYER: Final = tuple(Operation)
"""What the layers of `torch_probe` launch: a kernel per call, and one more to add the parts of a product whose K is
split, which is up to the device. The rotation of queries and keys swaps halves and multiplies twice; keys and values go
to the cache; attention over a long context is split over the cache and merged."""

NORMS: Final = (Operation.NORM, Operation.HEAD_NORM, Operation.FFN_NORM)
"""Those of a layer."""


@dataclass(frozen=True, slots=True)
class DecodeModel:
    """The dimensions of a dense transformer with grouped-query attention and a gated FFN, and of one of its steps.

    Attributes:
        layers: transformer blocks.
        hidden: width of the residual stream, a multiple of 8 like every other width.
        heads: of queries; a multiple of `kv_heads`.
        kv_heads: of keys and values.
        head_dim: width of a head.
        ffn: width of the FFN.
        vocabulary: rows of the head.
        context: tokens whose keys and values a decode step reads; of a prefill step, the tokens of a prompt.
        batch: sequences in a step.
        kind: `decode` makes one token per sequence, and is bound by memory; `prefill` takes the prompts in, and is
            bound by arithmetic.

    Raises:
        UsageError: a dimension is out of range, or does not fit the others.
    """

    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    vocabulary: int
    context: int
    batch: int = 1
    kind: StepKind = StepKind.DECODE

    def __post_init__(self) -> None:
        for name in _DIMENSIONS:
            value = getattr(self, name)
            if not 1 <= value <= _MOST:
                raise UsageError(f"a model has 1 to {_MOST} {name}, not {value}")
        for name in ("hidden", "head_dim", "ffn", "vocabulary"):
            if getattr(self, name) % _LANES:
                raise UsageError(f"{name} of a model is a multiple of {_LANES}, not {getattr(self, name)}")
        if self.heads % self.kv_heads:
            raise UsageError(f"{self.heads} heads cannot share {self.kv_heads} KV heads evenly")

    @property
    def key(self) -> str:
        """The whole model as text, from which `parse` makes an equal one."""
        return ",".join(f"{field.name}={getattr(self, field.name)}" for field in fields(self))

    @property
    def tokens(self) -> int:
        """Rows of activations in a step."""
        return self.batch * (self.context if self.kind is StepKind.PREFILL else 1)

    @property
    def query_width(self) -> int:
        """Values of the queries of one token."""
        return self.heads * self.head_dim

    @property
    def qkv_width(self) -> int:
        """Values of the queries, keys and values of one token."""
        return (self.heads + 2 * self.kv_heads) * self.head_dim

    def matrix_shape(self, operation: Operation) -> tuple[int, int]:
        """Widths of the input and the output of the matrix that an operation multiplies by; zeros if there is none."""
        shapes = {
            Operation.QKV: (self.hidden, self.qkv_width),
            Operation.OUTPUT: (self.query_width, self.hidden),
            Operation.GATE_UP: (self.hidden, 2 * self.ffn),
            Operation.DOWN: (self.ffn, self.hidden),
        }
        return shapes.get(operation, (0, 0))

    def element_width(self, operation: Operation) -> int:
        """Values per token that an element-wise operation makes; 0 of any other operation."""
        turned, written = (self.heads + self.kv_heads) * self.head_dim, self.kv_heads * self.head_dim
        widths = {
            Operation.SWAP: turned,
            Operation.COSINE: turned,
            Operation.SINE: turned,
            Operation.KEYS: written,
            Operation.VALUES: written,
            Operation.RESIDUAL: self.hidden,
            Operation.GATE: self.ffn,
            Operation.ACTIVATION: self.ffn,
            Operation.FFN_RESIDUAL: self.hidden,
        }
        return widths.get(operation, 0)

    def weight_bytes(self, operation: Operation) -> int:
        """Bytes of the matrix that an operation multiplies by; 0 if there is none."""
        inputs, outputs = self.matrix_shape(operation)
        return ELEMENT_BYTES * inputs * outputs

    @property
    def layer_weight_bytes(self) -> int:
        """Bytes of the matrices of one layer."""
        return sum(self.weight_bytes(operation) for operation in LAYER)

    @property
    def cache_bytes(self) -> int:
        """Bytes of the keys and values of one layer."""
        return ELEMENT_BYTES * 2 * self.batch * self.context * self.kv_heads * self.head_dim

    @property
    def head_bytes(self) -> int:
        """Bytes of the matrix that makes logits."""
        return ELEMENT_BYTES * self.vocabulary * self.hidden

    @property
    def norms(self) -> int:
        """Norms of a step, each with weights of its own."""
        return len(NORMS) * self.layers + 1

    @property
    def factor_row_bytes(self) -> int:
        """Bytes of the weights of the widest norm."""
        return ELEMENT_BYTES * max(self.hidden, self.head_dim)

    @property
    def layer_bytes(self) -> int:
        """Bytes of weights and cache that one layer of a step reads."""
        return self.layer_weight_bytes + self.cache_bytes

    @property
    def step_bytes(self) -> int:
        """Bytes of weights and cache that a step reads."""
        return self.layers * self.layer_bytes + self.head_bytes

    @property
    def attention_flops(self) -> int:
        """Floating-point operations of one layer's attention over all tokens, of causal attention if they are many.

        Two products, of two operations per value each; under a causal mask a token meets half the others on average.
        """
        met = self.context // 2 if self.kind is StepKind.PREFILL else self.context
        return 4 * self.tokens * met * self.query_width

    @property
    def step_flops(self) -> int:
        """Floating-point operations of a step's products; logits are made of the last token of a sequence alone."""
        layer = 2 * self.tokens * self.layer_weight_bytes // ELEMENT_BYTES + self.attention_flops
        return self.layers * layer + 2 * self.batch * self.vocabulary * self.hidden

    @classmethod
    def parse(cls, text: str) -> "DecodeModel":
        """A model from the name of a preset, from free parameters, or from a preset and what differs from it.

        Args:
            text: `qwen3-4b`, or `layers=4,hidden=1024`, or `qwen3-4b,context=8192`. What is not given is as in the
                preset, or as in `qwen3-4b` without one.

        Raises:
            UsageError: the text says something else, or the dimensions do not fit each other.
        """
        first, *others = (part.strip() for part in text.split(","))
        if "=" in first:
            return replace(PRESETS[_DEFAULT], **_parameters([first, *others]))
        if first not in PRESETS:
            raise UsageError(f"there is no decode model {first!r}", f"give {_CHOICES}, or parameters: layers=4,...")
        return replace(PRESETS[first], **_parameters(others))


_DIMENSIONS: Final = tuple(field.name for field in fields(DecodeModel) if field.name != "kind")
_DEFAULT: Final = "qwen3-4b"

# Dimensions of qwen3-4b and llama-3.1-8b: `config.json` of Qwen/Qwen3-4B and meta-llama/Llama-3.1-8B on Hugging Face.
_QWEN3_4B: Final = DecodeModel(
    layers=36, hidden=2560, heads=32, kv_heads=8, head_dim=128, ffn=9728, vocabulary=151_936, context=2048
)
PRESETS: Final[Mapping[str, DecodeModel]] = MappingProxyType(
    {
        _DEFAULT: _QWEN3_4B,
        "llama-3.1-8b": DecodeModel(
            layers=32, hidden=4096, heads=32, kv_heads=8, head_dim=128, ffn=14_336, vocabulary=128_256, context=2048
        ),
        "small": DecodeModel(
            layers=4, hidden=1024, heads=16, kv_heads=8, head_dim=64, ffn=2816, vocabulary=32_000, context=512
        ),
        "prefill": replace(_QWEN3_4B, context=512, kind=StepKind.PREFILL),
    }
)
"""Models by name. `small` reads 160 MB; `prefill` is a chunk of a prompt through the layers of `qwen3-4b`."""

_CHOICES: Final = ", ".join(PRESETS)


def _parameters(parts: list[str]) -> dict[str, Any]:
    """What `name=value` parts say."""
    given: dict[str, Any] = {}
    for part in parts:
        name, equals, value = (word.strip() for word in part.partition("="))
        if not equals or name not in (*_DIMENSIONS, "kind"):
            raise UsageError(f"a decode model has no {part!r}", f"its parameters are {', '.join(_DIMENSIONS)} and kind")
        if name in given:
            raise UsageError(f"{name} of the decode model is given twice")
        given[name] = _kind(value) if name == "kind" else _number(name, value)
    return given


def _number(name: str, value: str) -> int:
    if not (value.isascii() and value.isdigit()):
        raise UsageError(f"{name} of a decode model is a whole number, not {value!r}")
    return int(value)


def _kind(value: str) -> StepKind:
    try:
        return StepKind(value)
    except ValueError:
        raise UsageError(f"the kind of a decode model is {' or '.join(StepKind)}, not {value!r}") from None
