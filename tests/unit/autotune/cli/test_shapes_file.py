"""Files of shapes."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pega_tune.autotune.cli.shapes_file import read_shapes, read_traffic, shape_document
from pega_tune.errors import DataError
from pega_tune.kernels.shape import Direction, TransferShape

LINE = {"merged_ranges": 4, "total_bytes": 4096}


def _shape(
    ranges: int, units: int, direction: Direction, alignment: int | None, lying: tuple[Any, Any]
) -> TransferShape:
    return TransferShape(ranges, ranges * units * 16, direction, lying[0], alignment, lying[1])


shapes = st.builds(
    _shape,
    st.integers(4, 1 << 20),
    st.integers(1, 1 << 20),
    st.sampled_from(Direction),
    st.none() | st.sampled_from((1, 2, 4, 8, 16)),
    st.tuples(st.none() | st.integers(1, 4), st.none()) | st.tuples(st.sampled_from((None, 1)), st.just(1 << 50)),
)


@given(shape=shapes)
def test_what_is_written_is_read_again(tmp_path_factory: pytest.TempPathFactory, shape: TransferShape) -> None:
    path = tmp_path_factory.getbasetemp() / "shapes.jsonl"
    path.write_text(json.dumps(shape_document(shape)))
    assert read_shapes(path) == (shape,)


def test_equal_lines_are_counted_and_the_most_frequent_comes_first(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    rare, often = {**LINE, "direction": "h2d"}, {**LINE, "direction": "d2h"}
    lines = [rare, {**often, "count": 2}, {**often, "count": 3, "at_s": 1.5, "label": "step 7"}, rare]
    path.write_text("\n\n".join(map(json.dumps, lines)))
    traffic = read_traffic(path)
    assert [(each.shape.direction, each.count) for each in traffic] == [("d2h", 5), ("h2d", 2)]
    assert read_shapes(path) == tuple(each.shape for each in traffic)


def test_both_is_the_direction_of_a_line_that_names_none(tmp_path: Path) -> None:
    path = tmp_path / "shapes.jsonl"
    path.write_text(json.dumps(LINE))
    assert read_shapes(path) == (TransferShape(4, 4096, Direction.BOTH),)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("{", "not JSON"),
        ("[]", "not a transfer shape"),
        ({"merged_ranges": 4}, "a shape needs total_bytes"),
        ("{}", "a shape needs merged_ranges and total_bytes"),
        ('{"merged_ranges": 4, "total_bytes": 64, "total_bytes": 128}', "a key occurs twice"),
        ({**LINE, "range_bytes": 9}, 'a shape has no "range_bytes"'),
        ({**LINE, "direction": "up"}, 'not "up"'),
        ({**LINE, "direction": []}, "not []"),
        ({**LINE, "merged_ranges": True}, "merged_ranges is a whole number, not true"),
        ({**LINE, "total_bytes": 4096.0}, "total_bytes is a whole number, not 4096.0"),
        ({**LINE, "merged_ranges": 4097}, "4097 ranges need"),
        ({**LINE, "total_bytes": 10**30}, "total_bytes is at most 2^62"),
        ({**LINE, "host_runs": 5}, "host runs are 1 to the number of ranges, not 5"),
        ({**LINE, "host_runs": 0}, "not 0"),
        ({**LINE, "alignment": 3}, "alignment is one of 1, 2, 4, 8, 16, not 3"),
        ({**LINE, "pitch": 1023}, "pitch is at least the size of a range"),
        ({**LINE, "host_runs": 2, "pitch": 2048}, "1 host run or 4, not 2"),
        ({**LINE, "count": 0}, "at least once"),
        ({**LINE, "count": "many"}, 'count is a whole number, not "many"'),
    ],
    ids=str,
)
def test_a_bad_line_is_named(tmp_path: Path, line: object, says: str) -> None:
    path = tmp_path / "shapes.jsonl"
    path.write_text(f"{json.dumps(LINE)}\n{line if isinstance(line, str) else json.dumps(line)}\n")
    with pytest.raises(DataError) as refused:
        read_traffic(path)
    assert refused.value.message.startswith(f"{path}, line 2: ")
    assert says in refused.value.message


@pytest.mark.parametrize("content", [b"", b"\n \n", b"\xff\xfe", b" " * ((1 << 24) + 1)], ids=len)
def test_a_file_without_shapes_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "shapes.jsonl"
    path.write_bytes(content)
    with pytest.raises(DataError, match=str(path)):
        read_traffic(path)


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="directory"):
        read_traffic(tmp_path)
