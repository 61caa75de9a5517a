"""Options that several commands share, and values that need more than a type to be parsed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pega_tune.autotune.cli.shapes_file import read_shapes
from pega_tune.autotune.cli.units import parse_size
from pega_tune.errors import UsageError
from pega_tune.profiles.policy.terms import Colocation
from pega_tune.profiles.policy.urls import require_file_name

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pega_tune.autotune.layouts import NamedLayout
    from pega_tune.kernels.facts import DeviceFacts
    from pega_tune.kernels.shape import TransferShape

SweepArgument = Annotated[str, typer.Argument(metavar="ID", help="Id of a sweep, or a prefix that no other has.")]
ProfileArgument = Annotated[str, typer.Argument(metavar="ID", help="Id of a profile, or a prefix that no other has.")]

DeviceOption = Annotated[str, typer.Option(metavar="auto|N|UUID|sim:NAME", help="What to measure.")]
RangesOption = Annotated[int | None, typer.Option(metavar="N", help="Ranges, per direction.  [default: 16384]")]
RangeBytesOption = Annotated[
    str | None,
    typer.Option(metavar="SIZE", help="Of each range; 4KiB or 4K is 4096 bytes, 4KB is 4000.  [default: 4KiB]"),
]
LayoutOption = Annotated[
    str | None,
    typer.Option(
        metavar="contiguous|strided|shuffled|host-ordered|runs:N",
        help="How the ranges lie; runs:N is N runs on the host, shuffled.  [default: shuffled]",
    ),
]
BatchesOption = Annotated[
    Path | None, typer.Option("--shapes", metavar="FILE", help="A batch for each of these; a JSON object on each line.")
]
BESIDE_DECODE = tuple(colocation for colocation in Colocation if colocation is not Colocation.IDLE)
_BATCH_OPTIONS = {
    "ranges": "--ranges",
    "range_bytes": "--range-bytes",
    "layout": "--layout",
    "directions": "--direction",
}
SeedOption = Annotated[int | None, typer.Option(metavar="N", help="Of every random choice.  [default: 0]")]


def given(asked: dict[str, Any]) -> dict[str, Any]:
    """The options that the user gave, to let everything else have its default."""
    return {name: value for name, value in asked.items() if value is not None}


def named_file(path: Path) -> Path:
    """The path, unless it is empty, which a path cannot tell from a dot, or the URL of a server.

    Raises:
        UsageError: it is one of these.
    """
    if path == Path():
        raise UsageError("an empty text, or a dot, names no file", "name one")
    require_file_name(str(path))
    return path


def optional_size(text: str | None) -> int | None:
    """Bytes from `4KiB`; None stays None.

    Raises:
        UsageError: it is no size.
    """
    return None if text is None else parse_size(text)


def optional_layout(text: str | None) -> NamedLayout | None:
    """A layout from its name; None stays None.

    Raises:
        UsageError: there is no such layout.
    """
    if text is None:
        return None
    from pega_tune.autotune.layouts import NamedLayout

    return NamedLayout.parse(text)


def shapes_instead(shapes: Path, batch: dict[str, Any]) -> tuple[TransferShape, ...]:
    """The shapes of a file.

    Args:
        shapes: the file.
        batch: what other options say of what to move, by keyword.

    Raises:
        UsageError: they say anything.
        DataError: there are no shapes in the file.
    """
    if batch:
        option = _BATCH_OPTIONS[next(iter(batch))]
        raise UsageError(f"{option} and --shapes both say what to move", "leave one of them out")
    return read_shapes(shapes)


def batch_of(shape: TransferShape) -> dict[str, Any]:
    """A batch of equal ranges with the counts of a shape, by keyword; what their average rounds off is left out."""
    from pega_tune.autotune.layouts import NamedLayout

    return {
        "ranges": shape.merged_ranges,
        "range_bytes": shape.average_range_bytes,
        "layout": NamedLayout.fitting(shape),
    }


def colocations(text: str, offered: Iterable[Colocation] = Colocation) -> tuple[Colocation, ...]:
    """Colocations from `idle,time-sliced`, each once, in their order.

    Args:
        text: the words.
        offered: those that hints name, where not all make sense.

    Raises:
        UsageError: one of the words is none.
    """
    words = [word.strip() for word in text.split(",") if word.strip()]
    hint = f"choose among: {', '.join(offered)}"
    if not words:
        raise UsageError("there is no colocation in an empty list", hint)
    for word in words:
        if word not in tuple(Colocation):
            raise UsageError(f"there is no colocation {word!r}", hint)
    return tuple(dict.fromkeys(Colocation(word) for word in words))


def optional_device(spec: str | None) -> DeviceFacts | None:
    """Facts of the device that `spec` names; None stays None.

    Raises:
        UsageError: there is no such device.
        DeviceError: there is no GPU at all, or its driver does not work.
    """
    if spec is None:
        return None
    from pega_tune.autotune.devices import find_device

    return find_device(spec).facts
