"""The decode probe that runs real layers, with random weights, through torch: the `torch` extra.

torch is imported only when a probe is started.
"""

from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from pega_tune.errors import DeviceError
from pega_tune.kernels.closing import Closing
from pega_tune.kernels.decode.graph import StepGraph
from pega_tune.kernels.decode.lane import StepLane
from pega_tune.kernels.decode.loop import Step
from pega_tune.kernels.decode.models import DecodeModel
from pega_tune.kernels.decode.probe import GraphProbe
from pega_tune.kernels.decode.sizes import TOKEN_BYTES
from pega_tune.kernels.memory import OutOfDeviceMemoryError

_WARM_UP: Final = 3  # steps before the capture, in which torch allocates and chooses its kernels
_SCALE: Final = 0.02  # standard deviation of the weights, as models are initialised; keeps activations finite
_ROTARY_BASE: Final = 1e6  # of Qwen3; any other costs the same


class TorchMissingError(DeviceError):
    """The probe needs a torch that is not there, is too old, or has no CUDA."""

    code: ClassVar[str] = "torch-missing"


class TorchProbe(GraphProbe):
    """As `BuiltinProbe`, with the layers of torch."""

    def __init__(self, model: DecodeModel, stream_priority: int = 0, ordinal: int = 0) -> None:
        """As `BuiltinProbe`."""
        super().__init__(ordinal)
        self._model = model
        self._priority = stream_priority

    def _open(self, stack: ExitStack) -> Step:
        torch = import_torch()
        torch.cuda.set_device(self._ordinal)
        return stack.enter_context(TorchStep(torch, self._model, self._priority)).step


class TorchStep(Closing):
    """A step of a model, captured by torch and launched by the native loop.

    Attributes:
        step: for the native loop.
    """

    def __init__(self, torch: Any, model: DecodeModel, stream_priority: int) -> None:
        """Allocates, warms up and captures; torch's device must be set.

        Raises:
            UsageError: the device has no such priority.
            DriverCallError: the device failed.
            OutOfDeviceMemoryError: the model does not fit.
        """
        with ExitStack() as stack:
            lane = stack.enter_context(StepLane(stream_priority, TOKEN_BYTES * model.batch))
            stack.callback(torch.cuda.empty_cache)
            try:
                stack_of_layers = _Layers(torch, model)
                self._graph = _capture(torch, stack_of_layers, lane)
            except torch.cuda.OutOfMemoryError as error:
                raise OutOfDeviceMemoryError(f"out of device memory: a step reads {model.step_bytes} bytes") from error
            # Whose memory the graph uses, besides that of its own pool.
            self._layers: _Layers | None = stack_of_layers
            graph = stack.enter_context(StepGraph(self._graph.raw_cuda_graph()))
            self.step: Final[Step] = lane.step(graph.handle, stack_of_layers.tokens.data_ptr())
            self._stack = stack.pop_all()

    def close(self) -> None:
        """Gives everything back; no step may be under way."""
        self._layers = self._graph = None
        self._stack.close()


@dataclass(frozen=True, slots=True, eq=False)
class _Weights:
    """Tensors of one layer; matrices are (outputs, inputs), the cache is (batch, kv_heads, context, head_dim)."""

    qkv: Any
    output: Any
    gate_up: Any
    down: Any
    keys: Any
    values: Any


