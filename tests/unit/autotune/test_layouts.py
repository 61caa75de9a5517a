import pickle

import pytest

from pega_tune.autotune.layouts import SHUFFLED, LayoutKind, NamedLayout
from pega_tune.errors import UsageError
from pega_tune.kernels.shape import Direction, TransferShape

SHAPE = TransferShape(64, 64 * 4096, Direction.H2D)
TEXTS = ("contiguous", "strided", "shuffled", "host-ordered", "runs:7")


@pytest.mark.parametrize("text", TEXTS)
def test_a_layout_is_its_name(text: str) -> None:
    layout = NamedLayout.parse(text)
    assert str(layout) == text
    assert pickle.loads(pickle.dumps(layout)) == layout


@pytest.mark.parametrize(
    "text",
    ["", "random", "runs", "runs:", "runs:0", "runs:-1", "runs:many", "runs:٣", "shuffled:2", "RUNS:2"],
)
def test_what_is_no_layout_is_refused_with_those_there_are(text: str) -> None:
    with pytest.raises(UsageError, match="layout"):
        NamedLayout.parse(text)


def test_shuffled_is_the_default_and_tells_nothing() -> None:
    assert NamedLayout() == SHUFFLED
    claimed = TransferShape(64, 64 * 4096, Direction.H2D, host_runs=3, pitch=8192)
    assert SHUFFLED.described(claimed) == SHUFFLED.merged(claimed) == SHAPE


@pytest.mark.parametrize(
    ("text", "merged", "runs", "pitch"),
    [("contiguous", 1, 1, None), ("strided", 64, 1, 8192), ("host-ordered", 64, 1, None), ("runs:7", 64, 7, None)],
)
def test_what_a_layout_tells(text: str, merged: int, runs: int, pitch: int | None) -> None:
    layout = NamedLayout.parse(text)
    described, joined = layout.described(SHAPE), layout.merged(SHAPE)
    assert (described.merged_ranges, described.host_runs, described.pitch) == (64, runs, pitch)
    assert (joined.merged_ranges, joined.total_bytes, joined.host_runs) == (merged, SHAPE.total_bytes, runs)


@pytest.mark.parametrize("text", ["strided", "shuffled", "host-ordered", "runs:7"])
def test_the_layout_of_what_is_known_is_the_one_that_told_it(text: str) -> None:
    layout = NamedLayout.parse(text)
    assert NamedLayout.fitting(layout.described(SHAPE)) == layout


def test_shapes_that_cannot_be_so_are_refused() -> None:
    with pytest.raises(UsageError, match="64 ranges do not make 65 host runs"):
        NamedLayout(LayoutKind.HOST_RUNS, 65).described(SHAPE)
    with pytest.raises(UsageError, match="strided ranges are equal"):
        NamedLayout(LayoutKind.STRIDED).described(TransferShape(64, 64 * 4096 + 1))


def test_runs_belong_to_host_runs_alone() -> None:
    for kind, runs in ((LayoutKind.HOST_RUNS, None), (LayoutKind.STRIDED, 2)):
        with pytest.raises(UsageError, match="runs"):
            NamedLayout(kind, runs)
