"""What has been measured so far of the shapes of a canary, compared with what is stored of them."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Final

from pega_tune.autotune.engine import Status
from pega_tune.autotune.sweep.choices import cell_of, kind_of
from pega_tune.autotune.sweep.observations import transfer_samples
from pega_tune.autotune.verify.changes import (
    COPIES,
    LEAST_MARGIN,
    PLANS,
    Series,
    ShapeChange,
    State,
    change,
    pooled,
    ratios,
    state_of,
)
from pega_tune.autotune.verify.probes import Probe, ceiling_of
from pega_tune.autotune.verify.verification import CheckedCell
from pega_tune.kernels.plan import AnyPlan
from pega_tune.profiles.store.records import BlockRecord

ABSOLUTE_BYTES: Final = 4 << 20
"""From so many bytes on a contiguous copy is bound by the link, so that its own time tells of it."""


class Comparison:
    """Takes blocks as they are measured, and says what is known of each subject."""

    def __init__(self, probes: Sequence[Probe]) -> None:
        self._probes = probes
        self._taken: dict[Probe, dict[int, list[BlockRecord]]] = {probe: {} for probe in probes}

    def add(self, probe: Probe, process: int, record: BlockRecord) -> None:
        """Takes one more block of a shape, as measured in the `process`-th process."""
        self._taken[probe].setdefault(process, []).append(record)

    def cells(self) -> tuple[CheckedCell, ...]:
        """All that can be compared, and all that failed, shape by shape."""
        return tuple(cell for probe in self._probes for cell in self._cells(probe) if self._taken[probe])

    def states(self) -> Mapping[str, State]:
        """What is known of each subject, those that could not be compared left out."""
        return {subject: state_of(found, self.margin) for subject, found in self._changes().items()}

    def telling(self, subjects: Collection[str]) -> tuple[Probe, ...]:
        """The shapes that would tell more of these subjects."""
        return tuple(probe for probe in self._probes if not _subjects(probe).isdisjoint(subjects))

    def noisy(self, subjects: Collection[str]) -> tuple[Probe, ...]:
        """The shapes that would tell more of these subjects, if measured again in the same process."""
        noisy = {
            cell.shape for cell in self.cells() if cell.subject in subjects and cell.change and cell.change.is_noisy
        }
        return tuple(probe for probe in self._probes if probe.shape in noisy)

    def drifts(self) -> Iterator[str]:
        """A line on each subject that has drifted, contiguous copies first."""
        changes = self._changes()
        for subject, state in self.states().items():
            if state is State.DRIFTED:
                found = pooled(changes[subject])
                compared = "" if subject.startswith(_CEILING) else " compared with contiguous copies"
                yield (
                    f"{subject}: {found.estimate:.2f} times as long as stored{compared} "
                    f"({found.low:.2f} to {found.high:.2f}, {len(changes[subject])} shapes)"
                )

    def failures(self) -> Iterator[str]:
        """A line on each plan that could be measured when the profile was made, and cannot now."""
        yield from dict.fromkeys(f"{c.plan.key}: {c.detail}" for c in self.cells() if c.plan is not None and c.detail)

    def open_questions(self) -> Iterator[str]:
        """Why it cannot be said that the profile holds; nothing if all that matters does.

        Contiguous copies and the kinds of plans that the profile chooses matter; of the others it is enough that they
        have not drifted.
        """
        states = self.states()
        if not any(self._taken.values()):
            yield "nothing could be measured"
            return
        chosen = (_subject(probe, probe.chosen.plan) for probe in self._probes)
        ceilings = (_subject(probe, None) for probe in self._probes if probe.shape.total_bytes >= ABSOLUTE_BYTES)
        for subject in dict.fromkeys((*ceilings, *chosen)):
            if states.get(subject) is not State.HOLDS:
                yield f"{subject}: too little is known to tell whether it has changed"

    @property
    def margin(self) -> float:
        """Relative change that is none."""
        return max([LEAST_MARGIN, *(probe.chosen.margin for probe in self._probes)])

    def _changes(self) -> dict[str, list[ShapeChange]]:
        changes: defaultdict[str, list[ShapeChange]] = defaultdict(list)
        for cell in sorted(self.cells(), key=lambda cell: cell.plan is not None):
            if cell.change is not None:
                changes[cell.subject].append(cell.change)
        return changes

    def _cells(self, probe: Probe) -> Iterator[CheckedCell]:
        if probe.shape.total_bytes >= ABSOLUTE_BYTES:
            stored = [_ceiling_s(block) for block in probe.stored]
            yield self._cell(probe, None, change(stored, self._now(probe, _ceiling_s), COPIES))
        for plan in probe.plans:
            then = [_ratios(block, plan) for block in probe.stored]
            now = self._now(probe, partial(_ratios, plan=plan))
            yield self._cell(probe, plan, change(then, now, PLANS))

    def _now(self, probe: Probe, samples: Callable[[BlockRecord], Series]) -> Iterator[Series]:
        """What was measured now, process by process."""
        for blocks in self._taken[probe].values():
            yield tuple(chain.from_iterable(map(samples, blocks)))

    def _cell(self, probe: Probe, plan: AnyPlan | None, found: ShapeChange | None) -> CheckedCell:
        subject = _subject(probe, plan)
        state = State.UNDECIDED if found is None else found.alone.state(self.margin)
        return CheckedCell(subject, probe.shape, plan, found, state, "" if plan is None else self._failure(probe, plan))

    def _failure(self, probe: Probe, plan: AnyPlan) -> str:
        blocks = chain.from_iterable(self._taken[probe].values())
        failed = (c for b in blocks for c in b.cells if c.plan == plan and c.status != Status.OK)
        return next((f"{cell.status}{cell.detail and f' ({cell.detail})'}" for cell in failed), "")


_CEILING: Final = "contiguous copy"


def _subjects(probe: Probe) -> set[str]:
    return {_subject(probe, plan) for plan in (None, *probe.plans)}


def _subject(probe: Probe, plan: AnyPlan | None) -> str:
    return f"{_CEILING} {probe.shape.direction}" if plan is None else kind_of(plan)


def _ceiling_s(block: BlockRecord) -> Series:
    ceiling = ceiling_of(block)
    return transfer_samples(ceiling) if ceiling else ()


def _ratios(block: BlockRecord, plan: AnyPlan) -> Series:
    cell = cell_of(block, plan)
    return ratios(transfer_samples(cell), _ceiling_s(block)) if cell else ()