class _Layers:
    """The layers, and what goes in and comes out.

    Attributes:
        tokens: (batch,) the chosen ones, which a decode step takes in again.
    """

    def __init__(self, torch: Any, model: DecodeModel) -> None:
        self._torch = torch
        self._model = model
        torch.manual_seed(0)
        self._layers = [self._weights() for _ in range(model.layers)]
        self._head = self._random(model.vocabulary, model.hidden).mul_(_SCALE)
        self.tokens = torch.zeros(model.batch, dtype=torch.int64, device="cuda")
        length = model.tokens // model.batch
        self._ids = self.tokens.view(-1, 1) if length == 1 else self.tokens.new_zeros(model.batch, length)
        self._norm = torch.ones(model.hidden, device="cuda", dtype=torch.bfloat16)
        self._cos, self._sin = self._rotation(model.context - length, length)

    def step(self) -> None:
        """From the tokens to the next ones."""
        functional = self._torch.nn.functional
        rows = functional.embedding(self._ids, self._head)
        for weights in self._layers:
            rows = rows + self._attention(weights, self._normalised(rows))
            gate, up = functional.linear(self._normalised(rows), weights.gate_up).chunk(2, -1)
            rows = rows + functional.linear(functional.silu(gate) * up, weights.down)
        logits = functional.linear(self._normalised(rows[:, -1]), self._head)
        self.tokens.copy_(logits.argmax(-1))

    def _attention(self, weights: _Weights, rows: Any) -> Any:
        """Grouped-query attention over the cache, to whose end the new keys and values go."""
        functional, model = self._torch.nn.functional, self._model
        batch, length, _ = rows.shape
        heads = functional.linear(rows, weights.qkv).view(batch, length, -1, model.head_dim).transpose(1, 2)
        turned, values = heads.split([model.heads + model.kv_heads, model.kv_heads], 1)
        queries, keys = self._turn(turned).split([model.heads, model.kv_heads], 1)
        weights.keys[:, :, -length:] = keys
        weights.values[:, :, -length:] = values
        made = functional.scaled_dot_product_attention(
            queries, weights.keys, weights.values, is_causal=length > 1, enable_gqa=model.heads > model.kv_heads
        )
        return functional.linear(made.transpose(1, 2).reshape(batch, length, -1), weights.output)

    def _turn(self, heads: Any) -> Any:
        """Normalised heads, turned by the angles of their positions."""
        heads = self._torch.nn.functional.rms_norm(heads, (self._model.head_dim,))
        swapped = heads.roll(self._model.head_dim // 2, -1)
        return self._torch.addcmul(heads * self._cos, swapped, self._sin)

    def _normalised(self, rows: Any) -> Any:
        return self._torch.nn.functional.rms_norm(rows, (self._model.hidden,), self._norm)

    def _rotation(self, first: int, length: int) -> tuple[Any, Any]:
        """(length, head_dim) cosines, and sines with the signs of the halves that are swapped."""
        torch, half = self._torch, self._model.head_dim // 2
        positions = torch.arange(first, first + length, device="cuda", dtype=torch.float32)
        angles = positions[:, None] * _ROTARY_BASE ** (-torch.arange(half, device="cuda") / half)
        cos, sin = angles.cos(), angles.sin()
        return torch.cat((cos, cos), -1).to(torch.bfloat16), torch.cat((-sin, sin), -1).to(torch.bfloat16)

    def _weights(self) -> _Weights:
        model = self._model
        cache = model.batch, model.kv_heads, model.context, model.head_dim
        return _Weights(
            qkv=self._random(model.qkv_width, model.hidden).mul_(_SCALE),
            output=self._random(model.hidden, model.query_width).mul_(_SCALE),
            gate_up=self._random(2 * model.ffn, model.hidden).mul_(_SCALE),
            down=self._random(model.hidden, model.ffn).mul_(_SCALE),
            keys=self._random(*cache),
            values=self._random(*cache),
        )

    def _random(self, *shape: int) -> Any:
        return self._torch.randn(*shape, device="cuda", dtype=self._torch.bfloat16)


def _capture(torch: Any, layers: _Layers, lane: StepLane) -> Any:
    """The graph of a step, captured in the lane's stream, whose priority its kernels inherit."""
    stream = torch.cuda.ExternalStream(lane.stream.handle)
    stream.wait_stream(torch.cuda.current_stream())
    graph = torch.cuda.CUDAGraph(keep_graph=True)
    with torch.no_grad():
        with torch.cuda.stream(stream):
            for _ in range(_WARM_UP):
                layers.step()
        torch.cuda.synchronize()
        with torch.cuda.graph(graph, stream=stream, capture_error_mode="thread_local"):
            layers.step()
    return graph


def import_torch() -> Any:
    """The module.

    Raises:
        TorchMissingError: it is not installed, is older than the version that hands out its graphs, or has no CUDA.
    """
    install = "install pega-tune[torch]: torch 2.8 or newer, built for CUDA"
    try:
        import torch
    except ImportError as error:
        raise TorchMissingError(f"the torch decode probe cannot import torch: {error}", install) from error
    if not hasattr(torch.cuda.CUDAGraph, "raw_cuda_graph"):
        raise TorchMissingError(f"torch {torch.__version__} does not hand out its CUDA graphs", install)
    if not torch.cuda.is_available():
        raise TorchMissingError(f"torch {torch.__version__} finds no CUDA device", install)
    return torch
