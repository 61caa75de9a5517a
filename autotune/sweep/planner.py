"""From a request and a device's capabilities to the blocks of a sweep: the same ones every time."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from pega_tune.autotune.engine import Candidate, Capabilities, Engine, SamplingLimits, TransferBlock
from pega_tune.autotune.layouts import SHUFFLED, NamedLayout
from pega_tune.autotune.sweep.keys import block_key, block_seed
from pega_tune.autotune.sweep.plans import CEILING, candidates, legs_of
from pega_tune.autotune.sweep.presets import Preset, find_preset
from pega_tune.autotune.sweep.recording import Measured, block_record
from pega_tune.autotune.sweep.request import SweepRequest
from pega_tune.autotune.sweep.serving_tasks import plan_serving
from pega_tune.autotune.sweep.shapes import Memory, Shortage, full_shapes, lattice_shapes, shortage
from pega_tune.kernels.plan import AnyPlan, Backend
from pega_tune.kernels.shape import Direction, TransferShape
from pega_tune.profiles.policy.terms import Colocation
from pega_tune.profiles.store.records import BlockRecord

# Rough costs on a PCIe 5.0 x16 device, for the estimate before anything has run; it is scaled by what blocks take.
DMA_COMMAND_S = 2.5e-6
BATCH_RANGE_S = 1.5e-6
LAUNCH_S = 15e-6
SECONDS_PER_BYTE = 1 / 45e9
VERIFY_S_PER_BYTE = 0.045 / (64 << 20)
SETUP_S = 0.02
VERIFY_S = 0.5e-3


@dataclass(frozen=True, slots=True)
class PlannedBlock:
    """A block without decode, the wall time it should take, in seconds, and in which process (see `Task`)."""

    block: TransferBlock
    estimate_s: float
    process: int = 0

    @property
    def key(self) -> str:
        """Names it within its sweep."""
        return self.block.key

    def measure(self, engine: Engine, _stored: Mapping[str, BlockRecord]) -> BlockRecord:
        """Runs it.

        Raises:
            DeviceError: as `Engine.transfer`.
        """
        measurements = tuple(engine.transfer(self.block))
        measured = Measured(self.block, measurements, engine.conditions())
        return block_record(measured, engine.facts.identity.max_link)


class Task(Protocol):
    """A block of a sweep, to be measured when those before it are."""

    @property
    def key(self) -> str:
        """Names it within its sweep."""

    @property
    def estimate_s(self) -> float:
        """Wall time that it should take, in seconds."""

    @property
    def process(self) -> int:
        """Number of the fresh process that it wants; 0 takes the one there is."""

    def measure(self, engine: Engine, stored: Mapping[str, BlockRecord], /) -> BlockRecord:
        """Measures it.

        Args:
            engine: what measures.
            stored: blocks of the sweep so far, by key.

        Returns:
            What is stored of it, without the wall time, which the caller knows.

        Raises:
            DeviceError: it cannot be measured.
        """


@dataclass(frozen=True, slots=True)
class SweepPlan:
    """The blocks of a sweep, most important first.

    Attributes:
        blocks: in the order of measuring.
        budget_s: wall time after which no block is started, in seconds.
        shortage: what memory leaves out of the preset; None if all of it fits.
    """

    blocks: tuple[Task, ...]
    budget_s: float
    shortage: Shortage | None = None

    def without(self, finished: Iterable[str]) -> "SweepPlan":
        """What is left when the blocks of these keys are stored already."""
        done = frozenset(finished)
        return replace(self, blocks=tuple(b for b in self.blocks if b.key not in done))

    @property
    def estimate_s(self) -> float:
        """Wall time that all blocks should take, in seconds."""
        return sum(planned.estimate_s for planned in self.blocks)


def plan_sweep(request: SweepRequest, capabilities: Capabilities) -> SweepPlan:
    """Plans the blocks: the user's shapes, the canonical ones with every axis, the lattice, and those beside decode.

    Keys, seeds and order depend on the request and the capabilities alone.

    Raises:
        DeviceError: there is too little memory for a shape of the user's, or for anything worth measuring.
    """
    preset = find_preset(request.preset)
    capped = request.capped(capabilities.device_bytes, capabilities.host_bytes)
    memory = Memory(capped.max_device_bytes or 0, capped.max_host_bytes or 0)
    for shape in request.shapes:
        memory.require(shape)
    full = full_shapes(preset, memory)
    shapes = dict.fromkeys((*request.shapes, *full, *lattice_shapes(preset, memory)))
    planner = _Planner(request, preset, capabilities)
    blocks: list[Task] = [planner.alone(shape, shape in full) for shape in shapes]
    both = next((shape for shape in full if shape.direction is Direction.BOTH), None)
    if both is not None:
        blocks += planner.beside_decode(both)
    return SweepPlan(tuple(blocks), request.budget_s or preset.budget_s, shortage(preset, memory))


@dataclass(frozen=True, slots=True)
class _Planner:
    request: SweepRequest
    preset: Preset
    capabilities: Capabilities

    def alone(self, shape: TransferShape, full: bool) -> PlannedBlock:
        """A block without decode, of ranges that lie anywhere."""
        preset = self.preset
        dense = preset.dense if full else preset.wide
        return self._alone(shape, SHUFFLED, candidates(shape, self.capabilities, full=full, dense=dense, hints=dense))

    def beside_decode(self, shape: TransferShape) -> Iterator[Task]:
        """The canonical shape in layouts that the lattice does not have, then all of them beside decode."""
        decode = self.request.decode_spec
        if decode is None:
            return
        layouts = self.preset.serving.layouts
        yield from (self._laid_out(shape, layout) for layout in layouts if layout != SHUFFLED)
        sources = {layout: (block_key(shape, Colocation.IDLE, layout), shape) for layout in layouts}
        colocations = [colocation for colocation in self.request.colocations if colocation is not Colocation.IDLE]
        yield from plan_serving(sources, colocations, decode, self.preset.serving, self.request.seed)

    def _laid_out(self, shape: TransferShape, layout: NamedLayout) -> PlannedBlock:
        """Likewise, of ranges that lie in a special way: what the grids of kernels do is known from the others."""
        described, hints = layout.described(shape), self.preset.dense
        chosen = candidates(described, self.capabilities, full=True, dense=False, hints=hints)
        return self._alone(shape, layout, chosen)

    def _alone(self, shape: TransferShape, layout: NamedLayout, chosen: tuple[Candidate, ...]) -> PlannedBlock:
        key = block_key(shape, Colocation.IDLE, layout)
        seed = block_seed(self.request.seed, key)
        block = TransferBlock(key, shape, chosen, self.preset.limits, seed, layout=layout)
        return PlannedBlock(block, _estimate_s(block))


def _estimate_s(block: TransferBlock) -> float:
    costs = [_transfer_s(c.plan, block.shape, c.name == CEILING) for c in block.candidates]
    verify = len(costs) * (VERIFY_S + VERIFY_S_PER_BYTE * block.shape.moved_bytes)
    return SETUP_S + verify + sum(costs) + _timed_s(costs, block.limits)


def _timed_s(costs: list[float], limits: SamplingLimits) -> float:
    """Time of the rounds, hopeless candidates leaving after the first few."""
    fast = sum(c for c in costs if c <= limits.drop_ratio * min(costs))
    slow = sum(costs) - fast
    rounds = fast * limits.max_rounds
    return limits.drop_after * slow + min(max(limits.budget_s, fast * limits.min_rounds), rounds)


def _transfer_s(plan: AnyPlan, shape: TransferShape, contiguous: bool) -> float:
    legs = legs_of(plan)
    ranges = 1 if contiguous else shape.merged_ranges
    range_s = {Backend.DIRECT: DMA_COMMAND_S, Backend.BATCH: BATCH_RANGE_S}
    commands_s = sum(ranges * range_s.get(leg.backend, 0.0) for leg in legs)
    return LAUNCH_S + commands_s + len(legs) * shape.total_bytes * SECONDS_PER_BYTE
