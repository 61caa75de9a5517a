"""Serving blocks: paced bursts of transfers beside a decode workload, and what is seen of both."""

from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from pega_tune.autotune.engine import Candidate, Status
from pega_tune.autotune.layouts import SHUFFLED, NamedLayout
from pega_tune.errors import UsageError
from pega_tune.kernels.decode.models import DecodeModel
from pega_tune.kernels.shape import TransferShape
from pega_tune.profiles.policy.terms import Colocation

BASELINE: Final = -1
"""Index, in place of a candidate's, of the segments in which nothing is transferred."""

LATENESS: Final = 0.01
"""How late a burst may be submitted, as a fraction of the period, without having missed its deadline."""

DEFAULT_MODEL: Final = "qwen3-4b"
"""That of the report which this project answers."""

BUILTIN: Final = "builtin"
SOURCES: Final = (BUILTIN, "torch")
"""Decode that we bring along."""

EXTERNAL: Final = "external:"
"""Prefix of a decode source that is a program."""

Seconds = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class DecodeSpec:
    """The decode workload of a block.

    Attributes:
        source: `builtin`, `torch`, or `external:CMD`.
        model: name of a preset of `kernels.decode.models`, or its free parameters as `DecodeModel.key` writes them.
        stream_priority: of the decode stream, as in `cuStreamCreateWithPriority`.
    """

    source: str = BUILTIN
    model: str = DEFAULT_MODEL
    stream_priority: int = 0

    def require_known(self) -> None:
        """Refuses what nobody could run.

        Raises:
            UsageError: there is no such source or model.
        """
        known = self.source in SOURCES
        if not known and not self.source.removeprefix(EXTERNAL).strip():
            raise UsageError("external: needs a program behind it", "write it like external:'python steps.py'")
        if not known and not self.source.startswith(EXTERNAL):
            hint = f"choose one of: {', '.join(SOURCES)}, {EXTERNAL}CMD"
            raise UsageError(f"there is no decode workload {self.source!r}", hint)
        if known:
            DecodeModel.parse(self.model)

    def require_simulable(self) -> None:
        """Refuses what a simulated device has no model of.

        Raises:
            UsageError: it is not the built-in decode.
        """
        if self.source != BUILTIN:
            raise UsageError(f"on a simulated device only {BUILTIN} decodes, not {self.source!r}", "leave --decode out")

    @property
    def key(self) -> str:
        """Canonical one-line name: `builtin qwen3-4b`, `builtin qwen3-4b prio=-5`, `external:CMD`."""
        words = [self.source] if self.source.startswith(EXTERNAL) else [self.source, self.model]
        return " ".join([*words, f"prio={self.stream_priority}"] if self.stream_priority else words)


@dataclass(frozen=True, slots=True)
class Pacing:
    """When bursts are due: every `period_s`, the first one a period after a segment has begun.

    Each is due up to one decode step later, so that bursts come at all phases of a step: see `pacing.Jitter`.

    A burst whose predecessor has not completed when it is due is submitted as soon as that has, and counts as missed.
    If several became due meanwhile, one is submitted, as the latest of them, and the others count as missed, too: see
    `PacedClock`.

    Attributes:
        period_s: seconds between two bursts, on average; None takes the shortest that leaves three undisturbed steps.
        bursts: in each segment.
        sleep_s: seconds between a chunk's completion and the next chunk, to show that it does not help.
    """

    period_s: float | None = 0.05
    bursts: int = 10
    sleep_s: float = 0.0

    def __post_init__(self) -> None:
        if self.period_s is not None and not 0 < self.period_s < 3600:
            raise UsageError(f"a burst period is more than 0 s and less than an hour, not {self.period_s:g} s")
        if self.bursts < 1:
            raise UsageError(f"a segment has at least 1 burst, not {self.bursts}")
        if not 0 <= self.sleep_s < 1:
            raise UsageError(f"the sleep after a chunk is 0 s to 1 s, not {self.sleep_s:g} s")


@dataclass(frozen=True, slots=True)
class MpsShare:
    """What MPS grants the transfer side; None leaves the daemon's default.

    Attributes:
        active_thread_percentage: 1 to 100.
        client_priority: 0 (normal) or 1 (below normal).
    """

    active_thread_percentage: int | None = None
    client_priority: int | None = None

    def __str__(self) -> str:
        """In words: `25 % of threads`, `client priority 1`."""
        threads, priority = self.active_thread_percentage, self.client_priority
        words = [f"{threads} % of threads"] if threads is not None else []
        words += [f"client priority {priority}"] if priority is not None else []
        return ", ".join(words) or "all that MPS gives"


