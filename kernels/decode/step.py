"""A step as launches: which kernel runs over which bytes. Standard library only."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from pega_tune.kernels.decode.geometry import (
    CHUNK_TOKENS,
    THREADS,
    UNIT_BYTES,
    WARPS,
    attention_blocks,
    chunks,
    team_log2_of,
)
from pega_tune.kernels.decode.models import ELEMENT_BYTES, LAYER, DecodeModel, Operation, StepKind

INPUT_BYTES: Final = 16 << 10
"""Uploaded before every step: the order of what engines send (token ids, positions, block table) for one sequence."""

TOKEN_BYTES: Final = 8
"""Downloaded after every step, per sequence."""

FLOPS_PER_ROUND: Final = 4 * 2 * 16 * 8 * 8
"""Of one round of `multiply` in one warp: four independent products of 16 x 8 by 8 x 8."""

_WORD_BYTES: Final = 8
_SUM_BYTES: Final = 4  # of one row of a product, a float32
_OF_TWO: Final = (Operation.SINE, Operation.RESIDUAL, Operation.ACTIVATION, Operation.FFN_RESIDUAL)


class StepKernel(StrEnum):
    """A kernel of `kernels.decode.kernels`, by its name."""

    NORMALISE = "normalise"
    MULTIPLY_VECTOR = "multiply_vector"
    READ_CACHE = "read_cache"
    MERGE = "merge"
    MULTIPLY = "multiply"
    COMBINE = "combine"
    PICK = "pick"
    FILL = "fill"


_PRODUCTS: Final = {
    StepKind.DECODE: (StepKernel.MULTIPLY_VECTOR, StepKernel.READ_CACHE, StepKernel.MERGE),
    StepKind.PREFILL: (StepKernel.MULTIPLY,),
}


def kernels_of(kind: StepKind) -> tuple[StepKernel, ...]:
    """The kernels that steps of a kind launch, and the one that fills their memory."""
    return StepKernel.NORMALISE, StepKernel.COMBINE, StepKernel.PICK, StepKernel.FILL, *_PRODUCTS[kind]


@dataclass(frozen=True, slots=True)
class Launch:
    """One kernel of a step.

    Attributes:
        kernel: which.
        blocks: CTAs of `THREADS` threads.
        arguments: all int64.
    """

    kernel: StepKernel
    blocks: int
    arguments: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class StepSizes:
    """Bytes of the device memory that a step uses.

    Attributes:
        weights: of all layers and the head.
        caches: keys and values of all layers.
        activations: of either of the two buffers between which kernels pass their results.
        tokens: of the chosen tokens.
    """

    weights: int
    caches: int
    activations: int
    tokens: int

    @classmethod
    def of(cls, model: DecodeModel, widest_blocks: int) -> "StepSizes":
        """The sizes for a model on a device that holds so many CTAs."""
        row_widths = (
            model.hidden,
            model.qkv_width,
            2 * model.query_width,
            *(2 * model.element_width(operation) for operation in LAYER),
        )
        products = (model.vocabulary, *(model.matrix_shape(operation)[1] for operation in LAYER))
        results = (
            ELEMENT_BYTES * model.tokens * max(row_widths),
            ELEMENT_BYTES * model.batch * model.vocabulary,
            _SUM_BYTES * max(products),
            _WORD_BYTES * THREADS * max(widest_blocks, attention_blocks(model)),
            INPUT_BYTES,
        )
        weights = model.layers * model.layer_weight_bytes + model.head_bytes
        return cls(weights, model.layers * model.cache_bytes, max(results), TOKEN_BYTES * model.batch)


@dataclass(frozen=True, slots=True)
class StepAddresses:
    """Where the memory of `StepSizes` begins; the `inputs` are `INPUT_BYTES` long."""

    weights: int
    caches: int
    activations: tuple[int, int]
    inputs: int
    tokens: int


class StepPlan:
    """Makes the launches of one step, in the order in which they run."""

    def __init__(self, model: DecodeModel, addresses: StepAddresses, widest_blocks: int) -> None:
        """Plans for a device that holds so many CTAs of the widest launches."""
        self._model = model
        self._at = addresses
        self._widest = widest_blocks
        self._rows = ELEMENT_BYTES * model.tokens
        self._buffers = addresses.activations

    def launches(self) -> tuple[Launch, ...]:
        """The whole step: embedding, layers, last norm, head and choice of the token."""
        return tuple(self._chain())

    def _chain(self) -> Iterator[Launch]:
        head = self._at.weights + self._model.layers * self._model.layer_weight_bytes
        yield self._embed(head)
        weights, cache = self._at.weights, self._at.caches
        for _ in range(self._model.layers):
            for operation in LAYER:
                yield self._operation(operation, weights, cache)
                weights += self._model.weight_bytes(operation)
            cache += self._model.cache_bytes
        yield self._normalise()
        yield self._product(head, (self._model.hidden, self._model.vocabulary), self._model.batch)
        row = ELEMENT_BYTES * self._model.vocabulary
        yield Launch(StepKernel.PICK, self._model.batch, (self._buffers[0], row, self._at.tokens))

    def _operation(self, operation: Operation, weights: int, cache: int) -> Launch:
        model = self._model
        if operation in (Operation.NORM, Operation.FFN_NORM):
            return self._normalise()
        if operation is Operation.HEAD_NORM:
            return self._normalise(model.heads + model.kv_heads, model.head_dim)
        if operation is Operation.ATTENTION:
            return self._attention(cache)
        if operation is Operation.MERGE:
            return self._merge()
        if model.weight_bytes(operation):
            return self._product(weights, model.matrix_shape(operation), model.tokens)
        nbytes = self._rows * model.element_width(operation)
        return self._combine(nbytes if operation in _OF_TWO else 0, nbytes)

    def _pass_on(self) -> tuple[int, int]:
        """Where the last kernel wrote and where the next one writes."""
        source, destination = self._buffers
        self._buffers = destination, source
        return source, destination

    def _embed(self, head: int) -> Launch:
        """Rows of the head, which is the embedding too where both are tied, with what has just been uploaded."""
        nbytes = min(INPUT_BYTES, self._model.head_bytes)
        _, destination = self._pass_on()
        count = nbytes // UNIT_BYTES
        return Launch(StepKernel.COMBINE, self._blocks(count), (head, self._at.inputs, count, destination))

    def _normalise(self, rows_per_token: int = 1, width: int = 0) -> Launch:
        """One CTA per row, as every row needs its own sum; a row of so many values, or the whole of a token."""
        source, destination = self._pass_on()
        arguments = source, ELEMENT_BYTES * (width or self._model.hidden), destination
        return Launch(StepKernel.NORMALISE, self._model.tokens * rows_per_token, arguments)

    def _combine(self, distance: int, nbytes: int) -> Launch:
        """Bytes of the activations with those at a distance."""
        source, destination = self._pass_on()
        count = nbytes // UNIT_BYTES
        return Launch(StepKernel.COMBINE, self._blocks(count), (source, source + distance, count, destination))

    def _product(self, weights: int, shape: tuple[int, int], rows: int) -> Launch:
        """Rows of activations times a matrix."""
        source, destination = self._pass_on()
        row_bytes = ELEMENT_BYTES * shape[0]
        if self._model.kind is StepKind.DECODE:
            team_log2 = team_log2_of(row_bytes)
            arguments = weights, row_bytes, source, rows, team_log2, destination
            # Exact: a width is a multiple of 8, and a CTA has at most as many rows.
            return Launch(StepKernel.MULTIPLY_VECTOR, (shape[1] << team_log2) // THREADS, arguments)
        rounds = self._rounds(2 * rows * shape[0] * shape[1])
        operands = weights, row_bytes * shape[1], source, row_bytes * rows
        return Launch(StepKernel.MULTIPLY, self._widest, (*operands, destination, rounds))

    def _attention(self, cache: int) -> Launch:
        """Queries over keys, and what that gives over values; of a prefill the products alone."""
        source, destination = self._pass_on()
        model, nbytes = self._model, self._model.cache_bytes
        query_bytes = self._rows * model.query_width
        if model.kind is StepKind.DECODE:
            heads, token_bytes = model.batch * model.kv_heads, ELEMENT_BYTES * model.head_dim
            sizes = model.context * token_bytes, CHUNK_TOKENS * token_bytes
            arguments = cache, *sizes, source, query_bytes // heads, destination
            return Launch(StepKernel.READ_CACHE, attention_blocks(model), arguments)
        rounds = self._rounds(model.attention_flops)
        return Launch(StepKernel.MULTIPLY, self._widest, (cache, nbytes, source, query_bytes, destination, rounds))

    def _merge(self) -> Launch:
        """The parts of attention, of which a prefill has as many as values."""
        model = self._model
        if model.kind is StepKind.PREFILL:
            nbytes = self._rows * model.query_width
            return self._combine(nbytes, nbytes)
        source, destination = self._pass_on()
        row_bytes = _WORD_BYTES * THREADS * chunks(model)
        return Launch(StepKernel.MERGE, model.batch * model.kv_heads, (source, row_bytes, destination))

    def _blocks(self, count: int) -> int:
        """CTAs for so many loads, one per thread as far as the device holds them."""
        return min(-(-count // THREADS), self._widest)

    def _rounds(self, flops: int) -> int:
        """Rounds of every warp of the widest launch, so that all together make at least so many operations."""
        return -(-flops // (self._widest * WARPS * FLOPS_PER_ROUND))
