"""Which candidates a sweep lost: a profile without them may be published, but says nothing of them."""

from collections.abc import Iterator, Sequence
from typing import Final

from pega_tune.autotune.engine import Status
from pega_tune.profiles.store.records import BlockRecord

LOST: Final = {
    Status.CRASHED: "crashed",
    Status.TIMED_OUT: "did not answer in time",
    Status.INVALID: "could not be timed",
}
"""In words. Wrong bytes are not among them: those are a reason not to publish."""


def losses(blocks: Sequence[BlockRecord]) -> tuple[str, ...]:
    """A line for each way in which candidates were lost, with the first one as an example; none if none was."""
    return tuple(_losses(blocks))


def _losses(blocks: Sequence[BlockRecord]) -> Iterator[str]:
    for status, happened in LOST.items():
        lost = [(block, cell) for block in blocks for cell in block.cells if cell.status == status]
        if not lost:
            continue
        block, cell = lost[0]
        counted = f"{len(lost)} candidate{'s' if len(lost) > 1 else ''} {happened}"
        where = f"in {len({block.key for block, _ in lost})} of {len(blocks)} blocks"
        why = f" ({cell.detail})" if cell.detail else ""
        yield f"{counted}, {where}; the first: {cell.name} in {block.key}{why}"