@dataclass(frozen=True, slots=True)
class ServingLimits:
    """When a serving block may stop.

    Attributes:
        budget_s: time for its segments, in seconds; the first `min_rounds` rounds run regardless.
        min_rounds: segments of every candidate, and of the baseline.
        max_rounds: segments after which the block ends.
    """

    budget_s: float
    min_rounds: int = 3
    max_rounds: int = 12


@dataclass(frozen=True, slots=True)
class ServingBlock:
    """Several plans beside one decode workload, in one process, with a baseline of their own.

    A round is one segment of every candidate and one of the baseline, in random order. A segment is `pacing.bursts`
    periods; in those of the baseline nothing is transferred.

    Attributes:
        key, shape, candidates, seed, excluded, layout: as in `TransferBlock`; a ceiling is not required.
        colocation: where decode runs; not idle.
        decode: what it is.
        pacing: of the bursts.
        limits: when to stop.
        mps: of the transfer side, where the colocation is MPS.
    """

    key: str
    shape: TransferShape
    candidates: tuple[Candidate, ...]
    colocation: Colocation
    limits: ServingLimits
    seed: int
    decode: DecodeSpec = field(default_factory=DecodeSpec)
    pacing: Pacing = field(default_factory=Pacing)
    mps: MpsShare = field(default_factory=MpsShare)
    excluded: frozenset[int] = frozenset()
    layout: NamedLayout = SHUFFLED

    def __post_init__(self) -> None:
        self.layout.described(self.shape)
        if self.colocation is Colocation.IDLE:
            raise UsageError(f"block {self.key}: a serving block needs decode beside it; idle has none")
        if len({candidate.name for candidate in self.candidates}) < len(self.candidates):
            raise UsageError(f"block {self.key}: two candidates have the same name")


@dataclass(frozen=True, slots=True, eq=False)
class Segment:
    """What was seen in one segment. Times are seconds of the system's monotonic clock.

    Attributes:
        candidate: index into `ServingBlock.candidates`, or `BASELINE`.
        step_ends: (n + 1,) ends of the decode steps, the first being the begin of step 0; they reach at least a period
            past the time at which the last burst was due, and past its completion. A burst whose period they do not
            cover is left out of the statistics.
        due: (b,) when each burst was due, less than half a period away from whole periods after the first one; due
            times passed over are not among them.
        submitted: (b,) when it was submitted, at `due` unless the burst before was late.
        completed: (b,) when its end was seen.
        moved_bytes: of one burst, both directions together.
        period_s: the burst period that was used.
        host_cpu_s: processor time of the threads that submit and wait; None if not measured.
        status: anything but `OK` takes the candidate out of the block; the arrays are empty then.
        detail: why.
        flags: what is odd, one word each such as `serialised`.
        verified: whether every byte that the candidate moves has been compared, and was right, in this process.
    """

    candidate: int
    step_ends: Seconds
    due: Seconds
    submitted: Seconds
    completed: Seconds
    moved_bytes: int
    period_s: float
    host_cpu_s: float | None = None
    status: Status = Status.OK
    detail: str = ""
    flags: tuple[str, ...] = ()
    verified: bool = False

    @property
    def steps_s(self) -> Seconds:
        """(n,) durations of the steps."""
        return np.diff(self.step_ends)

    @property
    def tolerance_s(self) -> float:
        """How late a burst may be submitted without having missed its deadline: a hundredth of the period."""
        return self.period_s * LATENESS

    @property
    def missed(self) -> int:
        """Deadlines at which no burst could be submitted: of bursts that were late, and of due times passed over."""
        if not len(self.due):
            return 0
        periods = round(float(self.due[-1] - self.due[0]) / self.period_s) + 1
        return periods - len(self.due) + int((self.submitted - self.due > self.tolerance_s).sum())


def failed_segment(candidate: int, status: Status, detail: str) -> Segment:
    """What is reported of a candidate that could not run."""
    nothing = np.empty(0, np.float64)
    return Segment(candidate, nothing, nothing, nothing, nothing, 0, 0.0, None, status, detail)
