"""The blocks of a benchmark beside decode: which settings share one, and with it a baseline."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from pega_tune.autotune.bench.batch import Entry
from pega_tune.autotune.bench.serving_groups import MPS_SHARES, SLEEPS_S, Group, Setting, settings
from pega_tune.autotune.bench.serving_request import ServingBenchRequest
from pega_tune.autotune.engine import Candidate, CandidateKind, Capabilities, Engine, SamplingLimits, TransferBlock
from pega_tune.autotune.measuring.cells import collect
from pega_tune.autotune.measuring.serving.schedule import rounds_for_tails
from pega_tune.autotune.serving import ServingBlock, ServingLimits
from pega_tune.autotune.sweep.plans import CEILING, candidates, launched
from pega_tune.autotune.sweep.representatives import representatives
from pega_tune.autotune.sweep.survivors import MeasuredPlan, prune
from pega_tune.errors import UsageError
from pega_tune.kernels.plan import AnyPlan
from pega_tune.kernels.shape import Direction, TransferShape
from pega_tune.profiles.policy.terms import Colocation

MAX_BEST: Final = 12
"""Plans that are taken from the transfer-only phase into the run beside decode."""

_UNLIMITED_S: Final = 3600.0
_IDLE_LIMITS: Final = SamplingLimits(budget_s=2.0)


@dataclass(frozen=True, slots=True)
class BenchBlock:
    """Settings beside one baseline.

    Attributes:
        block: what is measured.
        entries: the lines that come of it.
        label: how it differs from the main block, such as `sleep 25 us`; empty for that.
    """

    block: ServingBlock
    entries: tuple[Entry, ...]
    label: str = ""

    @property
    def steps(self) -> int:
        """Segments that it has if nothing fails and no round is needed beyond the first ones."""
        return (1 + len(self.block.candidates)) * self.block.limits.min_rounds


def survivors(request: ServingBenchRequest, engine: Engine) -> tuple[AnyPlan, ...]:
    """The plans that nothing dominates when transfers are alone on the device, as different as can be."""
    shape = request.shape(Direction.BOTH)
    chosen = candidates(shape, engine.capabilities(), full=True, dense=False, hints=True)
    block = TransferBlock(f"idle/{shape.direction}", shape, chosen, _IDLE_LIMITS, request.seed, layout=request.layout)
    cells = collect(block, tuple(engine.transfer(block)))
    measured = (MeasuredPlan.of(cell, shape) for cell in cells if cell.status == "ok" and cell.name != CEILING)
    kept = prune([plan for plan in measured if plan is not None])
    return tuple(plan.plan for plan in representatives(kept, MAX_BEST))


def plan_serving_bench(
    request: ServingBenchRequest, capabilities: Capabilities, best: Sequence[AnyPlan] = ()
) -> tuple[BenchBlock, ...]:
    """The blocks of a benchmark, colocation after colocation.

    Args:
        request: what is asked for.
        capabilities: of the device.
        best: the `survivors`, for `Group.BEST`.

    Raises:
        UsageError: nothing of what is to be compared fits the shape and the device.
    """
    both = request.shape(Direction.BOTH)
    found = []
    for colocation in request.colocations:
        groups = _fitting(request.groups, colocation, capabilities)
        if not groups:
            continue
        asked = replace(request, groups=groups)
        main = [setting for group in asked.groups for setting in settings(group, both, capabilities)]
        if Group.BEST in asked.groups:
            main += [Setting(plan.key, plan) for plan in best]
        if main:
            found.append(_bench_block(asked, colocation, both, main))
        found += _apart(asked, colocation, capabilities)
    if not found:
        words = ", ".join(request.groups)
        raise UsageError(
            f"nothing of {words} fits this device and ranges that are {request.layout}",
            "compare something else, or all",
        )
    return tuple(found)


def _fitting(groups: Sequence[Group], colocation: Colocation, capabilities: Capabilities) -> tuple[Group, ...]:
    """The groups whose question makes sense there."""
    odd = set[Group]()
    if colocation is not Colocation.MPS:
        odd.add(Group.MPS_SHARES)
    if not capabilities.priorities:
        odd.add(Group.DECODE_PRIORITY)
    return tuple(group for group in groups if group not in odd)


def _apart(request: ServingBenchRequest, colocation: Colocation, capabilities: Capabilities) -> Iterator[BenchBlock]:
    """Blocks that differ from the main one in more than the plans; that has the same plans without the difference."""
    both = request.shape(Direction.BOTH)
    if Group.SLEEP in request.groups:
        for sleep_s in SLEEPS_S:
            paced = replace(request, pacing=replace(request.pacing, sleep_s=sleep_s))
            chosen = settings(Group.SLEEP, both, capabilities)
            yield _bench_block(paced, colocation, both, chosen, f"sleep {sleep_s * 1e6:g} us")
    if Group.DIRECTIONS in request.groups:
        for direction in Direction.BOTH.legs:
            shape = request.shape(direction)
            chosen = settings(Group.DIRECTIONS, shape, capabilities)
            yield _bench_block(request, colocation, shape, chosen, f"{direction} alone")
    if Group.DECODE_PRIORITY in request.groups:
        strongest = capabilities.priorities[-1]
        raised = replace(request, decode=replace(request.decode, stream_priority=strongest))
        chosen = settings(Group.DECODE_PRIORITY, both, capabilities)
        yield _bench_block(raised, colocation, both, chosen, f"decode priority {strongest}")
    if Group.MPS_SHARES in request.groups:
        chosen = settings(Group.MPS_SHARES, both, capabilities)
        for share in MPS_SHARES:
            yield _bench_block(replace(request, mps=share), colocation, both, chosen, str(share))


def _bench_block(
    request: ServingBenchRequest,
    colocation: Colocation,
    shape: TransferShape,
    chosen: Sequence[Setting],
    label: str = "",
) -> BenchBlock:
    by_launch: dict[AnyPlan, Candidate] = {}
    entries: dict[str, Entry] = {}
    for setting in chosen:
        kind = CandidateKind.STATIC if setting.static else CandidateKind.PLAN
        candidate = by_launch.setdefault(launched(setting.plan, shape), Candidate(setting.name, kind, setting.plan))
        entries.setdefault(setting.name, Entry(setting.name, kind, setting.plan, candidate.name))
    rounds = request.rounds or rounds_for_tails(request.pacing.bursts)
    limits = ServingLimits(_UNLIMITED_S, rounds, rounds if request.rounds else 2 * rounds)
    key = f"{colocation}/{shape.direction}/{label or 'main'}"
    block = ServingBlock(
        key,
        shape,
        tuple(by_launch.values()),
        colocation,
        limits,
        request.seed,
        request.decode,
        request.pacing,
        request.mps,
        layout=request.layout,
    )
    return BenchBlock(block, tuple(entries.values()), label)
