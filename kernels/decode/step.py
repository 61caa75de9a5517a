"""A step as launches: which kernel runs over which bytes. Standard library only."""

from collections.abc import Iterator
from typing import Final

from pega_tune.kernels.decode.geometry import (
    CHUNK_TOKENS,
    ROW_THREADS,
    ROW_VALUES,
    UNIT_BYTES,
    WARP,
    WARPS,
    Split,
    attention_blocks,
    chunks,
    layer_ctas,
    widest_blocks,
)
from pega_tune.kernels.decode.launches import Launch, StepKernel, threads_of
from pega_tune.kernels.decode.models import ELEMENT_BYTES, LAYER, DecodeModel, Operation, StepKind
from pega_tune.kernels.decode.sizes import INPUT_BYTES, SUM_BYTES, WORD_BYTES, StepAddresses

FLOPS_PER_ROUND: Final = 4 * 2 * 16 * 8 * 8
"""Of one round of `multiply` in one warp: four independent products of 16 x 8 by 8 x 8."""

_RESIDUALS: Final = (Operation.RESIDUAL, Operation.FFN_RESIDUAL)
_SCALED: Final = (Operation.COSINE, Operation.SINE, Operation.KEYS, Operation.VALUES)


class StepPlan:
    """Makes the launches of one step, in the order in which they run."""

    def __init__(self, model: DecodeModel, addresses: StepAddresses, sms: int) -> None:
        """Plans for a device of so many SMs."""
        self._model = model
        self._at = addresses
        self._sms = sms
        self._widest = widest_blocks(sms)
        self._rows = ELEMENT_BYTES * model.tokens
        self._source = addresses.residual
        self._factors = addresses.factors

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
        yield Launch(StepKernel.PICK, self._model.batch, (self._source, row, self._at.tokens))

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
            elif operation in _RESIDUALS:
                yield self._add(nbytes)
            else:
                yield self._combine(nbytes if operation is Operation.ACTIVATION else 0, nbytes)

    def _pass_on(self) -> tuple[int, int]:
        """Where the last kernel wrote and where the next one writes."""
        source, (first, second) = self._source, self._at.activations
        self._source = second if source == first else first
        return source, self._source

    def _embed(self, head: int) -> Launch:
        """Rows of the head, which is the embedding too where both are tied, with what has just been uploaded."""
        count = min(INPUT_BYTES, self._model.head_bytes) // UNIT_BYTES
        return Launch(StepKernel.COMBINE, self._blocks(count), (head, self._at.inputs, count, self._at.residual))

    def _add(self, nbytes: int) -> Launch:
        """What a layer has made, to the rows that all layers add to."""
        source, residual = self._source, self._at.residual
        self._source = residual
        count = nbytes // UNIT_BYTES
        return Launch(StepKernel.COMBINE, self._blocks(count), (source, residual, count, residual))

    def _normalise(self, rows_per_token: int = 1, width: int = 0) -> Launch:
        """One CTA per row, as every row needs its own sum; a row of so many values, or the whole of a token."""
        source, destination = self._pass_on()
        self._factors += self._model.factor_row_bytes
        arguments = source, ELEMENT_BYTES * (width or self._model.hidden), self._factors, destination
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
            arguments = source, SUM_BYTES * shape[1], split.parts, destination
            yield Launch(StepKernel.ADD_PARTS, -(-shape[1] // WARP), arguments)

    def _head(self, weights: int) -> Launch:
        """The logits: the one product that takes all SMs, as the widest matrix by far; K is never split."""
        shape = self._model.hidden, self._model.vocabulary
        if self._model.kind is StepKind.PREFILL:
            return self._multiply(weights, shape, self._model.batch)
        return self._multiply_vector(weights, shape, Split.head(shape, self._sms))

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
        return Launch(StepKernel.MULTIPLY_VECTOR, split.columns, arguments, split.parts, split.cluster)

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
        part_bytes = WORD_BYTES * threads_of(StepKernel.READ_CACHE)
        arguments = source, part_bytes * chunks(model), part_bytes, destination
        return Launch(StepKernel.MERGE, model.batch * model.kv_heads, arguments)

    def _blocks(self, count: int) -> int:
        """CTAs for so many units, one per thread as far as the widest launch has them."""
        return min(-(-count // ROW_THREADS), self._widest)

    def _rounds(self, flops: int) -> int:
        """Rounds of every warp of the widest launch, so that all together make at least so many operations."""
        return -(-flops // (self._widest * WARPS * FLOPS_PER_ROUND))
