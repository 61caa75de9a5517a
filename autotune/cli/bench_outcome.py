"""What the answers of all benchmarks have in common: which device, which batch, and what went wrong."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from pega_tune.autotune.cli.units import format_size
from pega_tune.profiles.policy.explain import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pega_tune.autotune.bench.batch import BatchRequest
    from pega_tune.kernels.facts import DeviceFacts
    from pega_tune.profiles.store.records import BlockFlag

_FAILURES = ("mismatch", "crashed", "timed-out", "invalid")
_DISTURBANCES = ("throttled", "contended", "slow-link", "serialised")


class OutcomeRow(Protocol):
    """A measured entry."""

    @property
    def name(self) -> str:
        """Unique within its block."""

    @property
    def status(self) -> str:
        """How it ended."""

    @property
    def detail(self) -> str:
        """Why that is not `ok`, one line."""

    @property
    def same_as(self) -> str | None:
        """The entry that it was measured with; None if it was measured itself."""


Row = TypeVar("Row", bound=OutcomeRow)
Row_co = TypeVar("Row_co", bound=OutcomeRow, covariant=True)


class Outcome(Protocol[Row_co]):
    """A measured block."""

    @property
    def flags(self) -> tuple[BlockFlag, ...]:
        """What was wrong while it ran."""

    @property
    def rows(self) -> tuple[Row_co, ...]:
        """Its entries."""


@contextmanager
def fitting(request: BatchRequest) -> Iterator[None]:
    """Says of a batch for which there is too little memory that it is this one.

    Raises:
        MemoryLimitError: so.
    """
    from pega_tune.autotune.engine import MemoryLimitError

    try:
        yield
    except MemoryLimitError as error:
        raise MemoryLimitError(f"{batch_words(request)}: {error.message}", "move fewer or smaller ranges") from error


def flagged(results: Sequence[Outcome[OutcomeRow]]) -> bool:
    """Whether the device was disturbed, or something failed."""
    return any(flag in _DISTURBANCES for result in results for flag in result.flags) or any(
        row.status in _FAILURES for result in results for row in result.rows
    )


def troubles(result: Outcome[Row], where: Callable[[Row], str]) -> Iterator[str]:
    """What to warn of in a block.

    Args:
        result: of the block.
        where: what tells a row from those of other blocks.
    """
    for flag in result.flags:
        yield f"the device was not in order while it was measured: {flag}"
    for row in result.rows:
        if row.status in _FAILURES and row.same_as is None:
            yield f"{where(row)}: {row.name}: {row.status}{row.detail and f' ({row.detail})'}"


def head_document(facts: DeviceFacts, request: BatchRequest, results: Sequence[Outcome[OutcomeRow]]) -> dict[str, Any]:
    """How every answer begins as a JSON object."""
    return {
        "device": facts.uuid,
        "simulated": facts.simulated,
        "ranges": request.ranges,
        "range_bytes": request.range_bytes,
        "layout": str(request.layout),
        "seed": request.seed,
        "flags": sorted({str(flag) for result in results for flag in result.flags}),
    }


def device_field(facts: DeviceFacts) -> tuple[str, str]:
    """The first line of an answer for people."""
    simulated = ", SIMULATED: these numbers come from a model" if facts.simulated else ""
    return "device", f"{facts.uuid}{simulated}"


def batch_words(request: BatchRequest) -> str:
    """The batch in words."""
    ranges = counted(request.ranges, "range")
    return f"{ranges} of {format_size(request.range_bytes)} per direction, {request.layout}"
