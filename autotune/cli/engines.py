"""The engine of a command: in a child process, as a client of MPS where that is asked for."""

from __future__ import annotations

from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from pega_tune.errors import UsageError
from pega_tune.profiles.policy.terms import Colocation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pega_tune.autotune.devices import DeviceChoice
    from pega_tune.autotune.isolated import IsolatedEngine
    from pega_tune.autotune.isolation.environment import EnvironmentOf
    from pega_tune.autotune.serving import MpsShare, Segment

StartMps = Annotated[
    bool,
    typer.Option("--start-mps", help="For the colocation mps, start an MPS daemon if none runs, and stop it again."),
]


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """How an engine is run.

    Attributes:
        start_mps: whether an MPS daemon of our own may be started.
        watch_segments: called with each segment as it comes.
    """

    start_mps: bool = False
    watch_segments: Callable[[Segment], None] | None = None


@contextmanager
def started(choice: DeviceChoice, options: EngineOptions | None = None) -> Iterator[IsolatedEngine]:
    """Starts the engine in a child process: this one owns the database and never touches CUDA.

    A daemon that was started for it ends after it.
    """
    from pega_tune.autotune.isolated import IsolatedEngine

    options = options or EngineOptions()
    with ExitStack() as stack:
        environment_of = _environment_of(choice, options.start_mps, stack)
        engine = IsolatedEngine(
            choice.factory,
            choice.timeouts,
            watch_segments=options.watch_segments,
            environment_of=environment_of,
        )
        yield stack.enter_context(closing(engine))


def require_mps(start_mps: bool, colocations: Iterable[Colocation]) -> None:
    """Refuses to start a daemon that nothing would use.

    Raises:
        UsageError: so.
    """
    if start_mps and Colocation.MPS not in colocations:
        raise UsageError("--start-mps is for the colocation mps, which is not asked for", "add it to --colocation")


def _environment_of(choice: DeviceChoice, start_mps: bool, stack: ExitStack) -> EnvironmentOf:
    if choice.facts.simulated:
        return _unchanged
    # Late: a simulated device needs nothing of CUDA.
    from pega_tune.autotune.cuda.serving.mps_clients import MpsClients

    return stack.enter_context(MpsClients(may_start=start_mps))


def _unchanged(_colocation: Colocation, _share: MpsShare) -> tuple[tuple[str, str | None], ...]:
    """A simulated device simulates MPS, too."""
    return ()
