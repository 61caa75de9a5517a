"""Transfer shapes from a file of JSON lines."""

import json
from pathlib import Path
from typing import Any

from pega_tune.errors import DataError, UsageError
from pega_tune.kernels.shape import Direction, TransferShape

_KEYS = {"merged_ranges", "total_bytes", "direction", "host_runs", "alignment", "pitch"}
_NEEDED = {"merged_ranges", "total_bytes"}
_HINT = 'each line is an object like {"merged_ranges": 1024, "total_bytes": 67108864, "direction": "h2d"}'
_MAX_FILE_BYTES = 1 << 24


def read_shapes(path: Path) -> tuple[TransferShape, ...]:
    """The shapes in a file, one JSON object a line; empty lines are skipped.

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
        raise DataError(f"{path} is larger than 16 MiB", "a sweep measures dozens of shapes, not so many")
    shapes = tuple(_shape(line, f"{path}, line {number}") for number, line in enumerate(lines, 1) if line.strip())
    if not shapes:
        raise DataError(f"{path} holds no shapes", _HINT)
    return shapes


def _shape(line: str, where: str) -> TransferShape:
    try:
        data = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{where}: not JSON", _HINT) from error
    if not isinstance(data, dict) or not _NEEDED <= data.keys() <= _KEYS:
        raise DataError(f"{where}: not a transfer shape", _HINT)
    try:
        return TransferShape(
            _count(data["merged_ranges"]),
            _count(data["total_bytes"]),
            Direction(data.get("direction", Direction.BOTH)),
            *(None if data.get(key) is None else _count(data[key]) for key in ("host_runs", "alignment", "pitch")),
        )
    except UsageError as error:
        raise DataError(f"{where}: {error.message}", error.hint) from error
    except ValueError as error:
        raise DataError(f"{where}: {error}", _HINT) from error


def _count(value: Any) -> int:
    # JSON's true and 1.0 would pass for numbers.
    if type(value) is not int:
        raise ValueError(f"{json.dumps(value)} is not a whole number")
    return value
