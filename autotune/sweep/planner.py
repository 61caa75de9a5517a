"""From a request and a device's capabilities to the blocks of a sweep: the same ones every time."""

from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Self

from pega_tune.autotune.engine import Candidate, Capabilities, Engine, SamplingLimits, TransferBlock
from pega_tune.autotune.layouts import HOST_ORDERED, SHUFFLED, STRIDED, LayoutKind, NamedLayout
from pega_tune.autotune.search.sites import Site
from pega_tune.autotune.sweep.confirm_tasks import plan_confirmation
from pega_tune.autotune.sweep.events import ROOM
from pega_tune.autotune.sweep.exhaustive import CAVEAT, exhaustive_blocks
from pega_tune.autotune.sweep.keys import block_seed, is_idle, shape_of
from pega_tune.autotune.sweep.learning import Learner
from pega_tune.autotune.sweep.observations import RANGES_PER_RUN
from pega_tune.autotune.sweep.plans import CEILING, candidates, hinted_candidates, legs_of
from pega_tune.autotune.sweep.presets import Preset, find_preset
from pega_tune.autotune.sweep.recording import Measured, block_record
from pega_tune.autotune.sweep.request import SweepRequest
from pega_tune.autotune.sweep.searched import SearchedBlock
from pega_tune.autotune.sweep.serving_tasks import Source, plan_serving
from pega_tune.autotune.sweep.shapes import (
    Memory,
    Shortage,
    full_shapes,
    hinted_shapes,
    lattice_shapes,
    shortage,
    small_shapes,
)
from pega_tune.autotune.sweep.tasks import Task, one_after_another
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

# Above it a host run is as good as one contiguous copy, and costs as much time to measure.
MOST_RUN_RANGE_BYTES = 16_384


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

    def after(self, _before: Task | None, /) -> Self:
        """It starts nothing."""
        return self

    def measure(self, engine: Engine, _stored: Mapping[str, BlockRecord]) -> BlockRecord:
        """Runs it.

        Raises:
            DeviceError: as `Engine.transfer`.
        """
        measurements = tuple(engine.transfer(self.block))
        measured = Measured(self.block, measurements, engine.conditions())
        return block_record(measured, engine.facts.identity.max_link)


@dataclass(frozen=True, slots=True)
class SweepPlan:
    """The blocks of a sweep, most important first.

    Attributes:
        blocks: in the order of measuring.
        budget_s: wall time after which no block is started, in seconds.
        shortage: what memory leaves out of the preset; None if all of it fits.
        learner: compiles what the blocks teach.
        caveat: why its profile is no more than a draft even if nothing is wrong with it; empty if it may be published.
    """

    blocks: tuple[Task, ...]
    budget_s: float
    shortage: Shortage | None = None
    learner: Learner = field(default_factory=Learner, compare=False, repr=False)
    caveat: str = ""

    def without(self, finished: Iterable[str]) -> "SweepPlan":
        """What is left when the blocks of these keys are stored already; what those started is to be started anew."""
        done = frozenset(finished)
        left = (block for block in self.blocks if block.key not in done)
        return replace(self, blocks=tuple(one_after_another(left)))

    @property
    def estimate_s(self) -> float:
        """Wall time that all blocks should take, in seconds."""
        return sum(planned.estimate_s for planned in self.blocks)


def plan_sweep(request: SweepRequest, capabilities: Capabilities) -> SweepPlan:
    """Plans the blocks: the user's shapes, canonical ones with every axis, lattices, beside decode, and a second pass.

    Keys, seeds and order depend on the request and the capabilities alone.

    Raises:
        DeviceError: there is too little memory for a shape of the user's, or for anything worth measuring.
    """
    preset = find_preset(request.preset)
    capped = request.capped(capabilities.device_bytes, capabilities.host_bytes)
    memory = Memory(capped.max_device_bytes or 0, capped.max_host_bytes or 0)
    for shape in request.shapes:
        memory.require(shape)
    if request.exhaustive:
        return _plan_exhaustive(request, capabilities, memory)
    full = full_shapes(preset, memory)
    small = small_shapes(preset, memory) if request.decode_spec else ()
    own = (Site(shape) for shape in (*full, *lattice_shapes(preset, memory), *small))
    planner = _Planner(request, preset, capabilities)
    blocks: list[Task] = [planner.at(site, site.shape in full) for site in dict.fromkeys((*request.sites, *own))]
    both = next((shape for shape in full if shape.direction is Direction.BOTH), None)
    beside = tuple(planner.beside_decode(both, small)) if both is not None else ()
    hinted = [*planner.hinted(hinted_shapes(preset, memory))]
    blocks += _others(hinted, but={task.key for task in (*blocks, *beside)})
    blocks += _others(beside, but={task.key for task in blocks})
    learner = Learner()
    measured = [shape_of(block.key) for block in blocks if is_idle(block.key)]
    blocks += plan_confirmation(measured, preset.confirm, request.seed, learner)
    return SweepPlan(tuple(blocks), _budget_s(request, preset, blocks), shortage(preset, memory), learner)


