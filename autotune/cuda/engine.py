"""The engine of a real GPU."""

import contextlib
import os
from collections.abc import Iterator
from typing import Final

from numba.core import config

from pega_tune.autotune.cuda.abilities import Abilities
from pega_tune.autotune.cuda.bench import Bench, OddTransfers
from pega_tune.autotune.cuda.block import BlockRunner
from pega_tune.autotune.cuda.buffers import Buffers
from pega_tune.autotune.cuda.capability_reading import batch_copies, host_limits, mapped_memory
from pega_tune.autotune.cuda.comparing import POISON, Comparer
from pega_tune.autotune.cuda.copy_kernels import CopyKernels, forget_garbage
from pega_tune.autotune.cuda.lanes import Lane
from pega_tune.autotune.cuda.limits import MemoryLimits, device_limit, host_limit, locked_memory_limit
from pega_tune.autotune.cuda.machinery import Machinery
from pega_tune.autotune.cuda.sampling import LoadSampler
from pega_tune.autotune.cuda.serving.side import ServingDevice, ServingSide
from pega_tune.autotune.cuda.submission import SubmissionThread
from pega_tune.autotune.cuda.verifying import Verifier
from pega_tune.autotune.engine import Capabilities, Conditions, EngineLostError, Measurement, TransferBlock
from pega_tune.autotune.measuring.schedule import run_block
from pega_tune.autotune.serving import Segment, ServingBlock
from pega_tune.errors import DeviceError
from pega_tune.kernels.backends.base import UnsupportedPlanError
from pega_tune.kernels.backends.staged import staged
from pega_tune.kernels.batch_memory import remembered_batch
from pega_tune.kernels.closing import Closing
from pega_tune.kernels.compile_ahead import compile_ahead
from pega_tune.kernels.compile_cache import NO_CACHE, CompileCache
from pega_tune.kernels.compiling import kernel_digest
from pega_tune.kernels.context import PrimaryContext
from pega_tune.kernels.driver import DriverCallError, DriverTable
from pega_tune.kernels.facts import DeviceFacts
from pega_tune.kernels.green_context import GreenContexts
from pega_tune.kernels.host import Host
from pega_tune.kernels.memory import OutOfPinnedMemoryError, PinnedMemory
from pega_tune.kernels.partition_trial import try_partitions
from pega_tune.kernels.plan import AnyPlan, Backend, CopyPlan, PlanPair, Variant, direct, kernel
from pega_tune.kernels.probe import NoDeviceError, list_cuda_devices, list_devices
from pega_tune.kernels.shape import Direction
from pega_tune.kernels.span_memory import DeviceSpans
from pega_tune.kernels.spans import SpanRecorder
from pega_tune.kernels.stream import effective_priorities, priority_range
from pega_tune.kernels.telemetry import Telemetry
from pega_tune.profiles.policy.settings import environment_record

# Slabs are rounded up and have guards; without this much less, a block that just fits would not.
_ROUNDING_BYTES: Final = 16 << 20

# One of each kind of code that is compiled on its first call. Batched copies run no such code of their own, and a
# driver in which they fail all the same must not cost the engine.
_WARM_UP: Final[tuple[CopyPlan, ...]] = (
    direct(),
    *(kernel(variant, 8, 256) for variant in Variant),
    CopyPlan(Backend.PITCHED),
    staged(),
)
_FUSED: Final = PlanPair(staged(), staged(), fused=True)


