"""Decode probes: what steps beside transfers and leaves the ends of its steps in a ring."""

from abc import abstractmethod
from contextlib import ExitStack
from typing import Final, Protocol

from pega_tune.errors import UsageError
from pega_tune.kernels.closing import Closing
from pega_tune.kernels.compile_cache import NO_CACHE, CompileCache
from pega_tune.kernels.context import PrimaryContext
from pega_tune.kernels.decode.builtin import BuiltinStep
from pega_tune.kernels.decode.loop import Step, StepLoop
from pega_tune.kernels.decode.models import DecodeModel
from pega_tune.kernels.decode.ring import StepRing
from pega_tune.kernels.driver import DriverTable

WARM_STEPS: Final = 32
"""Steps before the first that counts, while clocks rise and caches fill; the workload of the published tables takes as
many."""

_EXTERNAL: Final = "external:"


class DecodeProbe(Protocol):
    """A decode workload. `start` and `close` are called on one thread, `run` on that one or another."""

    def start(self, ring: StepRing) -> None:
        """Prepares everything, so that `run` begins at once.

        Raises:
            PegaTuneError: the workload cannot run here.
        """

    def run(self, steps: int | None = None) -> None:
        """Steps until the ring says stop, or so many times. The ring tells that it runs, and how it ended.

        It returns neither for a signal nor for Ctrl-C: somebody must ask the ring to stop, or end the process.

        Raises:
            PegaTuneError: it failed.
        """

    def close(self) -> None:
        """Gives everything back; `run` must have returned. Calling it again does nothing."""


class GraphProbe(Closing):
    """A probe whose step is a CUDA graph, in the primary context of a device."""

    def __init__(self, ordinal: int = 0) -> None:
        """Nothing happens before `start`.

        Args:
            ordinal: index of the device in CUDA's order.
        """
        self._ordinal = ordinal
        self._stack = ExitStack()
        self._loop: StepLoop | None = None

    def start(self, ring: StepRing) -> None:
        """As `DecodeProbe.start`; the context is current in this thread afterwards."""
        with ExitStack() as stack:
            table = DriverTable.resolve()
            stack.enter_context(PrimaryContext(self._ordinal))
            self._loop = StepLoop(table, self._open(stack), ring)
            self._stack = stack.pop_all()

    def run(self, steps: int | None = None) -> None:
        """As `DecodeProbe.run`, without the interpreter's lock."""
        if self._loop is None:
            raise UsageError("the decode probe has not been started")
        with PrimaryContext(self._ordinal):  # current in this thread too
            self._loop.run(steps, WARM_STEPS)

    def close(self) -> None:
        """As `DecodeProbe.close`."""
        self._loop = None
        self._stack.close()

    @abstractmethod
    def _open(self, stack: ExitStack) -> Step:
        """Makes the step in the current context, and has the stack give it back."""


class BuiltinProbe(GraphProbe):
    """The probe that needs nothing but this package: Numba kernels that move a model's bytes."""

    def __init__(
        self, model: DecodeModel, stream_priority: int = 0, ordinal: int = 0, cache: CompileCache = NO_CACHE
    ) -> None:
        """Nothing happens before `start`.

        Args:
            model: what a step imitates.
            stream_priority: of the decode stream, as in `cuStreamCreateWithPriority`.
            ordinal: index of the device in CUDA's order.
            cache: of compiled kernels.
        """
        super().__init__(ordinal)
        self._model = model
        self._cache = cache
        self._priority = stream_priority

    def _open(self, stack: ExitStack) -> Step:
        return stack.enter_context(BuiltinStep(self._model, self._priority, self._cache)).step


def make_probe(
    source: str, model: str, stream_priority: int = 0, ordinal: int = 0, cache: CompileCache = NO_CACHE
) -> DecodeProbe:
    """The probe of a decode workload, not yet started.

    Args:
        source: `builtin`, `torch` or `external:CMD`.
        model: as `DecodeModel.parse` takes it; an external program has its own.
        stream_priority: of the decode stream; not of an external program's.
        ordinal: index of the device in CUDA's order.
        cache: of the kernels that the built-in one compiles.

    Raises:
        UsageError: there is no such source or model.
    """
    if source.startswith(_EXTERNAL):
        from pega_tune.kernels.decode.external import ExternalProbe

        return ExternalProbe(source.removeprefix(_EXTERNAL))
    parsed = DecodeModel.parse(model)
    if source == "builtin":
        return BuiltinProbe(parsed, stream_priority, ordinal, cache)
    if source == "torch":
        from pega_tune.kernels.decode.torch_probe import TorchProbe

        return TorchProbe(parsed, stream_priority, ordinal)
    raise UsageError(f"there is no decode workload {source!r}", "give builtin, torch or external:CMD")
