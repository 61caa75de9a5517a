"""The environment of an engine process: what the CUDA driver reads once, when it is initialised."""

from collections.abc import Callable
from typing import TypeAlias

from pega_tune.autotune.serving import MpsShare
from pega_tune.errors import DeviceError
from pega_tune.profiles.policy.terms import Colocation

Environment: TypeAlias = tuple[tuple[str, str | None], ...]
"""Variables that differ from the parent's, by name; one without a value is not set in the child."""

EnvironmentOf: TypeAlias = Callable[[Colocation, MpsShare], Environment]
"""The environment in which an engine measures MPS with a share, or idle and everything else; who is asked for another
one than the last gives it to a new process. It may raise `DeviceError`: what the colocation needs is not there."""


def without_mps(colocation: Colocation, _share: MpsShare) -> Environment:
    """The parent's own environment, in which there is no MPS.

    Raises:
        DeviceError: MPS is what is asked for.
    """
    if colocation is Colocation.MPS:
        raise DeviceError("no MPS daemon has been looked for", "an engine for MPS is given one")
    return ()
