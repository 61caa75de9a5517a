"""Options that several commands share, and values that need more than a type to be parsed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from pega_tune.errors import UsageError
from pega_tune.profiles.policy.terms import Colocation

if TYPE_CHECKING:
    from pega_tune.kernels.facts import DeviceFacts

SweepArgument = Annotated[str, typer.Argument(metavar="ID", help="Id of a sweep, or a prefix that no other has.")]
ProfileArgument = Annotated[str, typer.Argument(metavar="ID", help="Id of a profile, or a prefix that no other has.")]


def colocations(text: str) -> tuple[Colocation, ...]:
    """Colocations from `idle,time-sliced`, each once, in their order.

    Raises:
        UsageError: one of the words is none.
    """
    words = [word.strip() for word in text.split(",") if word.strip()]
    known = [str(colocation) for colocation in Colocation]
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