class CudaEngine(Closing):
    """Measures one GPU; it is made and used in one thread of a process that has not been forked from a CUDA user."""

    def __init__(
        self,
        uuid: str,
        max_device_bytes: int | None = None,
        max_host_bytes: int | None = None,
        cache: CompileCache = NO_CACHE,
    ) -> None:
        """Makes a context, compiles the copy kernels, and runs everything once, so that no timed round compiles.

        Args:
            uuid: the device, as `list_devices` names it.
            max_device_bytes: most device memory to hold; None leaves it to what is free.
            max_host_bytes: most pinned host memory to hold; None leaves it to what is free.
            cache: of compiled copy kernels, and of what is known to work.

        Raises:
            DeviceError: the device is gone or unusable, its kernels cannot be compiled, or there is too little memory.
        """
        if config.ENABLE_CUDASIM:
            raise DeviceError("numba's CUDA simulator is on, which moves no bytes", "unset NUMBA_ENABLE_CUDASIM")
        ordinal, self._facts, self._bus_id = _find(uuid)
        compile_ahead(self._facts.identity.compute_capability, cache)
        # In a process that is gone before anybody looks who else is on the device.
        batch = remembered_batch(ordinal, self._facts, environment_record().variables, cache)
        with contextlib.ExitStack() as stack:
            self._telemetry = Telemetry(self._bus_id, uuid)
            stack.callback(self._telemetry.close)
            self._sampler = LoadSampler(self._telemetry, os.getpid(), self._telemetry.compute_pids())
            self._context = stack.enter_context(PrimaryContext(ordinal))
            kernels = stack.enter_context(CopyKernels(self._facts.identity.compute_capability, cache))
            self._kernel_digest = kernel_digest(self._facts.identity.compute_capability, cache)
            self._priorities = effective_priorities()
            max_threads = min(function.max_threads for function in kernels.functions.values())
            partitions = try_partitions(self._context.device, kernels.functions[Variant.WARP].handle)
            abilities = Abilities(priority_range(), max_threads, batch, partitions)
            self._mapped_memory = mapped_memory()
            self._limits = self._measure_limits().capped(max_device_bytes, max_host_bytes)
            contexts = stack.enter_context(GreenContexts(self._context.device)) if partitions.sizes else None
            machinery = Machinery(DriverTable.resolve(), kernels.functions, batch.signature, contexts)
            lanes = {way: stack.enter_context(Lane(way, machinery)) for way in Direction.BOTH.legs}
            buffers = stack.enter_context(Buffers(self._limits))
            verifier = Verifier(stack.enter_context(Comparer()), POISON)
            spans = stack.enter_context(DeviceSpans())
            recorder = SpanRecorder(kernels.timed, self._facts.identity.sm_count, spans)
            second = stack.enter_context(SubmissionThread(self._context.enter))
            self._bench = Bench(self._context, lanes, buffers, verifier, abilities, recorder, second)
            self._odd = OddTransfers(self._bench)
            self._warm_up()
            serving = ServingSide(ServingDevice(ordinal), self._bench, self._odd, self._sampler)
            self._serving = stack.enter_context(serving)
            self._resources = stack.pop_all()

    @property
    def facts(self) -> DeviceFacts:
        """Which device it is."""
        return self._facts

    def capabilities(self) -> Capabilities:
        """What can be measured here."""
        abilities = self._bench.abilities
        return Capabilities(
            backends=abilities.backends,
            priorities=self._priorities,
            max_threads=abilities.max_threads,
            device_bytes=max(0, self._limits.device_bytes - _ROUNDING_BYTES),
            host_bytes=max(0, self._limits.host_bytes - _ROUNDING_BYTES),
            other_processes=self._sampler.others(),
            kernel_digest=self._kernel_digest,
            priority_range=abilities.priorities,
            partitions=abilities.partitions,
            batch=batch_copies(abilities.batch),
            copy_engines=self._facts.identity.copy_engines,
            mapped_memory=self._mapped_memory,
            host=host_limits(Host(), self._bus_id),
        )

    def transfer(self, block: TransferBlock) -> Iterator[Measurement]:
        """Runs a block, as `Engine.transfer`."""
        self._serving.quiet()
        self._sampler.begin()
        runner = BlockRunner(block, self._bench, self._odd, self._sampler)
        yield from run_block(block, runner.execute)

    def beside_decode(self, block: ServingBlock) -> Iterator[Segment]:
        """Runs a serving block, as `Engine.beside_decode`; decode runs on until another kind of block is run."""
        return self._serving.beside_decode(block)

    def conditions(self) -> Conditions:
        """What was sampled while the last block ran."""
        return self._sampler.conditions()

    def close(self) -> None:
        """Frees all memory and lets the context go."""
        self._resources.close()

    def _measure_limits(self) -> MemoryLimits:
        return MemoryLimits(
            device_limit(self._context.memory().free_bytes),
            host_limit(Host(), locked_memory_limit(), _can_pin),
        )

    def _warm_up(self) -> None:
        plans: list[tuple[Direction, AnyPlan]] = [(way, plan) for way in Direction.BOTH.legs for plan in _WARM_UP]
        plans.append((Direction.BOTH, _FUSED))
        self._bench.reserve(self._odd.need, Direction.BOTH.legs, [_FUSED])
        try:
            for direction, plan in plans:
                with contextlib.suppress(UnsupportedPlanError):  # said again, with its block
                    self._odd.verify(direction, plan)  # a plan found wrong here is reported with its block
        except DriverCallError as error:
            raise EngineLostError(f"the first transfers failed: {error.message}", error.hint) from error
        self._bench.buffers.close()  # what blocks need is theirs to say
        forget_garbage()


def _find(uuid: str) -> tuple[int, DeviceFacts, str]:
    """Ordinal, facts and PCI bus id of a device."""
    for ordinal, (facts, device) in enumerate(zip(list_devices(), list_cuda_devices(), strict=True)):
        if facts.uuid == uuid:
            return ordinal, facts, device.bus_id
    raise NoDeviceError(f"no GPU has the UUID {uuid}", "`pega-tune devices` lists those there are")


def _can_pin(nbytes: int) -> bool:
    try:
        PinnedMemory(nbytes).close()
    except OutOfPinnedMemoryError:
        return False
    return True
