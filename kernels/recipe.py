"""What a kernel's source is compiled to. Standard library only."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from pega_tune.kernels.plan import MAX_THREADS

ComputeCapability: TypeAlias = tuple[int, int]
DeviceFunction: TypeAlias = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Recipe:
    """What to compile a kernel's source to.

    Attributes:
        name: of its entry point, by which the source is known, too.
        compute_capability: (major, minor) of the device, 7.5 and up.
        launch_bounds: the most threads of a CTA, and how many such CTAs the registers must let run on an SM.
    """

    name: str
    compute_capability: ComputeCapability
    launch_bounds: int | tuple[int, int] = MAX_THREADS
