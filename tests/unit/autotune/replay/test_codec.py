"""Recordings as bytes."""

import gzip
import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from pega_tune.autotune.replay.codec import decode, encode
from pega_tune.autotune.replay.errors import RecordingError
from pega_tune.autotune.replay.recording import Recording
from pega_tune.autotune.sweep.request import SweepRequest
from pega_tune.kernels.facts import Link
from pega_tune.kernels.plan import PlanPair, Variant, direct, kernel
from pega_tune.kernels.shape import Direction, TransferShape
from pega_tune.profiles.store.records import BlockFlag, MeasurementRecord, Metric, SweepRecord, SweepState
from tests.helpers.recordings import RECORDINGS, load
from tests.helpers.sweeps import block, cell, sim_engine

WARP = kernel(Variant.WARP, 2, 1024)
BOTH = TransferShape(16, 65_536, Direction.BOTH)
STRIDED = TransferShape(16, 65_536, Direction.H2D, host_runs=1, pitch=8192)


def _recording() -> Recording:
    sweep = SweepRecord(
        sweep_id="0123456789ab",
        device=sim_engine().facts,
        preset="quick",
        seed=3,
        request=SweepRequest(max_device_bytes=1 << 30, max_host_bytes=1 << 30).to_json(),
        method_version=1,
        kernel_digest="",
        environment="{}",
        planned_blocks=2,
        state=SweepState.FINISHED,
        started_at=datetime(2026, 11, 30, tzinfo=UTC),
        reasons=("one", "two"),
        pid=42,
        host="somewhere",
    )
    wrong = replace(cell(PlanPair(WARP, direct()), (), status="mismatch"), detail="byte 7 of range 3 is wrong")
    series = (
        MeasurementRecord(Metric.STALL, (1e-3, 2e-9), "too-few", ("outliers",)),
        MeasurementRecord(Metric.TRANSFER, (1.234567891,)),
    )
    noted = replace(cell(PlanPair(WARP, WARP), ()), measurements=series)
    one = replace(
        block(BOTH, [wrong, noted], BlockFlag.THROTTLED, BlockFlag.CONTENDED),
        link=Link(5, 16),
        sm_clock_hz=1_980_000_000,
        throttle_reasons=("sw-thermal-slowdown",),
        period_s=0.05,
        decode="builtin qwen3-4b",
    )
    return Recording(sweep, (one, block(STRIDED, [cell(direct(), [3e-6])])), "abc", "pega-tune sweep")


def test_all_that_is_stored_comes_back_but_for_the_process() -> None:
    recording = _recording()
    assert decode(encode(recording)) == recording
    assert (recording.sweep.pid, recording.sweep.host) == (None, None)


def test_samples_are_rounded_to_nanoseconds() -> None:
    recording = _recording()
    fine = replace(recording, blocks=(block(STRIDED, [cell(direct(), [1.4e-9, 2.6e-9, 1e-4 + 4e-10])]),))
    samples = decode(encode(fine)).blocks[0].cells[0].measurements[0].samples
    assert samples == (1e-9, 3e-9, 1e-4)


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_a_recording_of_a_device_is_small_and_written_as_it_would_be_now(path: Path) -> None:
    content = path.read_bytes()
    assert len(content) < 5_000_000
    recording = load(path)
    assert encode(recording) == content
    assert recording.commit
    assert recording.command
    assert not recording.sweep.device.simulated


def test_a_changed_sample_is_noticed() -> None:
    lines = gzip.decompress(encode(_recording()))
    assert lines.count(b"1234567891") == 1
    with pytest.raises(RecordingError, match="damaged"):
        decode(gzip.compress(lines.replace(b"1234567891", b"1234567892")))


def test_a_changed_header_is_noticed() -> None:
    lines = gzip.decompress(encode(_recording()))
    with pytest.raises(RecordingError, match="damaged"):
        decode(gzip.compress(lines.replace(b'"commit":"abc"', b'"commit":"abd"')))


@pytest.mark.parametrize("cut", [10, 40, -20, -1])
def test_a_file_that_is_cut_off_is_refused(cut: int) -> None:
    with pytest.raises(RecordingError):
        decode(encode(_recording())[:cut])


@pytest.mark.parametrize(
    "content",
    [b"", b"text", gzip.compress(b"", mtime=0), gzip.compress(b"[]", mtime=0), gzip.compress(b"{}\n[]\n", mtime=0)],
)
def test_what_is_no_recording_is_refused(content: bytes) -> None:
    with pytest.raises(RecordingError):
        decode(content)


def test_another_format_is_refused_by_its_number() -> None:
    first, *rest = gzip.decompress(encode(_recording())).splitlines()
    header = json.dumps({**json.loads(first), "format": 99}).encode()
    with pytest.raises(RecordingError, match="format 99"):
        decode(gzip.compress(b"\n".join([header, *rest])))
