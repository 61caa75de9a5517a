"""What only a real device can show of serving blocks."""

import os
import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pega_tune.autotune.cuda.factory import CudaEngineFactory
from pega_tune.autotune.cuda.serving.decode import DecodeLostError
from pega_tune.autotune.cuda.serving.mps import CONTROL
from pega_tune.autotune.cuda.serving.mps_clients import MpsClients
from pega_tune.autotune.cuda.serving.overlap import SERIALISED
from pega_tune.autotune.cuda.serving.places import ColocationError
from pega_tune.autotune.engine import Engine, Status
from pega_tune.autotune.isolated import IsolatedEngine
from pega_tune.autotune.isolation.environment import Environment
from pega_tune.autotune.isolation.timeouts import Timeouts
from pega_tune.autotune.serving import BASELINE, DecodeSpec, MpsShare, Pacing, Segment, ServingBlock
from pega_tune.kernels.backends.staged import staged
from pega_tune.kernels.plan import Completion, direct
from pega_tune.kernels.shape import Direction, TransferShape
from pega_tune.profiles.policy.terms import Colocation
from tests.helpers.engines import WARP, candidates, transfer_block, unsupported_plan
from tests.helpers.serving_blocks import serving_block

pytestmark = pytest.mark.gpu

SHAPE = TransferShape(256, 256 * 4096, Direction.BOTH)
PLANS = (direct(), WARP, staged(), replace(WARP, completion=Completion.BLOCKING_EVENT))
PROCESS_FREE = (Colocation.SAME_CONTEXT, Colocation.TIME_SLICED)

Start = Callable[..., IsolatedEngine]


@pytest.fixture
def start(cuda_engine_factory: CudaEngineFactory) -> Iterator[Start]:
    """Starts engines in processes of their own."""
    engines = []

    def make(**options: object) -> IsolatedEngine:
        engines.append(IsolatedEngine(cuda_engine_factory, Timeouts(), **options))  # type: ignore[arg-type]
        return engines[-1]

    yield make
    for engine in engines:
        engine.close()


def _block(colocation: Colocation, **changes: object) -> ServingBlock:
    block = serving_block(colocation, PLANS, Pacing(period_s=0.02, bursts=5), shape=SHAPE)
    return replace(block, decode=DecodeSpec(model="small"), **changes)  # type: ignore[arg-type]


def _decode_processes() -> list[int]:
    """Children of this process that decode."""
    found = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(status.read_text().rpartition(")")[2].split()[1])
            command = (status.parent / "cmdline").read_bytes()
        except (OSError, ValueError):
            continue
        if parent == os.getpid() and b"decode_child" in command:
            found.append(int(status.parent.name))
    return found


def _assert_whole(block: ServingBlock, segments: list[Segment]) -> None:
    assert {(s.candidate, s.status, s.detail) for s in segments if s.status is not Status.OK} == set()
    assert {s.candidate for s in segments} == {BASELINE, *range(len(block.candidates))}
    for segment in segments:
        assert segment.flags == ()
        assert len(segment.step_ends) > 20
        assert 1e-5 < float(np.median(segment.steps_s)) < 0.02
        if segment.candidate != BASELINE:
            assert len(segment.due) == 5
            assert segment.verified
            assert (segment.completed > segment.submitted).all()
            assert 0 < (segment.host_cpu_s or 0) < 1


@pytest.mark.parametrize("colocation", PROCESS_FREE)
def test_a_block_beside_decode_is_whole(start: Start, colocation: Colocation) -> None:
    engine = start()
    block = _block(colocation)
    _assert_whole(block, list(engine.beside_decode(block)))
    conditions = engine.conditions()
    assert conditions.unknown or (conditions.sm_clock_hz and set(conditions.other_processes) <= {os.getpid()})


@pytest.mark.parametrize("share", [MpsShare(), MpsShare(active_thread_percentage=20, client_priority=1)])
def test_a_block_under_mps_is_whole(start: Start, share: MpsShare) -> None:
    if shutil.which(CONTROL) is None:
        pytest.skip(f"{CONTROL} is not installed")
    with MpsClients(may_start=True) as clients:
        engine = start(environment_of=clients)
        block = _block(Colocation.MPS, mps=share)
        _assert_whole(block, list(engine.beside_decode(block)))
        sliced = _block(Colocation.TIME_SLICED)
        _assert_whole(sliced, list(engine.beside_decode(sliced)))
        engine.close()


@pytest.mark.parametrize("colocation", PROCESS_FREE)
def test_an_environment_that_blocks_launches_is_flagged(start: Start, colocation: Colocation) -> None:
    def blocking(_colocation: Colocation, _share: MpsShare) -> Environment:
        return (("CUDA_LAUNCH_BLOCKING", "1"),)

    segments = list(start(environment_of=blocking).beside_decode(_block(colocation)))
    assert {s.flags for s in segments} == {(SERIALISED,)}


def test_a_rest_after_chunks_and_the_shortest_period_can_be_measured(start: Start) -> None:
    chunked = candidates(Direction.BOTH, replace(direct(), chunk_bytes=64 << 10))
    pacing = Pacing(period_s=None, bursts=3, sleep_s=0.001)
    block = _block(Colocation.SAME_CONTEXT, candidates=chunked, pacing=pacing)
    segments = [s for s in start().beside_decode(block) if s.candidate == 1]
    assert {s.status for s in segments} == {Status.OK}
    for segment in segments:
        assert (segment.completed - segment.submitted > 15 * 0.001).all()  # 16 chunks
        assert segment.period_s > 15 * 0.001


def test_a_plan_that_cannot_run_leaves_and_the_others_go_on(start: Start) -> None:
    block = _block(Colocation.TIME_SLICED, candidates=candidates(Direction.BOTH, unsupported_plan(), WARP))
    segments = list(start().beside_decode(block))
    assert [(s.candidate, s.status) for s in segments if s.status is not Status.OK] == [(1, Status.UNSUPPORTED)]
    assert sum(s.candidate == 2 for s in segments) == 2


@pytest.fixture
def engine(cuda_engine_factory: CudaEngineFactory) -> Iterator[Engine]:
    """An engine in this process."""
    with closing(cuda_engine_factory()) as engine:
        yield engine
    assert _decode_processes() == []


def test_decode_runs_on_for_the_next_block_and_ends_before_transfers_alone(engine: Engine) -> None:
    list(engine.beside_decode(_block(Colocation.TIME_SLICED)))
    (first,) = _decode_processes()
    list(engine.beside_decode(_block(Colocation.TIME_SLICED, seed=8)))
    assert _decode_processes() == [first]
    assert list(engine.transfer(transfer_block()))
    assert _decode_processes() == []


def test_decode_that_is_killed_costs_the_engine(engine: Engine) -> None:
    segments = engine.beside_decode(_block(Colocation.TIME_SLICED))
    next(segments)
    (pid,) = _decode_processes()
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(DecodeLostError, match="the decode process was killed by SIGKILL"):
        list(segments)


def test_a_process_without_mps_measures_nothing_under_it(engine: Engine) -> None:
    with pytest.raises(ColocationError, match="no client of MPS"):
        list(engine.beside_decode(_block(Colocation.MPS)))
