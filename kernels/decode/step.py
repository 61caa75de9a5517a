"""A step as launches: which kernel runs over which bytes. Standard library only."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from pega_tune.kernels.decode.geometry import (
    CHUNK_TOKENS,
    PRODUCT_SHARED_PERCENT,
    PRODUCT_THREADS,
    ROW_THREADS,
    ROW_VALUES,
    THREADS,
    UNIT_BYTES,
    WARPS,
    Split,
    attention_blocks,
    chunks,
    layer_ctas,
    widest_blocks,
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
_OF_TWO: Final = (Operation.RESIDUAL, Operation.ACTIVATION, Operation.FFN_RESIDUAL)
_SCALED: Final = (Operation.COSINE, Operation.SINE, Operation.KEYS, Operation.VALUES)


class StepKernel(StrEnum):
    """A kernel of `kernels.decode.kernels`, by its name."""

    NORMALISE = "normalise"
    MULTIPLY_VECTOR = "multiply_vector"
    ADD_PARTS = "add_parts"
    READ_CACHE = "read_cache"
    MERGE = "merge"
    MULTIPLY = "multiply"
    COMBINE = "combine"
    SCALE = "scale"
    PICK = "pick"
    FILL = "fill"


_ROW_KERNELS: Final = StepKernel.NORMALISE, StepKernel.COMBINE, StepKernel.SCALE
_PRODUCTS: Final = {
    StepKind.DECODE: (
        StepKernel.MULTIPLY_VECTOR,
        StepKernel.ADD_PARTS,
        StepKernel.READ_CACHE,
        StepKernel.MERGE,
    ),
    StepKind.PREFILL: (StepKernel.MULTIPLY,),
}


def kernels_of(kind: StepKind) -> tuple[StepKernel, ...]:
    """The kernels that steps of a kind launch, and the one that fills their memory."""
    return *_ROW_KERNELS, StepKernel.PICK, StepKernel.FILL, *_PRODUCTS[kind]


def threads_of(kernel: StepKernel) -> int:
    """Threads of a CTA."""
    if kernel in _ROW_KERNELS:
        return ROW_THREADS
    return PRODUCT_THREADS if kernel is StepKernel.MULTIPLY_VECTOR else THREADS


def shared_bytes_of(kernel: StepKernel, most_bytes: int) -> int:
    """Dynamic shared memory of a CTA, in units, where a CTA may have so much."""
    percent = PRODUCT_SHARED_PERCENT if kernel is StepKernel.MULTIPLY_VECTOR else 0
    return percent * most_bytes // 100 // UNIT_BYTES * UNIT_BYTES


@dataclass(frozen=True, slots=True)
class Launch:
    """One kernel of a step.

    Attributes:
        kernel: which.
        blocks: CTAs of `threads_of(kernel)` threads.
        arguments: all int64.
        parts: of a product, each of which has as many CTAs; the second dimension of the grid.
    """

    kernel: StepKernel
    blocks: int
    arguments: tuple[int, ...]
    parts: int = 1


@dataclass(frozen=True, slots=True)
class StepSizes:
    """Bytes of the device memory that a step uses.

    Attributes:
        weights: of all layers and the head.
        caches: keys and values of all layers.
        activations: of either of the two buffers between which kernels pass their results.
        factors: of a row by which norms and rotations multiply; as in `torch_probe`, all layers have the same one.
        tokens: of the chosen tokens.
    """

    weights: int
    caches: int
    activations: int
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
            _SUM_BYTES * max(products),
            _WORD_BYTES * THREADS * max(widest_blocks(sms), attention_blocks(model)),
            INPUT_BYTES,
        )
        weights = model.layers * model.layer_weight_bytes + model.head_bytes
        factors, tokens = ELEMENT_BYTES * max(model.hidden, model.head_dim), TOKEN_BYTES * model.batch
        return cls(weights, model.layers * model.cache_bytes, max(results), factors, tokens)


@dataclass(frozen=True, slots=True)
class StepAddresses:
    """Where the memory of `StepSizes` begins; the `inputs` are `INPUT_BYTES` long."""

    weights: int
    caches: int
    activations: tuple[int, int]
    factors: int
    inputs: int
    tokens: int


class StepPlan:
    """Makes the launches of one step, in the order in which they run."""

    def __init__(self, model: DecodeModel, addresses: StepAddresses, sms: int) -> None:
        """Plans for a device of so many SMs."""
        self._model = model
        self._at = addresses
        self._sms = sms
        self._widest = widest_blocks(sms)
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
                yield from self._operation(operation, weights, cache)
                weights += self._model.weight_bytes(operation)
            cache += self._model.cache_bytes
        yield self._normalise()
        yield self._head(head)
        row = ELEMENT_BYTES * self._model.vocabulary
        yield Launch(StepKernel.PICK, self._model.batch, (self._buffers[0], row, self._at.tokens))

    def _operation(self, operation: Operation, weights: int, cache: int) -> Iterator[Launch]:
        model = self._model
        if operation in (Operation.NORM, Operation.FFN_NORM):
            yield self._normalise()
        elif operation is Operation.HEAD_NORM:
            yield self._normalise(model.heads + model.kv_heads, model.head_dim)
        elif operation is Operation.ATTENTION:
            yield self._attention(cache)
        elif operation is Operation.MERGE:
            yield self._merge()
        elif model.weight_bytes(operation):
            yield from self._product(weights, model.matrix_shape(operation))
        else:
            nbytes = self._rows * model.element_width(operation)
            if operation in _SCALED:
                yield self._scale(nbytes // ELEMENT_BYTES)
                return
            yield self._combine(nbytes if operation in _OF_TWO else 0, nbytes)

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
        arguments = source, ELEMENT_BYTES * (width or self._model.hidden), self._at.factors, destination
        return Launch(StepKernel.NORMALISE, self._model.tokens * rows_per_token, arguments)

    def _combine(self, distance: int, nbytes: int) -> Launch:
        """Bytes of the activations with those at a distance."""
        source, destination = self._pass_on()
        count = nbytes // UNIT_BYTES
        return Launch(StepKernel.COMBINE, self._blocks(count), (source, source + distance, count, destination))

    def _scale(self, count: int) -> Launch:
        """Rotation, and what goes to the cache: heads, each of whose values has a place that must be worked out."""
        source, destination = self._pass_on()
        arguments = source, self._model.head_dim, self._at.factors, count, destination
        return Launch(StepKernel.SCALE, -(-count // (ROW_THREADS * ROW_VALUES)), arguments)

    def _product(self, weights: int, shape: tuple[int, int]) -> Iterator[Launch]:
        """A matrix of a layer; where K is split, another kernel adds the parts."""
        if self._model.kind is StepKind.PREFILL:
            yield self._multiply(weights, shape, self._model.tokens)
            return
        split = Split.of(shape, layer_ctas(self._sms))
        yield self._multiply_vector(weights, shape, split)
        if split.parts > 1:
            source, destination = self._pass_on()
            arguments = source, _SUM_BYTES * shape[1], split.parts, destination
            yield Launch(StepKernel.ADD_PARTS, -(-shape[1] // THREADS), arguments)

    def _head(self, weights: int) -> Launch:
        """The logits: the one product that takes all SMs, as the widest matrix by far; K is never split."""
        shape = self._model.hidden, self._model.vocabulary
        if self._model.kind is StepKind.PREFILL:
            return self._multiply(weights, shape, self._model.batch)
        return self._multiply_vector(weights, shape, Split.head(shape))

    def _multiply(self, matrix: int, shape: tuple[int, int], rows: int) -> Launch:
        """Many rows of activations times a matrix."""
        source, destination = self._pass_on()
        row_bytes, rounds = ELEMENT_BYTES * shape[0], self._rounds(2 * rows * shape[0] * shape[1])
        operands = matrix, row_bytes * shape[1], source, row_bytes * rows
        return Launch(StepKernel.MULTIPLY, self._widest, (*operands, destination, rounds))

    def _multiply_vector(self, matrix: int, shape: tuple[int, int], split: Split) -> Launch:
        """A row of activations per sequence times a matrix."""
        source, destination = self._pass_on()
        arguments = matrix, ELEMENT_BYTES * shape[0], shape[1], source, self._model.batch, destination
        return Launch(StepKernel.MULTIPLY_VECTOR, split.columns, arguments, split.parts)

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
        part_bytes = _WORD_BYTES * THREADS
        arguments = source, part_bytes * chunks(model), part_bytes, destination
        return Launch(StepKernel.MERGE, model.batch * model.kv_heads, arguments)

    def _blocks(self, count: int) -> int:
        """CTAs for so many units, one per thread as far as the widest launch has them."""
        return min(-(-count // ROW_THREADS), self._widest)

    def _rounds(self, flops: int) -> int:
        """Rounds of every warp of the widest launch, so that all together make at least so many operations."""
        return -(-flops // (self._widest * WARPS * FLOPS_PER_ROUND))
