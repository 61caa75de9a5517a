"""The device memory that a step uses. Standard library only."""

from dataclasses import dataclass
from typing import Final

from pega_tune.kernels.decode.geometry import THREADS, Split, attention_blocks, layer_ctas, widest_blocks
from pega_tune.kernels.decode.models import ELEMENT_BYTES, LAYER, DecodeModel

INPUT_BYTES: Final = 16 << 10
"""Uploaded before every step: the order of what engines send (token ids, positions, block table) for one sequence."""

TOKEN_BYTES: Final = 8
"""Downloaded after every step, per sequence."""

WORD_BYTES: Final = 8
"""Of what a thread of attention makes."""

SUM_BYTES: Final = 4
"""Of one row of a product, a float32."""


@dataclass(frozen=True, slots=True)
class StepSizes:
    """Bytes of the device memory that a step uses.

    Attributes:
        weights: of all layers and the head.
        caches: keys and values of all layers.
        activations: of either of the two buffers between which kernels pass their results.
        residual: of the rows that all layers add to, which nothing touches while a product streams its weights past.
        factors: of the rows by which rotations and norms multiply: one for all rotations, and one for each norm, which
            is a weight of the model and comes from memory like the others.
        tokens: of the chosen tokens.
    """

    weights: int
    caches: int
    activations: int
    residual: int
    factors: int
    tokens: int

    @classmethod
    def of(cls, model: DecodeModel, sms: int) -> "StepSizes":
        """The sizes for a model on a device of so many SMs."""
        row_widths = (
            model.hidden,
            model.qkv_width,
            2 * model.query_width,
            *(2 * model.element_width(operation) for operation in LAYER),
        )
        shapes = [shape for shape in map(model.matrix_shape, LAYER) if all(shape)]
        products = (model.vocabulary, *(Split.of(shape, layer_ctas(sms)).parts * shape[1] for shape in shapes))
        results = (
            ELEMENT_BYTES * model.tokens * max(row_widths),
            ELEMENT_BYTES * model.batch * model.vocabulary,
            SUM_BYTES * max(products),
            WORD_BYTES * THREADS * max(widest_blocks(sms), attention_blocks(model)),
            INPUT_BYTES,
        )
        residual = max(ELEMENT_BYTES * model.tokens * model.hidden, INPUT_BYTES)
        weights = model.layers * model.layer_weight_bytes + model.head_bytes
        factors = model.factor_row_bytes * (1 + model.norms)
        caches, tokens = model.layers * model.cache_bytes, TOKEN_BYTES * model.batch
        return cls(weights, caches, max(results), residual, factors, tokens)


@dataclass(frozen=True, slots=True)
class StepAddresses:
    """Where the memory of `StepSizes` begins; the `inputs` are `INPUT_BYTES` long."""

    weights: int
    caches: int
    activations: tuple[int, int]
    residual: int
    factors: int
    inputs: int
    tokens: int
