"""From a request and a device's capabilities to the blocks of a sweep: the same ones every time."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, replace

from pega_tune.autotune.engine import Capabilities, SamplingLimits, TransferBlock
from pega_tune.autotune.layouts import SHUFFLED
from pega_tune.autotune.sweep.plans import CEILING, candidates, legs_of
from pega_tune.autotune.sweep.presets import find_preset
from pega_tune.autotune.sweep.request import SweepRequest
from pega_tune.autotune.sweep.shapes import Memory, Shortage, full_shapes, lattice_shapes, shortage
from pega_tune.kernels.plan import AnyPlan, Backend
from pega_tune.kernels.shape import TransferShape
from pega_tune.profiles.policy.terms import Colocation

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
    """A block and the wall time it should take, in seconds."""

    block: TransferBlock
    estimate_s: float


@dataclass(frozen=True, slots=True)
class SweepPlan:
    """The blocks of a sweep, most important first.

    Attributes:
        blocks: in the order of measuring.
        budget_s: wall time after which no block is started, in seconds.
        shortage: what memory leaves out of the preset; None if all of it fits.
    """

    blocks: tuple[PlannedBlock, ...]
    budget_s: float
    shortage: Shortage | None = None

    def without(self, finished: Iterable[str]) -> "SweepPlan":
        """What is left when the blocks of these keys are stored already."""
        done = frozenset(finished)
        return replace(self, blocks=tuple(b for b in self.blocks if b.block.key not in done))

    @property
    def estimate_s(self) -> float:
        """Wall time that all blocks should take, in seconds."""
        return sum(planned.estimate_s for planned in self.blocks)


def plan_sweep(request: SweepRequest, capabilities: Capabilities) -> SweepPlan:
    """Plans the blocks: the user's shapes, the canonical shapes with every axis, then the lattice, coarse first.

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
    blocks = []
    for shape in shapes:
        chosen = candidates(SHUFFLED.described(shape), capabilities, full=shape in full, dense=preset.dense)
        key = block_key(shape, Colocation.IDLE)
        block = TransferBlock(key, shape, chosen, preset.limits, block_seed(request.seed, key))
        blocks.append(PlannedBlock(block, _estimate_s(block)))
    return SweepPlan(tuple(blocks), request.budget_s or preset.budget_s, shortage(preset, memory))


def block_key(shape: TransferShape, colocation: Colocation) -> str:
    """Names a block within its sweep: `idle/h2d/16384x67108864` (merged ranges x bytes per direction)."""
    return f"{colocation}/{shape.direction}/{shape.merged_ranges}x{shape.total_bytes}"


def block_seed(seed: int, key: str) -> int:
    """Seed of a block, 0 to 2^31 - 1, from the seed of the sweep."""
    digest = hashlib.sha256(f"{seed}/{key}".encode()).digest()
    return int.from_bytes(digest[:4], "big") >> 1


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
