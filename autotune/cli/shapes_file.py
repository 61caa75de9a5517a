"""Transfer shapes in a file of JSON lines, which `pega-tune shape` prints and a transfer engine may record."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pega_tune.autotune.cli.possible_shapes import possible
from pega_tune.autotune.kv.traffic import CountedShape, merged
from pega_tune.errors import DataError, UsageError
from pega_tune.kernels.shape import MAX_BYTES, Direction, TransferShape

_NEEDED = {"merged_ranges", "total_bytes"}
_OPTIONAL = ("host_runs", "alignment", "pitch")
_RECORDED = {"count", "at_s", "label"}
_KEYS = {*_NEEDED, "direction", *_OPTIONAL, *_RECORDED}
_HINT = 'each line is an object like {"merged_ranges": 1024, "total_bytes": 67108864, "direction": "h2d"}'
_MAX_FILE_BYTES = 1 << 24


def read_shapes(path: Path) -> tuple[TransferShape, ...]:
    """The shapes in a file, each once, the most frequent first, else in their order.

    Raises:
        DataError: as `read_traffic`.
    """
    return tuple(each.shape for each in read_traffic(path))


def read_traffic(path: Path) -> tuple[CountedShape, ...]:
    """The shapes in a file with how often each occurs, the most frequent first, else in their order.

    A line is a JSON object; empty lines are skipped. It has `merged_ranges` and `total_bytes`, and may have `direction`
    (else `both`), `host_runs`, `alignment`, `pitch`, and what a recording adds: `count`, the number of transfers that
    the line stands for (else 1), and `at_s` and `label`, which nobody reads.

    Raises:
        DataError: the file cannot be read, or a line of it is no shape.
    """
    try:
        with path.open("rb") as file:
            content = file.read(_MAX_FILE_BYTES + 1)
        lines = content.decode("utf-8-sig").splitlines()
    except OSError as error:
        raise DataError(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not UTF-8 text", _HINT) from error
    if len(content) > _MAX_FILE_BYTES:
        raise DataError(f"{path} is larger than 16 MiB", "write equal shapes once, with their number as count")
    shapes = merged(_counted(line, f"{path}, line {number}") for number, line in enumerate(lines, 1) if line.strip())
    if not shapes:
        raise DataError(f"{path} holds no shapes", _HINT)
    return shapes


def shape_document(shape: TransferShape) -> dict[str, Any]:
    """A shape as a JSON object, as on a line of such a file; what is not known is left out."""
    known = {key: value for key in _OPTIONAL if (value := getattr(shape, key)) is not None}
    counts = {"merged_ranges": shape.merged_ranges, "total_bytes": shape.total_bytes}
    return {**counts, "direction": str(shape.direction), **known}


def _counted(line: str, where: str) -> CountedShape:
    try:
        data = json.loads(line, object_pairs_hook=_object)
    except UsageError as error:
        raise DataError(f"{where}: {error.message}", _HINT) from error
    except (ValueError, RecursionError) as error:
        raise DataError(f"{where}: not JSON", _HINT) from error
    if not isinstance(data, dict):
        raise DataError(f"{where}: not a transfer shape", _HINT)
    if missing := _NEEDED - data.keys():
        raise DataError(f"{where}: a shape needs {' and '.join(sorted(missing))}", _HINT)
    unknown = data.keys() - _KEYS
    if unknown:
        known = ", ".join(sorted(_KEYS - _NEEDED))
        raise DataError(f"{where}: a shape has no {json.dumps(min(unknown))}", f"it may have {known}")
    try:
        return CountedShape(_shape(data), _count("count", data.get("count", 1)))
    except UsageError as error:
        raise DataError(f"{where}: {error.message}", error.hint) from error


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Raises UsageError if a key occurs twice: which of the two was meant, nobody knows."""
    data = dict(pairs)
    if len(data) < len(pairs):
        raise UsageError("a key occurs twice")
    return data


def _shape(data: Mapping[str, Any]) -> TransferShape:
    """Raises UsageError if a value makes no sense."""
    word = data.get("direction", Direction.BOTH)
    if word not in tuple(Direction):
        raise UsageError(f"direction is one of {', '.join(Direction)}, not {json.dumps(word)}")
    host_runs, alignment, pitch = (None if data.get(k) is None else _count(k, data[k]) for k in _OPTIONAL)
    ranges, total = (_count(key, data[key]) for key in ("merged_ranges", "total_bytes"))
    return possible(TransferShape(ranges, total, Direction(word), host_runs, alignment, pitch))


def _count(key: str, value: Any) -> int:
    # JSON's true and 1.0 would pass for numbers.
    if type(value) is not int:
        raise UsageError(f"{key} is a whole number, not {json.dumps(value)}")
    if abs(value) > MAX_BYTES:  # a number of thousands of digits cannot be printed
        raise UsageError(f"{key} is at most 2^62")
    return value
