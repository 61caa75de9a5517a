"""Canaries on a device whose processes differ as those of a recorded one do, without the device.

Sweeps of the same device class are recordings of different processes: where two of them have measured a shape, the
logarithm of the change between them is a draw of what two processes differ by, be it of the contiguous copy or of a
kind of plan over it. A *process* is such a pair of recordings: each shape gets the changes of a block of the pair that
is of its size, over the square root of 2, for there are two processes in them. What the plans of a block, or the blocks
of a pair, have in common stays so. The sweeps ran on different boards, with versions that differ, and their samples are
in their medians: it is more than what processes of one device differ by.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import combinations
from math import exp, log, sqrt
from pathlib import Path
from random import Random
from statistics import median

from pega_tune.autotune.engine import Capabilities, Conditions, Measurement, Phase, TransferBlock
from pega_tune.autotune.replay.capabilities import capabilities
from pega_tune.autotune.replay.recording import Recording
from pega_tune.autotune.serving import Segment, ServingBlock
from pega_tune.autotune.sweep.choices import cell_of, is_mixed, kind_of, worth_measuring
from pega_tune.autotune.sweep.gate import Verdict
from pega_tune.autotune.sweep.keys import is_idle
from pega_tune.autotune.sweep.learning import Learner
from pega_tune.autotune.sweep.observations import transfer_samples, usable
from pega_tune.autotune.sweep.recording import profile_record
from pega_tune.autotune.sweep.run import METHOD_VERSION
from pega_tune.autotune.verify.canary import Subject, Terms, verify
from pega_tune.autotune.verify.changes import ratios
from pega_tune.autotune.verify.comparison import ABSOLUTE_BYTES, Comparison
from pega_tune.autotune.verify.probes import Probe, ceiling_of, choose_shapes, probes_of
from pega_tune.autotune.verify.verification import Verification
from pega_tune.kernels.facts import DeviceFacts
from pega_tune.kernels.shape import TransferShape
from pega_tune.profiles.policy.terms import ProfileState
from pega_tune.profiles.store.records import BlockRecord, CellRecord, Metric
from tests.helpers.recordings import DATA, STANDARD, load
from tests.helpers.sweeps import ManualClock

LEAST_SAMPLES = 6
COPY = "contiguous copy"

# Named one by one: what was learnt from them is in docs/measuring.md.
SWEEPS = (
    DATA / "h200" / "abf6711" / "standard-mps.jsonl.gz",
    DATA / "h200" / "before-2741639" / "exhaustive.jsonl.gz",
    STANDARD,
)


@dataclass(frozen=True, slots=True)
class Deviation:
    """One shape in two recordings: logarithms of the changes between them.

    Attributes:
        shape: what was moved.
        changes: of the contiguous copy (`COPY`), and of each kind of plan over it, its fastest plan.
    """

    shape: TransferShape
    changes: Mapping[str, float]

    @property
    def is_large(self) -> bool:
        """Whether a contiguous copy of it is bound by the link."""
        return self.shape.total_bytes >= ABSOLUTE_BYTES


Pair = tuple[Deviation, ...]


@cache
def pairs(paths: Sequence[Path] = SWEEPS) -> tuple[Pair, ...]:
    """What each two recordings differ by, at the shapes that a canary may measure."""
    idle = [{block.key: block for block in load(path).blocks if is_idle(block.key)} for path in paths]
    return tuple(tuple(_deviations(first, second)) for first, second in combinations(idle, 2))


def _deviations(first: Mapping[str, BlockRecord], second: Mapping[str, BlockRecord]) -> Iterator[Deviation]:
    for key in sorted(first.keys() & second.keys()):
        a, b = first[key], second[key]
        if tuple(worth_measuring([a.shape])) and (changes := dict(_changes(a, b))):
            yield Deviation(a.shape, changes)


def _changes(a: BlockRecord, b: BlockRecord) -> Iterator[tuple[str, float]]:
    copies = [transfer_samples(cell) if (cell := ceiling_of(block)) else () for block in (a, b)]
    if min(map(len, copies)) < LEAST_SAMPLES:
        return
    yield COPY, _change(*copies)
    fastest = sorted((cell for cell in a.cells if usable(cell)), key=lambda cell: median(transfer_samples(cell)))
    seen = set()
    for cell in fastest:
        kind, other = kind_of(cell.plan), cell_of(b, cell.plan)
        if kind in seen or is_mixed(cell.plan) or other is None:
            continue
        series = [ratios(transfer_samples(c), copy) for c, copy in zip((cell, other), copies, strict=True)]
        if min(map(len, series)) >= LEAST_SAMPLES:
            seen.add(kind)
            yield kind, _change(*series)


def _change(then: Sequence[float], now: Sequence[float]) -> float:
    return log(median(now) / median(then))


class Process:
    """What one process differs by from the mean of all."""

    def __init__(self, random: Random, spare: float = 0.0) -> None:
        """Draws one.

        Args:
            random: where from.
            spare: standard deviation of what a kind of plan has in common besides, as a logarithm.
        """
        self._random = random
        self._spare = spare
        self._pair = random.choice([pair for pair in pairs() if pair])
        self._sign = random.choice((-1, 1))
        self._drawn: dict[TransferShape, Mapping[str, float]] = {}
        self._extra: dict[str, float] = {}

    def factor(self, shape: TransferShape, what: str) -> float:
        """Of the time of the contiguous copy at a shape, or of the ratio of a kind of plan to it."""
        if shape not in self._drawn:
            large = shape.total_bytes >= ABSOLUTE_BYTES
            self._drawn[shape] = self._random.choice([d.changes for d in self._pair if d.is_large == large])
        changes = self._drawn[shape]
        kinds = [change for name, change in changes.items() if name != COPY]
        change = changes[what] if what in changes else self._random.choice(kinds)
        if what != COPY and what not in self._extra:
            self._extra[what] = self._random.gauss(0, self._spare)
        return exp(self._sign * change / sqrt(2) + self._extra.get(what, 0.0))


@dataclass(frozen=True, slots=True)
class Case:
    """A canary to simulate.

    Attributes:
        spare: as for `Process`.
        scaled: a kind of plan whose stored times are longer, or empty.
        factor: by what.
        budget_s, start_s, block_s: of the canary; what an engine's start and a block take.
        stored: in how many processes each shape was measured for the profile.
    """

    spare: float = 0.0
    scaled: str = ""
    factor: float = 1.15
    budget_s: float = 8.0
    start_s: float = 3.5
    block_s: float = 0.22
    stored: int = 2


class RecordedDevice:
    """An engine that gives the samples of a recording, as the process that it is in would have measured them."""

    def __init__(self, recording: Recording, random: Random, case: Case, clock: ManualClock) -> None:
        self._recording = recording
        self._blocks = {block.key: block for block in recording.blocks}
        self._random, self._case, self._clock = random, case, clock
        self.processes = 0
        self.renew()

    @property
    def facts(self) -> DeviceFacts:
        return self._recording.sweep.device

    def capabilities(self) -> Capabilities:
        return capabilities(self._recording)

    def conditions(self) -> Conditions:
        return Conditions()

    def beside_decode(self, block: ServingBlock) -> Iterator[Segment]:
        raise NotImplementedError

    def renew(self) -> None:
        self._process = Process(self._random, self._case.spare)
        self._clock.elapsed_s += self._case.start_s
        self.processes += 1

    def close(self) -> None:
        pass

    def transfer(self, block: TransferBlock) -> Iterator[Measurement]:
        self._clock.elapsed_s += self._case.block_s
        key = block.key.removeprefix("canary/").rpartition("/")[0]
        record = moved(self._blocks[key], self._process)
        for index, candidate in enumerate(block.candidates):
            cell = cell_of(record, candidate.plan) if index else ceiling_of(record)
            assert cell is not None
            yield Measurement(index, Phase.VERIFY)
            for time_s in transfer_samples(cell):
                yield Measurement(index, Phase.TIMED, transfer_s=time_s)


def moved(block: BlockRecord, process: Process, kind: str = "", factor: float = 1.0) -> BlockRecord:
    """A block as a process would have measured it, and one kind of plan a factor slower besides."""
    ceiling = ceiling_of(block)

    def by(cell: CellRecord) -> float:
        copy = process.factor(block.shape, COPY)
        if cell is ceiling:
            return copy
        of = kind_of(cell.plan)
        return copy * process.factor(block.shape, of) * (factor if of == kind else 1.0)

    return replace(block, cells=tuple(_scaled(cell, by(cell)) for cell in block.cells))


def _scaled(cell: CellRecord, factor: float) -> CellRecord:
    scaled = tuple(
        replace(series, samples=tuple(factor * sample for sample in series.samples))
        if series.metric is Metric.TRANSFER
        else series
        for series in cell.measurements
    )
    return replace(cell, measurements=scaled)


@cache
def known(path: Path = STANDARD) -> Subject:
    """What the sweep of a recording would be verified by, had the method not changed since."""
    recording = load(path)
    learnt = Learner().learn(recording.blocks)
    sweep = replace(recording.sweep, method_version=METHOD_VERSION)
    profile = profile_record(sweep, learnt, Verdict(ProfileState.PUBLISHED, ()), (), sweep.started_at)
    keys = {block.key: block for block in recording.blocks}
    return Subject(profile, probes_of(choose_shapes(learnt.policy, sorted(keys)), keys))


def canary(random: Random, case: Case, path: Path = STANDARD) -> Verification:
    """Verifies the profile of a recording, each side in processes of their own."""
    subject = known(path)
    before = [Process(random, case.spare) for _ in range(case.stored)]
    stored = tuple(_measured(probe, before, case) for probe in subject.probes)
    clock = ManualClock()
    device = RecordedDevice(load(path), random, case, clock)
    return verify(replace(subject, probes=stored), device, Terms(case.budget_s, 0.0, clock=clock))


def replayed(stored: Path, now: Path) -> Comparison:
    """One recorded sweep as the canary of another one, of a board of the same class."""
    blocks = {block.key: block for block in load(now).blocks}
    probes = [probe for probe in known(stored).probes if probe.chosen.key in blocks]
    comparison = Comparison(probes)
    for probe in probes:
        comparison.add(probe, 1, blocks[probe.chosen.key])
    return comparison


def _measured(probe: Probe, processes: Sequence[Process], case: Case) -> Probe:
    blocks = (moved(probe.stored[0], process, case.scaled, case.factor) for process in processes)
    return replace(probe, stored=tuple(blocks))


def chosen_kinds(path: Path = STANDARD) -> tuple[str, ...]:
    """Kinds of plans that the canary of a recording measures at two shapes or more, the commonest first."""
    counted = Counter(kind_of(plan) for probe in known(path).probes for plan in probe.plans)
    return tuple(kind for kind, count in counted.most_common() if count > 1)
