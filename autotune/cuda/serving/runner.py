"""The segments of one serving block, run on a GPU."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, Protocol

from pega_tune.autotune.cuda.bench import Transfer
from pega_tune.autotune.cuda.block import CANDIDATE_ERRORS, CandidateError
from pega_tune.autotune.cuda.serving.bursts import Burst, HostClock, run_bursts
from pega_tune.autotune.cuda.serving.decodes import Beside
from pega_tune.autotune.cuda.serving.ways import Ways
from pega_tune.autotune.engine import Candidate, Measurement, Phase, SamplingLimits, Status, TransferBlock
from pega_tune.autotune.measuring.schedule import Step
from pega_tune.autotune.pacing import Jitter, PacedClock, shortest_period_s
from pega_tune.autotune.serving import BASELINE, Segment, ServingBlock, failed_segment

_WARM_BURSTS: Final = 3  # of which the longest tells how long a burst takes
_BASELINE_S: Final = 0.25  # 60 to 80 steps of the models that are brought along, in each of several segments


class Transfers(Protocol):
    """The candidates as transfers, as `BlockRunner`."""

    def execute(self, step: Step) -> Measurement:
        """Verifies a candidate."""

    def transfer(self, candidate: Candidate) -> Transfer:
        """What a candidate moves, and how."""

    def outcome_of(self, step: Step, error: CandidateError) -> Measurement:
        """What an error says of the candidate that was running."""


@dataclass(frozen=True, slots=True)
class Equipment:
    """What serving blocks are run with.

    Attributes:
        transfers: the candidates.
        warm_up: runs a transfer once, and samples telemetry meanwhile.
        ways: how bursts are run.
        host: clock and processor.
    """

    transfers: Transfers
    warm_up: Callable[[Transfer], object]
    ways: Ways
    host: HostClock


@dataclass(frozen=True, slots=True)
class Ready:
    """A candidate that has been verified and warmed up.

    Attributes:
        burst: what it runs.
        period_s: between two of them.
    """

    burst: Burst
    period_s: float


class ServingRunner:
    """Runs the segments of a block.

    Before its first segment a candidate is verified byte for byte and warmed up, while decode goes on.
    """

    def __init__(self, block: ServingBlock, equipment: Equipment, beside: Beside) -> None:
        self._block = block
        self._equipment = equipment
        self._beside = beside
        self._ready: dict[int, Ready] = {}
        self._segments = dict.fromkeys(range(len(block.candidates)), 0)

    def execute(self, candidate: int) -> Segment:
        """Runs one segment, of a candidate or of `BASELINE`.

        Raises:
            EngineLostError: the candidate has cost the context, or decode.
        """
        self._beside.decode.check()
        if candidate == BASELINE:
            return self._baseline()
        step = Step(candidate, Phase.VERIFY)
        if candidate not in self._ready:
            verified = self._equipment.transfers.execute(step)
            if verified.status is not Status.OK:
                return failed_segment(candidate, verified.status, verified.detail)
        try:
            return self._segment(candidate)
        except CANDIDATE_ERRORS as error:
            outcome = self._equipment.transfers.outcome_of(step, error)
            return failed_segment(candidate, outcome.status, outcome.detail)

    def _segment(self, candidate: int) -> Segment:
        if candidate not in self._ready:
            self._ready[candidate] = self._warm_up(candidate)
        ready, host = self._ready[candidate], self._equipment.host
        jitter = self._jitter(candidate, ready.period_s)
        begin_s = host.now_s()
        times = run_bursts(PacedClock(begin_s, ready.period_s, jitter), ready.burst, self._block.pacing.bursts, host)
        end_s = max(times.due[-1] + ready.period_s, times.completed[-1])
        return Segment(
            candidate,
            self._beside.decode.ends_through(begin_s, float(end_s)),
            times.due,
            times.submitted,
            times.completed,
            self._block.shape.moved_bytes,
            ready.period_s,
            times.cpu_s,
            flags=self._beside.flags,
            verified=True,
        )

    def _jitter(self, candidate: int, period_s: float) -> Jitter:
        """Of the next segment of a candidate."""
        self._segments[candidate] += 1
        seed = f"{self._block.seed}/{self._block.candidates[candidate].name}/{self._segments[candidate]}/jitter"
        return Jitter.over_a_step(self._beside.median_s, period_s, seed)

    def _baseline(self) -> Segment:
        """As long as the segments of the quickest candidate, or `_BASELINE_S`, with nothing to transfer."""
        period_s = self._baseline_period_s()
        begin_s = self._equipment.host.now_s()
        end_s = begin_s + max(_BASELINE_S, (self._block.pacing.bursts + 1) * period_s)
        ends_s = self._beside.decode.ends_through(begin_s, end_s)
        none = failed_segment(BASELINE, Status.OK, "")
        return replace(none, step_ends=ends_s, period_s=period_s, flags=self._beside.flags)

    def _baseline_period_s(self) -> float:
        """The block's; else the shortest of those that candidates have, or that of a burst as long as a step."""
        shortest_s = min((ready.period_s for ready in self._ready.values()), default=0.0)
        step_s = self._beside.step_s
        return self._block.pacing.period_s or shortest_s or shortest_period_s(step_s, step_s)

    def _warm_up(self, candidate: int) -> Ready:
        chosen, equipment = self._block.candidates[candidate], self._equipment
        transfer = equipment.transfers.transfer(chosen)
        equipment.warm_up(transfer)
        burst = equipment.ways.burst(chosen.plan, transfer.runs, self._block.pacing.sleep_s)
        longest_s = 0.0
        for _ in range(_WARM_BURSTS):
            begin_s = equipment.host.now_s()
            longest_s = max(longest_s, burst.run() - begin_s)
        period_s = self._block.pacing.period_s or shortest_period_s(self._beside.step_s, longest_s)
        return Ready(burst, period_s)


def as_transfers(block: ServingBlock) -> TransferBlock:
    """The same candidates, ranges and data as a block that only transfers.

    Raises:
        UsageError: a candidate moves something else than the block.
    """
    return TransferBlock(
        block.key,
        block.shape,
        block.candidates,
        SamplingLimits(budget_s=0.0),
        block.seed,
        block.excluded,
        block.layout,
    )