def _budget_s(request: SweepRequest, preset: Preset, blocks: Iterable[Task]) -> float:
    """What the user says; else the preset's, or what all that was asked for beyond the preset takes."""
    estimate_s = sum(block.estimate_s for block in blocks)
    return request.budget_s or (preset.budget_s if estimate_s <= preset.budget_s else ROOM * estimate_s)


def _others(tasks: Iterable[Task], but: Container[str]) -> Iterator[Task]:
    return (task for task in tasks if task.key not in but)


def _plan_exhaustive(request: SweepRequest, capabilities: Capabilities, memory: Memory) -> SweepPlan:
    """Every plan at the shapes of the user, or at as many others as should fit into the preset's time."""
    preset = find_preset(request.preset)
    blocks = [PlannedBlock(block, _estimate_s(block)) for block in exhaustive_blocks(request, capabilities, memory)]
    if not request.shapes:
        # By the preset's time, not the budget, which may be another one when the sweep is resumed.
        ends_s = accumulate(block.estimate_s for block in blocks)
        blocks = [block for block, end_s in zip(blocks, ends_s, strict=True) if end_s <= preset.budget_s]
    return SweepPlan(tuple(blocks), _budget_s(request, preset, blocks), caveat=CAVEAT)


@dataclass(frozen=True, slots=True)
class _Planner:
    request: SweepRequest
    preset: Preset
    capabilities: Capabilities

    def at(self, site: Site, full: bool) -> Task:
        """A block without decode; `full` looks at every axis, if the ranges lie anywhere."""
        preset = self.preset
        if site.layout != SHUFFLED:
            return self._laid_out(site)
        if self.request.adaptive and (full or site in self.request.sites):
            return self._searched(site)
        dense = preset.dense if full else preset.wide
        chosen = candidates(site.shape, self.capabilities, full=full, dense=dense, hints=full and dense)
        return self._alone(site, chosen)

    def hinted(self, shapes: Iterable[TransferShape]) -> Iterator[PlannedBlock]:
        """Blocks of ranges that lie in ways that some plans live on."""
        for shape in shapes:
            layouts = [HOST_ORDERED, STRIDED]
            if shape.average_range_bytes <= MOST_RUN_RANGE_BYTES:
                layouts.append(NamedLayout(LayoutKind.HOST_RUNS, shape.merged_ranges // RANGES_PER_RUN))
            for layout in layouts:
                chosen = hinted_candidates(layout.described(shape), self.capabilities)
                if chosen:
                    yield self._alone(Site(shape, layout), chosen)

    def beside_decode(self, shape: TransferShape, small: Iterable[TransferShape]) -> Iterator[Task]:
        """The canonical shape in layouts that the lattice does not have, then all of them beside decode.

        Args:
            shape: the canonical one.
            small: shapes of the lattice that are measured beside decode, too.
        """
        decode = self.request.decode_spec
        if decode is None:
            return
        preset = self.preset.serving
        yield from (self._laid_out(Site(shape, layout)) for layout in preset.layouts if layout != SHUFFLED)
        sources = [Source(shape, layout, preset) for layout in preset.layouts]
        sources += [Source(each, SHUFFLED, preset.of_small) for each in small]
        colocations = [colocation for colocation in self.request.colocations if colocation is not Colocation.IDLE]
        yield from plan_serving(sources, colocations, decode, self.request.seed)

    def _laid_out(self, site: Site) -> Task:
        """Of ranges that lie in a special way: what the grids of kernels do is known from the others."""
        if self.request.adaptive:
            return self._searched(site)
        hints = self.preset.dense
        chosen = candidates(site.described, self.capabilities, full=False, dense=False, hints=hints)
        return self._alone(site, chosen)

    def _alone(self, site: Site, chosen: tuple[Candidate, ...]) -> PlannedBlock:
        seed = block_seed(self.request.seed, site.key)
        block = TransferBlock(site.key, site.shape, chosen, self.preset.limits, seed, layout=site.layout)
        return PlannedBlock(block, _estimate_s(block))

    def _searched(self, site: Site) -> SearchedBlock:
        """A block without decode whose candidates are searched for."""
        block = SearchedBlock(site, self.capabilities, self.preset.limits, self.request.seed)
        return replace(block, estimate_s=sum(map(_estimate_s, block.estimated)))


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
