"""The `pitched` backend: one 2-D DMA copy per arithmetic progression, plain ones for the rest."""

from dataclasses import replace

import numpy as np

from pega_tune.kernels.backends.base import nothing, require
from pega_tune.kernels.descriptors import sides
from pega_tune.kernels.pitched_commands import PitchedWriter
from pega_tune.kernels.plan import Backend, CopyPlan
from pega_tune.kernels.program import Lease, Program, Route
from pega_tune.kernels.progression_chunks import cut_progressions
from pega_tune.kernels.progressions import ProgressionFinder
from pega_tune.kernels.ranges import RangeBatch
from pega_tune.kernels.shape import Direction

_NO_BARRIERS = np.empty(0, np.uint64)


class PitchedBackend:
    """Runs on copy engines alone, with little submission where ranges lie in strides. See `TransferBackend`."""

    def __init__(self, finder: ProgressionFinder) -> None:
        """Keeps what is needed to run.

        Args:
            finder: for this backend alone.
        """
        self._finder = finder
        self._writer = PitchedWriter()
        self._lease = Lease()

    def prepare(self, batch: RangeBatch, direction: Direction, plan: CopyPlan, route: Route) -> Program:
        """As `TransferBackend.prepare`."""
        require(plan, Backend.PITCHED)
        sides(batch.device, batch.host, direction)  # refuses both
        self._lease.revoked, self._lease = True, Lease()
        if not len(batch):
            return nothing(route, self._lease)
        groups = cut_progressions(self._finder.find(batch), plan.chunk_bytes)
        taken: list[int] = []
        if plan.backpressure and len(groups) > 1:
            taken += (route.events.take() for _ in range(len(groups) - 1))
        barriers = np.array(taken, np.uint64) if taken else _NO_BARRIERS
        if route.end is None:
            taken.append(route.events.take())
            route = replace(route, end=taken[-1])
        assert route.end is not None
        commands = self._writer.write(groups, direction, route, barriers)
        return Program(commands, route.end, self._writer.owners, tuple(taken), self._lease, (route.stream,))
