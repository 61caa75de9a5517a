"""Serving blocks in a child process: crashes, hangs, and the environment that a block needs."""

import multiprocessing
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pega_tune.autotune.engine import EngineLostError, Status
from pega_tune.autotune.isolated import IsolatedEngine
from pega_tune.autotune.isolation.environment import EnvironmentOf, without_mps
from pega_tune.autotune.isolation.timeouts import Timeouts
from pega_tune.autotune.serving import BASELINE, MpsShare, Pacing, Segment
from pega_tune.errors import DeviceError
from pega_tune.profiles.policy.terms import Colocation
from tests.helpers.engines import Deed, transfer_block
from tests.helpers.serving_blocks import (
    ImaginingFactory,
    Misfortune,
    imagined_segment,
    named_environment,
    serving_block,
)

Start = Callable[..., IsolatedEngine]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    engines = []

    def make(
        *misfortunes: Misfortune, timeouts: Timeouts | None = None, environment_of: EnvironmentOf = without_mps
    ) -> IsolatedEngine:
        factory = ImaginingFactory(tmp_path, misfortunes)
        engines.append(IsolatedEngine(factory, timeouts, environment_of=environment_of))
        return engines[-1]

    yield make
    for engine in engines:
        engine.close()
    assert multiprocessing.active_children() == []


def _failed(segments: list[Segment]) -> list[tuple[int, Status, str]]:
    return [(s.candidate, s.status, s.detail) for s in segments if s.status is not Status.OK]


def _counts(segments: list[Segment]) -> dict[int, int]:
    whole = [s.candidate for s in segments if s.status is Status.OK]
    return {candidate: whole.count(candidate) for candidate in whole}


def _log(tmp_path: Path) -> list[list[str]]:
    return [line.split() for line in (tmp_path / "log").read_text().splitlines()]


def test_segments_cross_to_the_parent_whole(start: Start) -> None:
    block = serving_block()
    segments = list(start().beside_decode(block))
    assert _counts(segments) == {0: 2, 1: 2, 2: 2, 3: 2, BASELINE: 2}
    for segment in segments:
        expected = imagined_segment(block, segment.candidate)
        for name in ("step_ends", "due", "submitted", "completed"):
            np.testing.assert_array_equal(getattr(segment, name), getattr(expected, name))


def test_segments_are_watched_as_they_come(tmp_path: Path) -> None:
    watched: list[Segment] = []
    engine = IsolatedEngine(ImaginingFactory(tmp_path), watch_segments=watched.append)
    try:
        assert list(engine.beside_decode(serving_block())) == watched
    finally:
        engine.close()


def test_a_crash_is_blamed_on_the_candidate_and_the_others_are_measured_in_a_fresh_child(start: Start) -> None:
    engine = start(Misfortune(2, Deed.EXIT))
    first = engine.pid
    segments = list(engine.beside_decode(serving_block()))
    assert _failed(segments) == [(2, Status.CRASHED, "the engine process ended with code 3")]
    assert _counts(segments) == {0: 2, 1: 2, 3: 2, BASELINE: 2}
    assert engine.pid not in (None, first)


def test_a_hang_is_timed_out(start: Start) -> None:
    engine = start(Misfortune(1, Deed.WAIT), timeouts=Timeouts(start_s=2.0, step_s=1.0))
    segments = list(engine.beside_decode(serving_block()))
    assert [(candidate, status) for candidate, status, _ in _failed(segments)] == [(1, Status.TIMED_OUT)]
    assert _counts(segments) == {0: 2, 2: 2, 3: 2, BASELINE: 2}


def test_nobody_is_blamed_for_a_crash_in_the_baseline(start: Start) -> None:
    engine = start(Misfortune(BASELINE, Deed.EXIT))
    with pytest.raises(EngineLostError, match=r"lost 3 times in a row, the last time: .* code 3"):
        list(engine.beside_decode(serving_block()))


def test_a_child_may_be_silent_for_as_long_as_a_segment_lasts() -> None:
    timeouts = Timeouts(start_s=100.0, step_s=10.0)
    block = serving_block(pacing=Pacing(period_s=3.0, bursts=8))
    assert timeouts.before(block, first=False) == 10.0 + 10 * 3.0
    assert timeouts.before(block, first=True) == 10.0 + 10 * 3.0 + 100.0  # decode has to be started
    assert timeouts.before(transfer_block(), first=True) == 10.0
    unknown = replace(block, pacing=Pacing(period_s=None, bursts=8))
    assert timeouts.before(unknown, first=False) >= 20.0


def test_mps_blocks_run_in_a_child_with_the_environment_that_they_need(start: Start, tmp_path: Path) -> None:
    engine = start(environment_of=named_environment)
    half = replace(serving_block(Colocation.MPS), mps=MpsShare(active_thread_percentage=50))
    list(engine.beside_decode(serving_block(Colocation.TIME_SLICED)))
    list(engine.transfer(transfer_block()))
    list(engine.beside_decode(half))
    list(engine.beside_decode(half))
    list(engine.beside_decode(replace(half, mps=MpsShare(active_thread_percentage=20))))
    list(engine.beside_decode(serving_block(Colocation.SAME_CONTEXT)))
    log = _log(tmp_path)
    assert [(asked, value) for asked, _, value in log] == [
        ("time-sliced", "-"),
        ("transfer", "-"),
        ("mps", "mps-50"),
        ("mps", "mps-50"),
        ("mps", "mps-20"),
        ("same-context", "-"),
    ]
    pids = [pid for _, pid, _ in log]
    assert pids[0] == pids[1]
    assert pids[2] == pids[3]
    assert len(set(pids)) == 4


def test_a_child_that_is_replaced_keeps_its_environment(start: Start, tmp_path: Path) -> None:
    engine = start(Misfortune(1, Deed.EXIT), environment_of=named_environment)
    list(engine.beside_decode(serving_block(Colocation.MPS)))
    assert [value for _, _, value in _log(tmp_path)] == ["mps-None", "mps-None"]


def test_a_client_of_mps_is_renewed_where_the_next_block_runs(start: Start, tmp_path: Path) -> None:
    engine = start(environment_of=named_environment)
    for colocation in (Colocation.MPS, Colocation.MPS, Colocation.TIME_SLICED):
        list(engine.beside_decode(serving_block(colocation)))
        engine.renew()
        assert (engine.pid is None) == (colocation is Colocation.MPS)  # which would be no place for the next one
    log = _log(tmp_path)
    assert [value for _, _, value in log] == ["mps-None", "mps-None", "-"]
    assert len({pid for _, pid, _ in log}) == 3


def test_without_mps_such_a_block_is_refused_and_the_next_one_runs(start: Start) -> None:
    engine = start()
    first = engine.pid
    with pytest.raises(DeviceError, match="no MPS daemon"):
        list(engine.beside_decode(serving_block(Colocation.MPS)))
    assert list(engine.beside_decode(serving_block()))
    assert engine.pid == first
