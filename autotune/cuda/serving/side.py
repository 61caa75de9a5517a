"""The serving side of an engine: what it measures beside decode, from the first such block on."""

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from pega_tune.autotune.cuda.bench import Bench, OddTransfers, Transfer
from pega_tune.autotune.cuda.block import BlockRunner
from pega_tune.autotune.cuda.copy_kernels import forget_garbage
from pega_tune.autotune.cuda.sampling import LoadSampler
from pega_tune.autotune.cuda.serving.bursts import HostClock
from pega_tune.autotune.cuda.serving.decode import RunningDecode, Workload
from pega_tune.autotune.cuda.serving.decodes import Beside, Decodes, Starting
from pega_tune.autotune.cuda.serving.overlap import bench_copies
from pega_tune.autotune.cuda.serving.places import is_mps_client, mps_servers, require_place, start_decode
from pega_tune.autotune.cuda.serving.runner import Equipment, ServingRunner, as_transfers
from pega_tune.autotune.cuda.serving.ways import WORKER_JOBS, SecondWorker, Ways
from pega_tune.autotune.engine import EngineLostError
from pega_tune.autotune.measuring.serving.schedule import run_serving_block
from pega_tune.autotune.serving import Segment, ServingBlock
from pega_tune.kernels.closing import Closing
from pega_tune.kernels.driver import DriverCallError, DriverTable
from pega_tune.kernels.worker import TransferWorker
from pega_tune.profiles.policy.terms import Colocation


@dataclass(frozen=True, slots=True)
class ServingDevice:
    """What the serving side asks of the device.

    Attributes:
        ordinal: its index in CUDA's order.
        start_decode: in its place.
        is_mps_client: whether our contexts on the device of an ordinal are shared through MPS.
        table: the driver.
    """

    ordinal: int
    start_decode: Callable[[Workload, Colocation], RunningDecode] = start_decode
    is_mps_client: Callable[[int], bool] = is_mps_client
    table: Callable[[], DriverTable] = DriverTable.resolve


class ServingSide(Closing):
    """Runs serving blocks on a bench."""

    def __init__(self, device: ServingDevice, bench: Bench, odd: OddTransfers, sampler: LoadSampler) -> None:
        """Prepares nothing yet: an engine may never be asked.

        Args:
            device: where decode runs.
            bench: transfers.
            odd: verifies plans on awkward ranges.
            sampler: telemetry.
        """
        self._device = device
        self._bench = bench
        self._odd = odd
        self._sampler = sampler
        self._host: Final = HostClock(cpu_s=self._cpu_s)
        self._ways: Ways | None = None
        starting = Starting(device.start_decode, lambda: bench_copies(bench), sampler, self._host)
        self._decodes = Decodes(device.ordinal, starting)

    def beside_decode(self, block: ServingBlock) -> Iterator[Segment]:
        """Runs a block, as `Engine.beside_decode`."""
        under_mps = self._device.is_mps_client(self._device.ordinal)
        require_place(block.colocation, block.mps, under_mps)
        if under_mps:
            self._sampler.adopt((os.getpid(), *mps_servers()))
        self._sampler.begin()
        beside = self._decode_for(block)
        transfers = BlockRunner(as_transfers(block), self._bench, self._odd, self._sampler)
        equipment = Equipment(transfers, self._warm_up, self._chosen_ways(), self._host)
        runner = ServingRunner(block, equipment, beside)
        forget_garbage()
        yield from run_serving_block(block, runner.execute)

    def quiet(self) -> None:
        """Ends decode, so that something else can be measured."""
        self._decodes.close()

    def close(self) -> None:
        """Ends decode."""
        self._decodes.close()

    def _decode_for(self, block: ServingBlock) -> Beside:
        try:
            return self._decodes.beside(block.decode, block.colocation)
        except DriverCallError as error:
            if error.is_sticky:
                raise EngineLostError(f"the context is lost: {error.message}", error.hint) from error
            raise

    def _warm_up(self, transfer: Transfer) -> None:
        self._bench.run(transfer, meanwhile=self._sampler.sample)

    def _chosen_ways(self) -> Ways:
        if self._ways is None:
            table, thread = self._device.table(), self._bench.second
            second = SecondWorker(thread, TransferWorker(table, WORKER_JOBS)) if thread else None
            self._ways = Ways(table, TransferWorker(table, WORKER_JOBS), second)
        return self._ways

    def _cpu_s(self) -> float:
        """Processor time of this thread and of the one that submits the second direction."""
        second = self._bench.second
        return time.thread_time() + (second.cpu_s if second else 0.0)
