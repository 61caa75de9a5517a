"""An engine without a device: it follows the schedule, and takes its times from a model."""

import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from random import Random

from pega_tune.autotune.capabilities import BatchCopies, MappedMemory
from pega_tune.autotune.engine import (
    CandidateKind,
    Capabilities,
    Conditions,
    EngineLostError,
    Measurement,
    MemoryLimitError,
    Phase,
    Status,
    TransferBlock,
)
from pega_tune.autotune.measuring.schedule import Step, run_block
from pega_tune.autotune.measuring.serving.schedule import run_serving_block
from pega_tune.autotune.serving import Segment, ServingBlock
from pega_tune.autotune.sim.block import MISMATCH, SimBlock, partitions_of
from pega_tune.autotune.sim.faults import SimFaults
from pega_tune.autotune.sim.model import MODELLED_BACKENDS, TransferModel
from pega_tune.autotune.sim.parameters import SimParameters
from pega_tune.autotune.sim.serving_run import ServingRun
from pega_tune.autotune.sim.times import TransferTimes
from pega_tune.kernels.facts import DeviceFacts
from pega_tune.kernels.plan import MAX_THREADS
from pega_tune.kernels.stream_options import PriorityRange

SLOW_BLOCK_S = 0.2
"""Real seconds of a block on a device with the fault `slow`."""

NOMEM_BYTES = 1 << 20
"""Memory of a device with the fault `nomem`."""

_OTHER_PROCESS = 4_242_424  # past the largest process id that Linux gives by default


@dataclass(frozen=True, slots=True)
class SimOptions:
    """How a simulated device differs from its data file.

    Attributes:
        faults: what goes wrong on it.
        max_device_bytes: least upper bound on device memory, in bytes; None adds none.
        max_host_bytes: least upper bound on pinned host memory, in bytes; None adds none.
    """

    faults: SimFaults = field(default_factory=SimFaults)
    max_device_bytes: int | None = None
    max_host_bytes: int | None = None


class SimEngine:
    """Simulated transfers and decode: equal blocks give equal measurements, in any process.

    Times carry log-normal noise drawn from the block's seed, the candidate's name and how often it has run.
    """

    def __init__(self, parameters: SimParameters, options: SimOptions | None = None) -> None:
        self._parameters = parameters
        self._options = options or SimOptions()
        self._closed = False

    @property
    def facts(self) -> DeviceFacts:
        """What the simulated device claims to be; faults do not show in it."""
        return self._parameters.facts

    def capabilities(self) -> Capabilities:
        """The modelled backends, and the memory left by data file, options and faults; of a host it knows nothing."""
        options, priorities = self._options, self._parameters.priorities
        return Capabilities(
            backends=MODELLED_BACKENDS,
            priorities=priorities,
            max_threads=MAX_THREADS,
            device_bytes=self._limit(self._parameters.device_bytes, options.max_device_bytes),
            host_bytes=self._limit(self._parameters.host_bytes, options.max_host_bytes),
            other_processes=(_OTHER_PROCESS,) if options.faults.busy else (),
            kernel_digest="",
            priority_range=PriorityRange(priorities[0], priorities[-1]),
            partitions=partitions_of(self._parameters),
            batch=BatchCopies(self._parameters.batch_signature),
            copy_engines=self.facts.identity.copy_engines,
            mapped_memory=MappedMemory.SAME_ADDRESS,
        )

    def transfer(self, block: TransferBlock) -> Iterator[Measurement]:
        """As `Engine.transfer`."""
        self._require(block)
        return run_block(block, _Block(self._parameters, self._options.faults, block).execute)

    def beside_decode(self, block: ServingBlock) -> Iterator[Segment]:
        """As `Engine.beside_decode`, on a clock of its own; see `ServingRun`."""
        self._require(block)
        if self._options.faults.slow:
            time.sleep(SLOW_BLOCK_S)
        return run_serving_block(block, ServingRun(self._parameters, self._options.faults, block).execute)

    def conditions(self) -> Conditions:
        """Full clocks and link, less what the faults say."""
        identity, provenance, faults = self.facts.identity, self.facts.provenance, self._options.faults
        clock = provenance.max_sm_clock_hz
        return Conditions(
            sm_clock_hz=clock // 2 if clock and faults.throttled else clock,
            link=identity.max_link,
            throttle_reasons=("sw-thermal-slowdown",) if faults.throttled else (),
            other_processes=(_OTHER_PROCESS,) if faults.busy or faults.contended else (),
            temperature_c=90 if faults.throttled else 50,
        )

    def close(self) -> None:
        """As `Engine.close`."""
        self._closed = True

    def _limit(self, there_is: int, asked: int | None) -> int:
        least = min(there_is, NOMEM_BYTES) if self._options.faults.nomem else there_is
        return least if asked is None else min(least, asked)

    def _require(self, block: TransferBlock | ServingBlock) -> None:
        if self._closed:
            raise EngineLostError("the engine has been closed")
        have, need = self.capabilities(), block.shape.moved_bytes
        for what, limit in (("device memory", have.device_bytes), ("pinned host memory", have.host_bytes)):
            if need > limit:
                lack = f"{need} bytes of {what} are needed, and {limit} may be used"
                raise MemoryLimitError(f"too little memory: {lack}", "allow more, or measure smaller shapes")


class _Block:
    """One block in progress."""

    def __init__(self, parameters: SimParameters, faults: SimFaults, block: TransferBlock) -> None:
        self._model = TransferModel(parameters)
        self._parameters = parameters
        self._faults = faults
        self._block = block
        self._candidates = SimBlock(parameters, faults, block)
        self._executions = [0] * len(block.candidates)

    def execute(self, step: Step) -> Measurement:
        """Runs one step of the schedule."""
        candidate = self._block.candidates[step.candidate]
        if step.phase is Phase.VERIFY:
            return self._verify(step.candidate)
        self._candidates.rehearse(step.candidate)
        contiguous = candidate.kind is CandidateKind.CEILING
        shape = self._candidates.shape(step.candidate)
        times = self._model.contiguous(shape) if contiguous else self._model.times(candidate.plan, shape)
        return self._measured(step.candidate, times)

    def _verify(self, index: int) -> Measurement:
        if self._faults.slow:
            time.sleep(SLOW_BLOCK_S / len(self._block.candidates))
        done = Measurement(index, Phase.VERIFY)
        if refused := self._candidates.refusal(index):
            return replace(done, status=Status.UNSUPPORTED, detail=refused)
        if self._candidates.mismatched(index):
            return replace(done, status=Status.MISMATCH, detail=MISMATCH)
        return done

    def _measured(self, index: int, times: TransferTimes) -> Measurement:
        run = self._executions[index]
        self._executions[index] += 1
        name = self._block.candidates[index].name
        noise = Random(f"{self._block.seed}/{name}/{run}").lognormvariate(0.0, self._parameters.noise_sigma)
        return Measurement(
            candidate=index,
            phase=Phase.TIMED,
            transfer_s=times.transfer_s * noise,
            prepare_s=times.prepare_s * noise,
            submit_s=times.submit_s * noise,
            device_s=times.device_s * noise,
            moving_s=(times.transfer_s - times.prepare_s) * noise,
            sm_s=None if run or times.sm_s is None else times.sm_s * noise,
            span_s=None if run or times.span_s is None else times.span_s * noise,
        )
