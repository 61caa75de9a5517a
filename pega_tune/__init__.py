"""Finds how a GPU best moves fragmented KV-cache ranges, and answers with a copy plan at run time."""

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"
__all__ = ["Auto", "LiveAuto", "__version__"]

if TYPE_CHECKING:
    from pega_tune.profiles.policy.auto import Auto
    from pega_tune.profiles.policy.live import LiveAuto


def __getattr__(name: str) -> Any:
    # Late, so that `import pega_tune` (and with it `pega-tune --help`) costs nothing.
    if name == "Auto":
        from pega_tune.profiles.policy.auto import Auto

        return Auto
    if name == "LiveAuto":
        from pega_tune.profiles.policy.live import LiveAuto

        return LiveAuto
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
