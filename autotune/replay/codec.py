"""Recordings as bytes: gzipped JSON lines, the same bytes for the same recording.

The first line says what it is, with the SHA-256 of all lines as they are while that stands empty; the second one lists
the plans; every other one is a block, whose cells name plans by their place in that list. Samples are whole
nanoseconds, which is what the clock of a host resolves. Of a block, a cell and a series, what has its usual value is
left out.
"""

import gzip
import hashlib
import json
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, asdict, fields
from datetime import datetime
from typing import Any, Final

from pega_tune.autotune.replay.errors import RecordingError
from pega_tune.autotune.replay.recording import Recording
from pega_tune.errors import PegaTuneError
from pega_tune.kernels.facts import DeviceFacts, Link
from pega_tune.kernels.plan import AnyPlan, plan_from_json
from pega_tune.kernels.shape import Direction, TransferShape
from pega_tune.profiles.policy.terms import Colocation
from pega_tune.profiles.store.records import (
    BlockFlag,
    BlockRecord,
    CellRecord,
    MeasurementRecord,
    Metric,
    SweepRecord,
    SweepState,
)

FORMAT: Final = 1
MAX_BYTES: Final = 1 << 28  # of the lines; a standard sweep has some 4 MB
_NANOSECONDS: Final = 1e9
_HINT: Final = "`pega-tune sweeps export` writes one"


def encode(recording: Recording) -> bytes:
    """The recording as bytes; samples are rounded to whole nanoseconds."""
    plans = list(dict.fromkeys(cell.plan for block in recording.blocks for cell in block.cells))
    places = {plan: place for place, plan in enumerate(plans)}
    body = [[plan.to_json() for plan in plans], *(_block(block, places) for block in recording.blocks)]
    lines = [_line(content) for content in body]
    header = {
        "format": FORMAT,
        "commit": recording.commit,
        "command": recording.command,
        "sweep": _sweep(recording.sweep),
        "digest": "",
    }
    header["digest"] = _digest(header, lines)
    return gzip.compress("".join([_line(header), *lines]).encode(), mtime=0)


def decode(data: bytes) -> Recording:
    """Inverse of `encode`.

    Raises:
        RecordingError: it is no recording, one of another version, or damaged.
    """
    try:
        first, *lines = _unzip(data).decode().splitlines(keepends=True)
        header = json.loads(first)
        if header["format"] != FORMAT:
            raise RecordingError(f"a recording of format {header['format']}, and {FORMAT} is what is read here", _HINT)
        if header["digest"] != _digest({**header, "digest": ""}, lines):
            raise RecordingError("the recording is damaged: it has another digest than it says")
        plans = [plan_from_json(plan) for plan in json.loads(lines[0])]
        blocks = tuple(_read_block(json.loads(line), plans) for line in lines[1:])
        return Recording(_read_sweep(header["sweep"]), blocks, header["commit"], header["command"])
    except RecordingError:
        raise
    except (OSError, EOFError, zlib.error, ValueError, TypeError, KeyError, IndexError, PegaTuneError) as error:
        raise RecordingError(f"not a recording: {error}", _HINT) from error


def _unzip(data: bytes) -> bytes:
    unzip = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)  # 16 stands for gzip's header
    content = unzip.decompress(data, MAX_BYTES)
    if not unzip.eof:
        raise RecordingError(f"the recording is cut off, or larger than {MAX_BYTES} bytes")
    return content


def _line(content: Any) -> str:
    return json.dumps(content, separators=(",", ":"), allow_nan=False) + "\n"


def _digest(header: Mapping[str, Any], lines: Iterable[str]) -> str:
    return hashlib.sha256("".join([_line(header), *lines]).encode()).hexdigest()


def _sweep(sweep: SweepRecord) -> dict[str, Any]:
    words = {"device": sweep.device.to_json(), "started_at": sweep.started_at.isoformat()}
    return {**_unusual(sweep), **words}


def _read_sweep(data: Mapping[str, Any]) -> SweepRecord:
    known = {
        "device": DeviceFacts.from_json(data["device"]),
        "started_at": datetime.fromisoformat(data["started_at"]),
        "state": SweepState(data["state"]),
        "reasons": tuple(data.get("reasons", ())),
    }
    return SweepRecord(**{**data, **known})


def _block(block: BlockRecord, places: Mapping[AnyPlan, int]) -> dict[str, Any]:
    shape = _unusual(block.shape) | {"direction": str(block.shape.direction)}
    link = {"link": asdict(block.link)} if block.link else {}
    return {
        **_unusual(block),
        **link,
        "shape": shape,
        "cells": [_cell(cell, places[cell.plan]) for cell in block.cells],
    }


def _read_block(data: Mapping[str, Any], plans: Sequence[AnyPlan]) -> BlockRecord:
    known = {
        "shape": TransferShape(**{**data["shape"], "direction": Direction(data["shape"]["direction"])}),
        "colocation": Colocation(data["colocation"]),
        "cells": tuple(_read_cell(cell, plans) for cell in data["cells"]),
        "flags": tuple(map(BlockFlag, data.get("flags", ()))),
        "link": Link(**data["link"]) if "link" in data else None,
        "throttle_reasons": tuple(data.get("throttle_reasons", ())),
    }
    return BlockRecord(**{**data, **known})


def _cell(cell: CellRecord, place: int) -> dict[str, Any]:
    series = [_series(measurement) for measurement in cell.measurements]
    return {**_unusual(cell), "plan": place, "measurements": series}


def _read_cell(data: Mapping[str, Any], plans: Sequence[AnyPlan]) -> CellRecord:
    series = tuple(map(_read_series, data["measurements"]))
    return CellRecord(**{**data, "plan": plans[data["plan"]], "measurements": series})


def _series(series: MeasurementRecord) -> dict[str, Any]:
    return {**_unusual(series), "samples": [round(sample * _NANOSECONDS) for sample in series.samples]}


def _read_series(data: Mapping[str, Any]) -> MeasurementRecord:
    samples = tuple(count / _NANOSECONDS for count in data["samples"])
    known = {"metric": Metric(data["metric"]), "samples": samples, "flags": tuple(data.get("flags", ()))}
    return MeasurementRecord(**{**data, **known})


def _unusual(record: Any) -> dict[str, Any]:
    """The fields of a record that have no default, or another value than that."""
    pairs = ((f.name, getattr(record, f.name), f.default) for f in fields(record))
    return {name: value for name, value, usual in pairs if usual is MISSING or value != usual}
