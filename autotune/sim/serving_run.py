"""A serving block on a simulated device: its segments, one after another."""

from dataclasses import replace
from random import Random
from typing import Final

import numpy as np

from pega_tune.autotune.engine import CandidateKind, Status
from pega_tune.autotune.pacing import Jitter, shortest_period_s
from pega_tune.autotune.serving import BASELINE, Segment, ServingBlock, failed_segment
from pega_tune.autotune.sim.block import MISMATCH, SimBlock
from pega_tune.autotune.sim.faults import SimFaults
from pega_tune.autotune.sim.model import TransferModel
from pega_tune.autotune.sim.parameters import SimParameters
from pega_tune.autotune.sim.programs import ProgramBuilder
from pega_tune.autotune.sim.scene import Scene, SceneRun, Seen
from pega_tune.autotune.sim.stages import Program
from pega_tune.autotune.sweep.plans import legs_of
from pega_tune.errors import UsageError
from pega_tune.kernels.decode.models import DecodeModel, StepKind
from pega_tune.kernels.plan import MAX_THREADS, Completion
from pega_tune.profiles.policy.terms import Colocation

_MEASURED: Final = "qwen3-4b"  # whose steps the data files have
_TRIAL: Final = Scene(Colocation.IDLE, 0.0, None, period_s=0.2, bursts=3)
_LONGER: Final = 1.02  # than the longest of so few are steps and bursts now and then


class ServingRun:
    """One block in progress: equal blocks give equal segments, on a clock that begins at 0.

    Stream priorities and the client priority under MPS change nothing: priorities have been measured only between
    processes that take turns, and changed nothing there.
    """

    def __init__(self, parameters: SimParameters, faults: SimFaults, block: ServingBlock) -> None:
        """Sets up.

        Raises:
            UsageError: there is no such decode model, priority or share.
        """
        _require(parameters, block)
        self._parameters: Final = parameters
        self._block: Final = block
        self._candidates: Final = SimBlock(parameters, faults, block)
        self._builder: Final = ProgramBuilder(TransferModel(_granted(parameters, block)), parameters.serving.copy_ratio)
        self._shared: Final = Random(f"{block.seed}/copy engine").random() < parameters.serving.shared_engine
        self._step_s: Final = step_s(parameters, block.colocation, DecodeModel.parse(block.decode.model))
        self._runs: Final = dict.fromkeys((BASELINE, *range(len(block.candidates))), 0)
        self._clock_s = 0.0

    def execute(self, index: int) -> Segment:
        """Runs a segment of a candidate, or of the baseline."""
        if index == BASELINE:
            return self._segment(index, self._scene(None, self._longest_period_s()))
        if refused := self._candidates.refusal(index):
            return failed_segment(index, Status.UNSUPPORTED, refused)
        if self._candidates.mismatched(index):
            return failed_segment(index, Status.MISMATCH, MISMATCH)
        self._candidates.rehearse(index)
        return self._segment(index, self._scene(self._program(index), self._period_s(index)))

    def _scene(self, program: Program | None, period_s: float) -> Scene:
        pacing, colocation = self._block.pacing, self._block.colocation
        return Scene(colocation, self._step_s, program, period_s, pacing.bursts, pacing.sleep_s, self._shared)

    def _segment(self, index: int, scene: Scene) -> Segment:
        seen = self._play(index, scene)
        begin_s, self._clock_s = self._clock_s, self._clock_s + seen.step_ends[-1]
        due, submitted, completed = (begin_s + np.array(t) for t in (seen.due, seen.submitted, seen.completed))
        polls = index != BASELINE and all(
            leg.completion is not Completion.BLOCKING_EVENT for leg in legs_of(self._block.candidates[index].plan)
        )
        return Segment(
            candidate=index,
            step_ends=begin_s + np.array(seen.step_ends),
            due=due,
            submitted=submitted,
            completed=completed,
            moved_bytes=0 if index == BASELINE else self._block.shape.moved_bytes,
            period_s=scene.period_s,
            host_cpu_s=float((completed - submitted).sum()) if polls else None,
            verified=index != BASELINE,
        )

    def _play(self, index: int, scene: Scene) -> Seen:
        name = "" if index == BASELINE else self._block.candidates[index].name
        self._runs[index] += 1
        seed = f"{self._block.seed}/{name}/{self._runs[index]}"
        jitter = Jitter.over_a_step(self._step_s, scene.period_s, f"{seed}/jitter")
        return SceneRun(self._parameters, replace(scene, jitter=jitter), seed).run()

    def _program(self, index: int) -> Program:
        candidate, shape = self._block.candidates[index], self._candidates.shape(index)
        if candidate.kind is CandidateKind.CEILING:
            return self._builder.contiguous(shape)
        return self._builder.program(candidate.plan, shape)

    def _period_s(self, index: int) -> float:
        """As asked for, or the shortest one for what a few bursts take."""
        if self._block.pacing.period_s is not None:
            return self._block.pacing.period_s
        trial = replace(_TRIAL, colocation=self._block.colocation, step_s=self._step_s, program=self._program(index))
        seen = SceneRun(self._parameters, trial, f"{self._block.seed}/{index}").run()
        completion_s = max(end - begin for begin, end in zip(seen.submitted, seen.completed, strict=True))
        return shortest_period_s(_LONGER * self._step_s, _LONGER * completion_s)

    def _longest_period_s(self) -> float:
        """Of the candidates that run."""
        indices = range(len(self._block.candidates))
        running = [i for i in indices if i not in self._block.excluded and not self._candidates.refusal(i)]
        return max((self._period_s(i) for i in running), default=self._block.pacing.period_s or _TRIAL.period_s)


def step_s(parameters: SimParameters, colocation: Colocation, model: DecodeModel) -> float:
    """A step of a model by itself: as long as its bytes take, at the rate of the measured one, or its operations."""
    serving, measured = parameters.serving, DecodeModel.parse(_MEASURED)
    reading_s = serving.step_s[colocation] * model.step_bytes / measured.step_bytes
    shortest_s = 2 * (serving.host_s + serving.small_copy_s)
    computing_s = model.step_flops / serving.flops if model.kind is StepKind.PREFILL else 0.0
    return max(reading_s, computing_s, shortest_s)


def _require(parameters: SimParameters, block: ServingBlock) -> None:
    priority, share = block.decode.stream_priority, block.mps.active_thread_percentage
    block.decode.require_simulable()
    if priority not in parameters.priorities:
        raise UsageError(f"there is no stream priority {priority} here")
    if share is not None and not 1 <= share <= 100:
        raise UsageError(f"an active-thread percentage is 1 to 100, not {share}")


def _granted(parameters: SimParameters, block: ServingBlock) -> SimParameters:
    """The device as transfers have it: with a part of its SMs, if MPS leaves them no more."""
    share, kernel = block.mps.active_thread_percentage, parameters.kernel
    if share is None or block.colocation is not Colocation.MPS:
        return parameters
    threads = max(MAX_THREADS, kernel.resident_threads * share // 100)
    return replace(parameters, kernel=replace(kernel, resident_threads=threads))
