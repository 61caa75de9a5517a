"""Options that several commands share, and values that need more than a type to be parsed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from pega_tune.autotune.cli.units import parse_size
from pega_tune.errors import UsageError
from pega_tune.profiles.policy.terms import Colocation

if TYPE_CHECKING:
    from pega_tune.autotune.layouts import NamedLayout
    from pega_tune.kernels.facts import DeviceFacts

SweepArgument = Annotated[str, typer.Argument(metavar="ID", help="Id of a sweep, or a prefix that no other has.")]
ProfileArgument = Annotated[str, typer.Argument(metavar="ID", help="Id of a profile, or a prefix that no other has.")]

DeviceOption = Annotated[str, typer.Option(metavar="auto|N|UUID|sim:NAME", help="What to measure.")]
RangesOption = Annotated[int | None, typer.Option(metavar="N", help="Ranges, per direction.  [default: 16384]")]
RangeBytesOption = Annotated[
    str | None, typer.Option(metavar="SIZE", help="Bytes of each range, e.g. 4KiB.  [default: 4KiB]")
]
LayoutOption = Annotated[
    str | None,
    typer.Option(
        metavar="contiguous|strided|shuffled|host-ordered|runs:N",
        help="How the ranges lie; runs:N is N runs on the host, shuffled.  [default: shuffled]",
    ),
]
SeedOption = Annotated[int | None, typer.Option(metavar="N", help="Of every random choice.  [default: 0]")]


def given(asked: dict[str, Any]) -> dict[str, Any]:
    """The options that the user gave, to let everything else have its default."""
    return {name: value for name, value in asked.items() if value is not None}


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


def colocations(text: str) -> tuple[Colocation, ...]:
    """Colocations from `idle,time-sliced`, each once, in their order.

    Raises:
        UsageError: one of the words is none.
    """
    words = [word.strip() for word in text.split(",") if word.strip()]
    known = [str(colocation) for colocation in Colocation]
    if not words:
        raise UsageError("there is no colocation in an empty list", f"choose among: {', '.join(known)}")
    for word in words:
        if word not in known:
            raise UsageError(f"there is no colocation {word!r}", f"choose among: {', '.join(known)}")
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
