"""From copy plans to what they do, stage by stage, at the costs of the transfer-only model."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import Final

from pega_tune.autotune.sim.link import Load
from pega_tune.autotune.sim.model import TransferModel, chunks_of
from pega_tune.autotune.sim.stages import Copy, Gather, Lane, Launch, Program, Round
from pega_tune.autotune.sim.times import Leg
from pega_tune.autotune.sweep.plans import legs_of
from pega_tune.kernels.plan import AnyPlan, Backend, CopyPlan, PlanPair, direct
from pega_tune.kernels.shape import Direction, TransferShape


@dataclass(frozen=True, slots=True)
class _Side:
    """One direction of a transfer.

    Attributes:
        plan: how.
        direction: which.
        alone: its costs while the other direction is idle.
        paired: its costs while both are under way.
    """

    plan: CopyPlan
    direction: Direction
    alone: Leg
    paired: Leg

    @property
    def by_dma(self) -> bool:
        """Whether copy engines move the bytes across the link."""
        return self.plan.backend is not Backend.KERNEL


class ProgramBuilder:
    """Makes programs out of the transfer-only model's costs, so that on an idle device both agree."""

    def __init__(self, model: TransferModel, copy_ratio: float = 1.0) -> None:
        """Sets up.

        Args:
            model: of the device.
            copy_ratio: time of DMA commands, relative to the model's.
        """
        self._model: Final = model
        self._parameters: Final = model.parameters
        self._copy_ratio: Final = copy_ratio

    def contiguous(self, shape: TransferShape) -> Program:
        """The bytes of each direction as one DMA command."""
        one = TransferShape(1, shape.total_bytes, shape.direction)
        plan = PlanPair(direct(), direct()) if shape.direction is Direction.BOTH else direct()
        return replace(self.program(plan, one), prepare_s=0.0)

    def program(self, plan: AnyPlan, shape: TransferShape) -> Program:
        """A plan at a shape that it does not refuse; see `refusal`.

        Raises:
            ValueError: a pair for a single direction.
        """
        fused = isinstance(plan, PlanPair) and plan.fused
        sides = self._sides(plan, shape, fused)
        queues = [self._chunks(side, sides, shape) for side in sides]
        rounds = self._fused(queues, shape) if fused else self._rounds(sides, queues)
        prepare_s = sum(side.paired.prepare_s for side in sides)
        return Program(tuple(rounds), prepare_s, all(side.plan.backpressure for side in sides))

    def _sides(self, plan: AnyPlan, shape: TransferShape, fused: bool) -> list[_Side]:
        busy = shape.direction is Direction.BOTH and not fused
        return [
            _Side(one, side, *(self._model.leg(one, shape, side, b, whole=fused) for b in (False, busy)))
            for one, side in zip(legs_of(plan), shape.direction.legs, strict=True)
        ]

    def _rounds(self, sides: Sequence[_Side], queues: Sequence[Sequence[Lane]]) -> list[Round]:
        """Chunks of both directions are submitted, and waited for, in pairs."""
        rounds = []
        for number in range(max(len(queue) for queue in queues)):
            running = [(side, queue) for side, queue in zip(sides, queues, strict=True) if number < len(queue)]
            launching_s = sum(side.paired.submit_s / len(queue) for side, queue in running if not side.by_dma)
            wait_s = max(self._wait_s(side, number) for side, _ in running)
            rounds.append(Round(tuple(queue[number] for _, queue in running), launching_s + wait_s))
        return rounds

    def _wait_s(self, side: _Side, number: int) -> float:
        """From the end of one chunk to the beginning of the next one, or before the first, beside launching."""
        if not side.by_dma:
            return self._parameters.kernel.start_s
        return self._parameters.dma.chunk_wait_s if number else self._parameters.dma.start_s

    def _chunks(self, side: _Side, sides: Sequence[_Side], shape: TransferShape) -> list[Lane]:
        """The chunks of one direction."""
        if not side.by_dma:
            return self._launches(side, shape)
        lanes: list[Lane] = [(self._copy(side, sides, shape),)] * chunks_of(side.plan, shape)
        return self._gathered(lanes, side, shape) if side.plan.backend is Backend.STAGED else lanes

    def _launches(self, side: _Side, shape: TransferShape) -> list[Lane]:
        launches = self._model.launches(side.plan, shape)
        alone_s, paired_s = side.alone.flow_s / launches.count, side.paired.flow_s / launches.count
        load = Load(side.direction, launches.nbytes, alone_s, paired_s)
        room, partition = self._model.room(side.plan), side.plan.sm_partition
        return [(Launch(load, launches.threads, room, partition, launches.in_flight_bytes),)] * launches.count

    def _copy(self, side: _Side, sides: Sequence[_Side], shape: TransferShape) -> Copy:
        """One of the equal chunks of a direction; one thread submits the commands of both directions in turn."""
        shared = len([other for other in sides if other.by_dma]) > 1
        submitting_s = sum(other.paired.submit_s for other in sides if other.by_dma)
        alone, paired, chunks = side.alone, side.paired, chunks_of(side.plan, shape)
        alone_s, paired_s = alone.submit_s + alone.moving_s, submitting_s + paired.moving_s
        working_s = paired.moving_s + paired.commands * self._parameters.serving.engine_command_s
        scale = self._copy_ratio / chunks
        fill = 1.0 if shared else alone.moving_s / alone_s
        load = Load(side.direction, shape.total_bytes / chunks, scale * alone_s, scale * paired_s, fill)
        return Copy(load, ceil(paired.commands / chunks), min(1.0, working_s / paired_s))

    def _gathered(self, lanes: list[Lane], side: _Side, shape: TransferShape) -> list[Lane]:
        """Adds the gathers: of a save before its copies, of a load after each part; all but one are hidden."""
        whole_s, parts = shape.total_bytes / self._parameters.staged.gather_rate, side.paired.parts
        if side.direction is Direction.D2H:
            hidden = (Gather(whole_s - whole_s / parts, aside=True),) if parts > 1 else ()
            return [(Gather(whole_s / parts), *hidden, *lanes[0]), *lanes[1:]]
        ends = {ceil(len(lanes) * (part + 1) / parts) - 1 for part in range(parts)}
        gather = Gather(whole_s / len(ends), aside=True)
        return [(*lane, gather) if number in ends else lane for number, lane in enumerate(lanes)]

    def _fused(self, queues: Sequence[Sequence[Lane]], shape: TransferShape) -> list[Round]:
        """The load's copies, the one kernel of both directions, the save's copies."""
        load, save = ([tuple(s for s in lane if isinstance(s, Copy)) for lane in queue] for queue in queues)
        gather: Lane = (Gather(2 * shape.total_bytes / self._parameters.staged.gather_rate),)
        start_s, wait_s = self._parameters.dma.start_s, self._parameters.dma.chunk_wait_s
        if len(load) == len(save) == 1:
            return [Round((load[0] + gather + save[0],), start_s)]
        return [Round((lane,), wait_s if i else start_s) for i, lane in enumerate([*load, gather, *save])]
