"""An engine that answers from a recording, and from nothing else."""

from collections.abc import Iterator, Mapping
from typing import Final

from pega_tune.autotune.engine import (
    Candidate,
    CandidateKind,
    Capabilities,
    Conditions,
    EngineLostError,
    Measurement,
    TransferBlock,
)
from pega_tune.autotune.measuring.schedule import BlockSchedule
from pega_tune.autotune.measuring.serving.schedule import ServingSchedule
from pega_tune.autotune.replay.capabilities import capabilities
from pega_tune.autotune.replay.errors import NotRecordedError
from pega_tune.autotune.replay.recording import Recording
from pega_tune.autotune.replay.tapes import baseline_segments, measurements, segments
from pega_tune.autotune.serving import BASELINE, Segment, ServingBlock
from pega_tune.autotune.sweep.keys import block_key
from pega_tune.kernels.facts import DeviceFacts
from pega_tune.kernels.plan import AnyPlan
from pega_tune.profiles.policy.terms import Colocation
from pega_tune.profiles.store.records import BlockFlag, BlockRecord, CellRecord

UNKNOWN_PROCESS: Final = 0
"""Stands for the processes that disturbed a block, of which a recording has no ids."""

_NOTHING: Final = Conditions(unknown="nothing has been replayed yet")


class ReplayEngine:
    """Samples of a recording, in the order of a block's schedule; equal blocks give equal measurements.

    A block is answered by the recorded one of its key, or else of its shape, layout and colocation; candidates by the
    cells of their plans. They go through the schedule of the block that is asked: one that has no more samples leaves
    it without a word, as one does that the schedule drops. What is not recorded is refused.

    Its facts say `replay:` before the UUID, which no device has: what is learnt from it names the recorded device, is
    not marked as simulated, since it was measured, and fits no device that is here.
    """

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._capabilities = capabilities(recording)
        self._conditions = _NOTHING
        self._closed = False

    @property
    def facts(self) -> DeviceFacts:
        """The recorded device, marked as replayed; a simulated one keeps its name."""
        return self._recording.replayed

    def capabilities(self) -> Capabilities:
        """What the recorded device can do, as far as the recording shows."""
        return self._capabilities

    def transfer(self, block: TransferBlock) -> Iterator[Measurement]:
        """As `Engine.transfer`.

        Raises:
            NotRecordedError: the shape, or one of the plans at it, was not measured; nothing is replayed.
        """
        recorded = self._find(block, Colocation.IDLE)
        cells = [_cell(recorded, candidate) for candidate in block.candidates]
        self._conditions = _conditions(recorded)
        return _replay_transfers(block, cells)

    def beside_decode(self, block: ServingBlock) -> Iterator[Segment]:
        """As `Engine.beside_decode`; see `segments` for what a recording does not tell.

        Raises:
            NotRecordedError: as `transfer`; or beside another decode workload.
        """
        recorded = self._find(block, block.colocation)
        if recorded.decode != block.decode.key:
            raise NotRecordedError(f"{recorded.key} was recorded beside {recorded.decode}, not {block.decode.key}")
        cells = [_cell(recorded, candidate) for candidate in block.candidates]
        self._conditions = _conditions(recorded)
        return _replay_segments(block, recorded, cells)

    def conditions(self) -> Conditions:
        """What was recorded with the last block."""
        return self._conditions

    def close(self) -> None:
        """As `Engine.close`."""
        self._closed = True

    def _find(self, block: TransferBlock | ServingBlock, colocation: Colocation) -> BlockRecord:
        if self._closed:
            raise EngineLostError("the engine has been closed")
        key = block_key(block.shape, colocation, block.layout)
        recorded = self._recording.block(block.key) or self._recording.block(key)
        if recorded is None or recorded.shape != block.layout.described(block.shape):
            raise NotRecordedError(f"{key} is not in the recording of {self._recording.sweep.device.uuid}")
        return recorded


def _replay_transfers(block: TransferBlock, cells: list[CellRecord]) -> Iterator[Measurement]:
    tapes = [measurements(cell, index) for index, cell in enumerate(cells)]
    schedule = BlockSchedule(block)
    while (step := schedule.next()) is not None:
        measurement = next(tapes[step.candidate], None)
        if measurement is None:
            schedule.withdraw()
        else:
            schedule.record(measurement)
            yield measurement


def _replay_segments(block: ServingBlock, recorded: BlockRecord, cells: list[CellRecord]) -> Iterator[Segment]:
    """Ends with the first candidate that has no more segments: none is ever dropped, so all have as many."""
    flags = tuple(str(flag) for flag in recorded.flags if flag is BlockFlag.SERIALISED)
    taken = [tuple(segments(cell, index, recorded.shape, flags)) for index, cell in enumerate(cells)]
    tapes: Mapping[int, Iterator[Segment]] = {index: iter(tape) for index, tape in enumerate(taken)}
    baseline = baseline_segments(cells[0], max(map(len, taken))) if cells else iter(())
    schedule = ServingSchedule(block)
    while (index := schedule.next()) is not None:
        segment = next(baseline if index == BASELINE else tapes[index], None)
        if segment is None:
            return
        schedule.record(segment)
        yield segment


def _cell(recorded: BlockRecord, candidate: Candidate) -> CellRecord:
    """What was recorded of a candidate: the ceiling of the ceiling, else whatever ran the plan."""
    cells = {_role(cell.kind, cell.plan): cell for cell in recorded.cells}
    found = cells.get(_role(candidate.kind, candidate.plan))
    if found is None:
        raise NotRecordedError(f"{candidate.name} was not recorded in {recorded.key}")
    return found


def _role(kind: str, plan: AnyPlan) -> tuple[bool, AnyPlan]:
    return kind == CandidateKind.CEILING, plan


def _conditions(recorded: BlockRecord) -> Conditions:
    return Conditions(
        sm_clock_hz=recorded.sm_clock_hz,
        link=recorded.link,
        throttle_reasons=recorded.throttle_reasons,
        other_processes=(UNKNOWN_PROCESS,) if BlockFlag.CONTENDED in recorded.flags else (),
        temperature_c=recorded.temperature_c,
        unknown=recorded.telemetry_note,
    )
