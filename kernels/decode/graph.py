"""A CUDA graph of what was given to a stream, ready to be launched again and again."""

from collections.abc import Callable
from typing import Any, Final

from cuda.bindings import driver

from pega_tune.kernels.closing import Closing
from pega_tune.kernels.context import Call, call, release
from pega_tune.kernels.driver import DriverCallError
from pega_tune.kernels.stream import Stream

_NO_FLAGS: Final = 0  # of cuGraphInstantiate
_THREAD_LOCAL: Final = "CU_STREAM_CAPTURE_MODE_THREAD_LOCAL"


class StepGraph(Closing):
    """An executable graph.

    Attributes:
        handle: CUgraphExec, for native code.
        nodes: kernels, copies and the like in it.
    """

    def __init__(self, graph: Any, through: Call = call) -> None:
        """Instantiates a graph, which is left as it is.

        Args:
            graph: CUgraph, as cuda.bindings has it or as a number.
            through: what calls the driver.

        Raises:
            DriverCallError: it cannot be executed.
        """
        self._call = through
        native = driver.CUgraph(int(graph))
        self.nodes: Final = int(through("cuGraphGetNodes", native)[1])
        self._executable = through("cuGraphInstantiate", native, _NO_FLAGS)
        self.handle = int(self._executable)

    @classmethod
    def capture(cls, stream: Stream, submit: Callable[[], None], through: Call = call) -> "StepGraph":
        """The graph of all that `submit` gives to a stream; nothing of it runs.

        Other threads may do in the meantime what they like: only this one is held to what a capture allows.

        Raises:
            DriverCallError: the work cannot be captured, or executed as a graph.
        """
        through("cuStreamBeginCapture", stream.native, getattr(driver.CUstreamCaptureMode, _THREAD_LOCAL))
        try:
            submit()
        except BaseException:
            _abandon(stream, through)
            raise
        graph = through("cuStreamEndCapture", stream.native)
        try:
            return cls(graph, through)
        finally:
            release("cuGraphDestroy", graph, through=through)

    def close(self) -> None:
        """Destroys it; a launch that is under way still ends."""
        if self.handle:
            self.handle = 0
            release("cuGraphExecDestroy", self._executable, through=self._call)


def _abandon(stream: Stream, through: Call) -> None:
    """Lets a stream out of a capture that has failed; that it did is known."""
    try:
        graph = through("cuStreamEndCapture", stream.native)
    except DriverCallError:  # the failure that led here is the one to tell
        return
    if int(graph):
        release("cuGraphDestroy", graph, through=through)
