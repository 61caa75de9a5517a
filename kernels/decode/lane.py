"""What every step has beside its graph: a stream, the event of its end, and its small copies."""

from contextlib import ExitStack
from typing import Final

from pega_tune.kernels.closing import Closing
from pega_tune.kernels.decode.loop import Copy, Step
from pega_tune.kernels.decode.sizes import INPUT_BYTES
from pega_tune.kernels.memory import DeviceMemory, PinnedMemory
from pega_tune.kernels.stream import Event, Stream, priority_range


class StepLane(Closing):
    """The stream of a decode probe, in the current context.

    Attributes:
        stream: of everything that a step does.
        inputs: `INPUT_BYTES` of device memory that every step uploads anew.
    """

    def __init__(self, stream_priority: int, token_bytes: int) -> None:
        """Makes it all.

        Args:
            stream_priority: as in `cuStreamCreateWithPriority`.
            token_bytes: of the tokens that a step downloads.

        Raises:
            UsageError: the device has no such priority.
            OutOfPinnedMemoryError: the host cannot pin a few KiB.
        """
        priority_range().require(stream_priority)
        with ExitStack() as stack:
            self.stream: Final = stack.enter_context(Stream(stream_priority))
            self._event = stack.enter_context(Event())
            self.inputs: Final = stack.enter_context(DeviceMemory(INPUT_BYTES))
            self._pinned = stack.enter_context(PinnedMemory(INPUT_BYTES + token_bytes))
            self._pinned.view()[:] = 0
            self._token_bytes = token_bytes
            self._stack = stack.pop_all()

    def step(self, graph: int, tokens: int) -> Step:
        """The step that launches a CUgraphExec and takes its tokens from a device address."""
        pinned = self._pinned.address
        return Step(
            stream=self.stream.handle,
            graph=graph,
            event=self._event.handle,
            upload=Copy(self.inputs.address, pinned, INPUT_BYTES),
            download=Copy(pinned + INPUT_BYTES, tokens, self._token_bytes),
        )

    def close(self) -> None:
        """Gives everything back; no step may be under way."""
        self._stack.close()
