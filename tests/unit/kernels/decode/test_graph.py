from typing import Any

import pytest

from pega_tune.kernels.decode.graph import StepGraph
from pega_tune.kernels.driver import DriverCallError
from pega_tune.kernels.stream import Stream

GRAPH, EXECUTABLE, STREAM = 11, 12, 13


class FakeGraphs:
    """Answers the calls that make a graph, and keeps what is open."""

    def __init__(self, failing: str = "", left_by_capture: int = GRAPH) -> None:
        self.failing = failing
        self.left_by_capture = left_by_capture
        self.calls: list[str] = []
        self.open: set[str] = set()

    def __call__(self, function: str, *arguments: Any) -> Any:
        self.calls.append(function)
        if function == self.failing:
            raise DriverCallError(function, 900)
        return getattr(self, function, lambda *_: None)(*arguments)

    def cuStreamCreateWithPriority(self, _flags: int, _priority: int) -> int:  # noqa: N802
        return STREAM

    def cuStreamGetPriority(self, _stream: int) -> int:  # noqa: N802
        return 0

    def cuStreamBeginCapture(self, stream: int, _mode: Any) -> None:  # noqa: N802
        assert stream == STREAM
        self.open.add("capture")

    def cuStreamEndCapture(self, _stream: int) -> int:  # noqa: N802
        self.open.remove("capture")
        if self.left_by_capture:
            self.open.add("graph")
        return self.left_by_capture

    def cuGraphGetNodes(self, _graph: Any) -> tuple[list[Any], int]:  # noqa: N802
        return [], 364

    def cuGraphInstantiate(self, graph: Any, _flags: int) -> int:  # noqa: N802
        assert int(graph) == GRAPH
        self.open.add("executable")
        return EXECUTABLE

    def cuGraphDestroy(self, _graph: Any) -> None:  # noqa: N802
        self.open.remove("graph")

    def cuGraphExecDestroy(self, executable: int) -> None:  # noqa: N802
        assert executable == EXECUTABLE
        self.open.remove("executable")


def test_what_is_submitted_while_capturing_becomes_a_graph():
    fake = FakeGraphs()
    seen: list[set[str]] = []
    with StepGraph.capture(Stream(through=fake), lambda: seen.append(set(fake.open)), fake) as graph:
        assert seen == [{"capture"}]
        assert (graph.handle, graph.nodes, fake.open) == (EXECUTABLE, 364, {"executable"})
    assert fake.open == set()
    graph.close()
    assert fake.calls.count("cuGraphExecDestroy") == 1


def test_the_graph_of_somebody_else_is_left_alone():
    fake = FakeGraphs()
    with StepGraph(GRAPH, fake):
        assert fake.open == {"executable"}
    assert "cuGraphDestroy" not in fake.calls


@pytest.mark.parametrize("left", [GRAPH, 0])
def test_a_stream_leaves_the_capture_when_submitting_fails(left):
    fake = FakeGraphs(left_by_capture=left)

    def submit() -> None:
        raise DriverCallError("cuLaunchKernel", 701)

    with pytest.raises(DriverCallError, match="cuLaunchKernel"):
        StepGraph.capture(Stream(through=fake), submit, fake)
    assert fake.open == set()


def test_the_first_failure_is_told_if_leaving_the_capture_fails_too():
    fake = FakeGraphs(failing="cuStreamEndCapture")

    def submit() -> None:
        raise DriverCallError("cuLaunchKernel", 701)

    with pytest.raises(DriverCallError, match="cuLaunchKernel"):
        StepGraph.capture(Stream(through=fake), submit, fake)


@pytest.mark.parametrize("failing", ["cuStreamBeginCapture", "cuStreamEndCapture", "cuGraphInstantiate"])
def test_nothing_is_left_of_a_graph_that_failed(failing):
    fake = FakeGraphs(failing)
    with pytest.raises(DriverCallError, match=failing):
        StepGraph.capture(Stream(through=fake), lambda: None, fake)
    assert fake.open <= {"capture"}
