from pathlib import Path

import pytest

from pega_tune.autotune.cli.shapes_file import read_shapes
from pega_tune.errors import DataError
from pega_tune.kernels.shape import Direction, TransferShape


def test_each_line_is_a_shape(tmp_path: Path) -> None:
    path = tmp_path / "shapes"
    path.write_text(
        '{"merged_ranges": 16, "total_bytes": 65536}\n\n'
        '{"merged_ranges": 1, "total_bytes": 1, "direction": "h2d", "host_runs": 1, "alignment": 16, "pitch": null}\n'
    )
    assert read_shapes(path) == (
        TransferShape(16, 65536, Direction.BOTH),
        TransferShape(1, 1, Direction.H2D, host_runs=1, alignment=16),
    )


def test_a_byte_order_mark_is_no_part_of_the_first_line(tmp_path: Path) -> None:
    path = tmp_path / "shapes"
    path.write_text('{"merged_ranges": 1, "total_bytes": 1}', encoding="utf-8-sig")
    assert read_shapes(path) == (TransferShape(1, 1, Direction.BOTH),)


@pytest.mark.parametrize(
    "line",
    [
        "nonsense",
        "[]",
        "{}",
        '{"merged_ranges": 1}',
        '{"merged_ranges": 1, "total_bytes": 1, "colour": 3}',
        '{"merged_ranges": true, "total_bytes": 1}',
        '{"merged_ranges": 1.0, "total_bytes": 1}',
        '{"merged_ranges": "1", "total_bytes": 1}',
        '{"merged_ranges": NaN, "total_bytes": 1}',
        '{"merged_ranges": 0, "total_bytes": 1}',
        '{"merged_ranges": 2, "total_bytes": 1}',
        '{"merged_ranges": 1, "total_bytes": 4611686018427387905}',
        '{"merged_ranges": 1, "total_bytes": 1, "direction": "up"}',
        '{"merged_ranges": 1, "total_bytes": 1, "direction": ["h2d"]}',
        "[" * 100_000,
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, line: str) -> None:
    path = tmp_path / "shapes"
    path.write_text('{"merged_ranges": 1, "total_bytes": 1}\n' + line)
    with pytest.raises(DataError, match="line 2"):
        read_shapes(path)


def test_a_file_without_shapes_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").write_text("\n\n")
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    for name, complaint in (
        ("empty", "no shapes"),
        ("binary", "not UTF-8"),
        ("absent", "No such file"),
        (".", "direct"),
    ):
        with pytest.raises(DataError, match=complaint):
            read_shapes(tmp_path / name)
